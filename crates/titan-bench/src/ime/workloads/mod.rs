//! The workloads: what they load, what their jobs do, and what happens meanwhile.
//!
//! | module | has |
//! |---|---|
//! | [`catalog`] | W1 to W7: sizes, rates, phases |
//! | [`queue`] | TPC-C, whose queues of new orders have dead rows |
//! | [`rows`] | a table of rows that are overwritten, scanned and read |
//! | [`together`] | two of these at once |

pub(super) mod catalog;
mod queue;
mod rows;
mod together;

use std::time::Duration;

use anyhow::Result;
use titan_mvcc::Store;

use super::pools::Work;
use super::time::StoreTime;
use super::variants::{Opened, Settings};

/// A workload.
pub(super) struct Workload {
    pub(super) name: &'static str,
    pub(super) settings: Settings,
    /// Jobs a second.
    pub(super) rate: f64,
    pub(super) phases: Vec<Part>,
    pub(super) window: Window,
    pub(super) scenario: Box<dyn Scenario>,
}

/// Which part of a run gives its figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Window {
    /// Around the moment when the store alone takes so many steps for a row.
    Crossing(f64),
    /// From this share of the run to another.
    Between(f64, f64),
}

/// A part of a run: what happens first, and for how long the jobs run then.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) name: &'static str,
    pub(super) event: Event,
    pub(super) seconds: f64,
}

/// Event before a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// Nothing.
    None,
    /// The store is closed and opened.
    Restart,
    /// The memory of the range cache is divided by this.
    DivideMemory(u64),
    /// The jobs go to this group of warehouses from now on.
    MoveTo(u32),
    /// All rows of some queues are deleted by one transaction.
    DeleteQueues,
    /// They are put again by one transaction.
    FillQueues,
    /// A snapshot is taken and held, until another event.
    HoldSnapshot,
}

/// Steps of a workload.
pub(super) trait Scenario: Work {
    /// Makes the first state of the store.
    fn load(&self, store: &Store, time: &StoreTime) -> Result<()>;

    /// Before the jobs begin.
    fn begin(&self, _: &Opened) -> Result<()> {
        Ok(())
    }

    /// An event that is the scenario's.
    fn happen(&self, _: Event, _: &Store) -> Result<()> {
        Ok(())
    }
}

/// Amount of work.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    /// Time of deliveries from the queue before the run, by the clock of the store.
    pub(super) history: Duration,
    /// Seconds of a run.
    pub(super) seconds: f64,
    /// Seconds of each phase of the workload with many.
    pub(super) phase: f64,
    /// Divides the rows of the tables that are large.
    pub(super) divisor: u32,
}
