//! Counts and times of calls, and a page of metrics in the form of Prometheus. The page also has
//! the metrics of the databases of the node: of the store of versions, and of its own records.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::RwLock;

use crate::node::Shared;

/// The bounds of the histogram, in microseconds.
const BOUNDS: [u64; 10] = [
    64, 256, 1_024, 4_096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304, 16_777_216,
];

/// The counts of all calls of a node.
#[derive(Default)]
pub(crate) struct Metrics {
    calls: RwLock<BTreeMap<&'static str, Arc<Series>>>,
    running: AtomicU64,
    unread: AtomicU64,
}

/// The counts of one kind of call.
#[derive(Default)]
struct Series {
    /// Calls up to each bound, not added up.
    up_to: [AtomicU64; BOUNDS.len() + 1],
    micros: AtomicU64,
    /// Answers with an error of a region or a key, or a status.
    failed: AtomicU64,
}

/// The count of a running call.
pub(crate) struct Running<'a> {
    metrics: &'a Metrics,
    series: Arc<Series>,
    began: Instant,
}

impl Metrics {
    /// Begins to count a call.
    pub(crate) fn begin(&self, name: &'static str) -> Running<'_> {
        let known = self.calls.read().get(name).map(Arc::clone);
        let series = known.unwrap_or_else(|| {
            let mut calls = self.calls.write();
            Arc::clone(calls.entry(name).or_default())
        });
        self.running.fetch_add(1, Ordering::Relaxed);
        Running {
            metrics: self,
            series,
            began: Instant::now(),
        }
    }

    /// Counts an answer that ended because its client read nothing.
    pub(crate) fn count_unread(&self) {
        self.unread.fetch_add(1, Ordering::Relaxed);
    }

    /// The page of metrics, with the bytes of requests that arrive.
    pub(crate) fn page(&self, shared: &Shared, arriving: usize) -> String {
        let mut page = String::new();
        // Writing to a string does not fail.
        let _ = self.write_calls(&mut page);
        let (versions, records) = (shared.store().db().metrics(), shared.records.metrics());
        let _ = write_state(&mut page, shared, arriving, [&versions, &records]);
        page + &titan::prometheus_page(&[("versions", &versions), ("records", &records)])
    }

    fn write_calls(&self, page: &mut String) -> std::fmt::Result {
        let calls = self.calls.read();
        let load = |n: &AtomicU64| n.load(Ordering::Relaxed);
        head(
            page,
            "titan_serve_calls_running",
            "gauge",
            "Calls that run.",
        )?;
        writeln!(page, "titan_serve_calls_running {}", load(&self.running))?;
        let name = "titan_serve_answers_unread_total";
        let help = "Answers and streams that ended because their client read nothing.";
        head(page, name, "counter", help)?;
        writeln!(page, "{name} {}", load(&self.unread))?;
        let help = "Calls answered with an error.";
        head(page, "titan_serve_calls_failed_total", "counter", help)?;
        for (name, series) in &*calls {
            let failed = load(&series.failed);
            writeln!(
                page,
                "titan_serve_calls_failed_total{{call=\"{name}\"}} {failed}"
            )?;
        }
        let histogram = "titan_serve_call_seconds";
        head(page, histogram, "histogram", "Times of calls.")?;
        for (name, series) in &*calls {
            let mut sum = 0;
            for (at, count) in series.up_to.iter().enumerate() {
                sum += load(count);
                let bound = BOUNDS.get(at).map(|micros| *micros as f64 / 1e6);
                let bound = bound.map_or_else(|| "+Inf".to_owned(), |bound| bound.to_string());
                writeln!(
                    page,
                    "{histogram}_bucket{{call=\"{name}\",le=\"{bound}\"}} {sum}"
                )?;
            }
            let seconds = load(&series.micros) as f64 / 1e6;
            writeln!(page, "{histogram}_sum{{call=\"{name}\"}} {seconds}")?;
            writeln!(page, "{histogram}_count{{call=\"{name}\"}} {sum}")?;
        }
        Ok(())
    }
}

impl Running<'_> {
    /// Notes that the call has failed.
    pub(crate) fn failed(&self) {
        self.series.failed.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let micros = micros(self.began.elapsed());
        let at = BOUNDS.iter().position(|bound| micros <= *bound);
        let count = at.and_then(|at| self.series.up_to.get(at));
        let count = count.unwrap_or(&self.series.up_to[BOUNDS.len()]);
        count.fetch_add(1, Ordering::Relaxed);
        self.series.micros.fetch_add(micros, Ordering::Relaxed);
        self.metrics.running.fetch_sub(1, Ordering::Relaxed);
    }
}

fn write_state(
    page: &mut String,
    shared: &Shared,
    arriving: usize,
    databases: [&titan::Metrics; 2],
) -> std::fmt::Result {
    let store = shared.store();
    let mut gauge = |name: &str, help: &str, value: f64| {
        head(page, name, "gauge", help)?;
        writeln!(page, "{name} {value}")
    };
    let seconds = |at: titan_mvcc::Timestamp| at.unix_time().as_secs_f64();
    gauge(
        "titan_serve_regions",
        "Regions.",
        shared.regions.len() as f64,
    )?;
    let help = "Bytes of requests that have arrived in part.";
    gauge("titan_serve_arriving_bytes", help, arriving as f64)?;
    let now = seconds(store.now());
    gauge("titan_serve_now_seconds", "Time of the present.", now)?;
    let safe_point = seconds(store.safe_point());
    gauge(
        "titan_serve_safe_point_seconds",
        "Time of the safe point.",
        safe_point,
    )?;
    let logs: u64 = databases.iter().map(|metrics| metrics.wal_bytes).sum();
    gauge("titan_serve_wal_bytes", "Bytes of logs.", logs as f64)?;
    if let Some(cache) = shared.versions.cache() {
        let used = cache.stats().memory_used as f64;
        gauge(
            "titan_serve_range_cache_bytes",
            "Memory of the range cache.",
            used,
        )?;
    }
    Ok(())
}

fn head(page: &mut String, name: &str, kind: &str, help: &str) -> std::fmt::Result {
    writeln!(page, "# HELP {name} {help}\n# TYPE {name} {kind}")
}

fn micros(time: Duration) -> u64 {
    time.as_micros().try_into().unwrap_or(u64::MAX)
}
