//! W1 to W7.
//!
//! All are a tenth of what they stand for: ten districts in place of a hundred, a tenth of the rows
//! and of the memory. So the same numbers of rows die for a district when a second of the store has
//! 2.67 deliveries for each of ten districts. There are still ten warehouses, each with a district:
//! in one warehouse all payments would conflict.

use std::time::Duration;

use anyhow::Result;

use super::super::time::SPEED;
use super::super::tpcc::NEW_ORDERS;
use super::super::tpcc::scale::Scale;
use super::super::variants::Settings;
use super::queue::Queue;
use super::rows::{Rows, popular, uniform};
use super::together::Together;
use super::{Event, Extent, Part, Window, Workload};
use crate::catalogue::Suite;

/// Titles of the workloads.
const TITLES: [&str; 7] = [
    "queue: TPC-C, the store's safe point frozen",
    "hot rows: overwrites and scans of few popular rows, nothing is dropped",
    "default retention: W1 and W2, ten minutes of history",
    "does not fit: W1 beside uniform reads of a large table",
    "old readers: W1, 5 % of the queries as of ten minutes ago, a snapshot is held",
    "large values: 4 KiB, half of the scans read keys only",
    "churn: W1 with restart, less memory, a hot spot that moves, mass writes",
];

/// The title of a workload.
pub(crate) fn title(name: &str) -> &'static str {
    let mut titles = Suite::RangeCache.names().iter().zip(TITLES);
    titles
        .find(|(known, _)| **known == name)
        .map_or("", |(_, title)| title)
}

/// Steps for a row of the store alone at which W1 is compared, as was published.
pub(crate) const PUBLISHED_STEPS: f64 = 62.0;

/// New orders of a district in a second of the store: 300 a second in 100 districts.
const NEW_ORDERS_OF_DISTRICT: f64 = 3.0;
/// Deliveries of a district for each of its new orders.
const DELIVERIES: f64 = 4.0 / 45.0 * 10.0;

const SCALE: Scale = Scale {
    warehouses: 10,
    districts: 1,
    delivered: 10,
    customers: 300,
    items: 2_000,
};

const SETTINGS: Settings = Settings {
    retention: None,
    block_cache: 64 << 20,
    range_cache: 64 << 20,
};

/// TPC-C's jobs a second of the clock.
fn queue_rate() -> f64 {
    NEW_ORDERS_OF_DISTRICT * f64::from(SCALE.delivered) * SPEED / NEW_ORDERS
}

fn queue(extent: Extent) -> Queue {
    let history = extent.history.as_secs_f64() * NEW_ORDERS_OF_DISTRICT * DELIVERIES;
    Queue::new(SCALE, history as u32, extent.history)
}

fn one_phase(extent: Extent) -> Vec<Part> {
    vec![Part {
        name: "all",
        event: Event::None,
        seconds: extent.seconds,
    }]
}

/// 100,000 rows of 200 bytes, 2,000 overwrites and 500 scans of 100 rows a second.
fn hot_rows(is_pinned: bool, extent: Extent) -> Result<Rows> {
    let rows = 100_000;
    Ok(Rows {
        rows,
        bytes: 200,
        overwrites: 200_000 / extent.divisor,
        writes: 4,
        scans: 1,
        gets: 0,
        length: 100,
        keys_only: 0,
        is_pinned,
        keys: popular(rows)?,
    })
}

const HOT_ROWS_RATE: f64 = 2_500.0;

/// The workload of this name.
///
/// # Errors
/// If there is none.
pub(crate) fn workload(name: &str, extent: Extent) -> Result<Workload> {
    let whole = Workload {
        name: "W1",
        settings: SETTINGS,
        rate: queue_rate(),
        phases: one_phase(extent),
        window: Window::Between(0.4, 1.0),
        scenario: Box::new(queue(extent)),
    };
    Ok(match name {
        "W1" => Workload {
            window: Window::Crossing(PUBLISHED_STEPS),
            ..whole
        },
        "W2" => Workload {
            name: "W2",
            rate: HOT_ROWS_RATE,
            scenario: Box::new(hot_rows(true, extent)?),
            ..whole
        },
        "W3" => Workload {
            name: "W3",
            settings: Settings {
                retention: Some(Duration::from_secs(600)),
                ..SETTINGS
            },
            rate: queue_rate() + HOT_ROWS_RATE,
            scenario: Box::new(Together {
                scenarios: [Box::new(queue(extent)), Box::new(hot_rows(false, extent)?)],
                first: queue_rate() / (queue_rate() + HOT_ROWS_RATE),
            }),
            ..whole
        },
        "W4" => does_not_fit(whole, extent)?,
        "W5" => old_readers(whole, extent),
        "W6" => Workload {
            name: "W6",
            rate: 500.0,
            scenario: Box::new(Rows {
                rows: 20_000 / extent.divisor,
                bytes: 4096,
                overwrites: 20_000 / extent.divisor,
                writes: 2,
                scans: 3,
                gets: 0,
                length: 50,
                keys_only: 50,
                is_pinned: true,
                keys: popular(20_000 / extent.divisor)?,
            }),
            ..whole
        },
        "W7" => churn(whole, extent),
        _ => return Err(Suite::RangeCache.unknown(name)),
    })
}

/// W1 beside reads of a table that is twenty times as large as the range cache, and five times as
/// the block cache.
fn does_not_fit(whole: Workload, extent: Extent) -> Result<Workload> {
    let rows = 800_000 / extent.divisor;
    let bytes = 400_u64;
    let table = u64::from(rows) * bytes;
    let beside = 1_000.0;
    let table_of_rows = Rows {
        rows,
        bytes: bytes as usize,
        overwrites: 0,
        writes: 1,
        scans: 1,
        gets: 8,
        length: 100,
        keys_only: 0,
        is_pinned: false,
        keys: uniform(rows)?,
    };
    Ok(Workload {
        name: "W4",
        settings: Settings {
            retention: Some(Duration::from_secs(600)),
            block_cache: table / 5,
            range_cache: table / 20,
        },
        rate: queue_rate() + beside,
        scenario: Box::new(Together {
            scenarios: [Box::new(queue(extent)), Box::new(table_of_rows)],
            first: queue_rate() / (queue_rate() + beside),
        }),
        ..whole
    })
}

/// W1 with queries of the past, and a snapshot that is held.
fn old_readers(whole: Workload, extent: Extent) -> Workload {
    let part = |name, event, share| Part {
        name,
        event,
        seconds: extent.seconds * share,
    };
    Workload {
        name: "W5",
        phases: vec![
            part("none is held", Event::None, 0.4),
            part("a snapshot is held", Event::HoldSnapshot, 0.6),
        ],
        window: Window::Between(0.5, 1.0),
        scenario: Box::new(Queue {
            old: 5,
            age: Duration::from_secs(600),
            ..queue(extent)
        }),
        ..whole
    }
}

/// W1 in one of two groups of warehouses, and everything that makes a cache begin anew.
fn churn(whole: Workload, extent: Extent) -> Workload {
    let part = |name, event| Part {
        name,
        event,
        seconds: extent.phase,
    };
    let scale = Scale {
        warehouses: 2 * SCALE.warehouses,
        ..SCALE
    };
    let queue = Queue {
        scale,
        ..queue(extent)
    };
    Workload {
        name: "W7",
        phases: vec![
            part("begin", Event::None),
            part("restart", Event::Restart),
            part("memory / 4", Event::DivideMemory(4)),
            part("memory as before", Event::DivideMemory(1)),
            part("hot spot moves", Event::MoveTo(1)),
            part("hot spot moves back", Event::MoveTo(0)),
            part("queues deleted", Event::DeleteQueues),
            part("queues filled", Event::FillQueues),
        ],
        window: Window::Between(0.0, 1.0),
        scenario: Box::new(queue),
        ..whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_a_workload() {
        let extent = Extent {
            history: Duration::from_secs(60),
            seconds: 10.0,
            phase: 1.0,
            divisor: 2,
        };
        for name in Suite::RangeCache.names() {
            let workload = workload(name, extent).unwrap();
            assert_eq!(workload.name, *name);
            assert!(!title(name).is_empty() && workload.rate > 0.0 && !workload.phases.is_empty());
        }
        assert!(workload("W8", extent).is_err());
        // 300 new orders a second in a hundred districts are 720 a second of the clock in ten.
        assert!((queue_rate() * NEW_ORDERS - 720.0).abs() < 1e-6);
    }
}
