//! Runs one side of a workload: loads a store, lets the pools work on it phase after phase, and
//! measures.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use anyhow::{Context, Result};
use titan_mvcc::{Snapshot, TimestampOracle};

use super::counters::Counters;
use super::pools::{self, Shift};
use super::processor::Clocks;
use super::series::{Look, Phase, Series};
use super::time::StoreTime;
use super::variants::{Opened, Variant};
use super::workloads::{Event, Part, Workload};

/// Runs it in a directory, which it makes anew and removes.
///
/// # Errors
/// The first one of loading, of a job or of measuring.
pub(super) fn run(
    workload: &Workload,
    variant: Variant,
    dir: &Path,
    interrupted: &AtomicBool,
) -> Result<Series> {
    if dir.exists() {
        fs::remove_dir_all(dir).with_context(|| format!("emptying {}", dir.display()))?;
    }
    fs::create_dir_all(dir).with_context(|| format!("making {}", dir.display()))?;
    let time = Arc::new(StoreTime::new());
    let mut run = Run {
        opened: None,
        workload,
        variant,
        dir,
        time,
        interrupted,
        before: Counters::default(),
        held: None,
    };
    let series = run.measured()?;
    fs::remove_dir_all(dir).with_context(|| format!("removing {}", dir.display()))?;
    Ok(series)
}

struct Run<'a> {
    /// None while it is opened again.
    opened: Option<Opened>,
    workload: &'a Workload,
    variant: Variant,
    dir: &'a Path,
    time: Arc<StoreTime>,
    interrupted: &'a AtomicBool,
    /// Counts of earlier openings.
    before: Counters,
    /// A snapshot that is held.
    held: Option<Snapshot>,
}

impl Run<'_> {
    fn measured(&mut self) -> Result<Series> {
        self.load()?;
        let mut series = Series::default();
        let mut clocks = Clocks::default();
        for part in &self.workload.phases {
            self.happen(part.event)?;
            self.phase(part, &mut clocks, &mut series)?;
            if self.interrupted.load(Relaxed) {
                break;
            }
        }
        self.held = None;
        self.close()?;
        Ok(series)
    }

    fn open(&mut self) -> Result<()> {
        let oracle = Arc::clone(&self.time) as Arc<dyn TimestampOracle>;
        let opened = Opened::open(self.dir, self.variant, self.workload.settings, oracle)?;
        self.opened = Some(opened);
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        match self.opened.take() {
            Some(opened) => opened.close(),
            None => Ok(()),
        }
    }

    fn opened(&self) -> Result<&Opened> {
        self.opened.as_ref().context("the store is not open")
    }

    /// Loads the store, and leaves all of it in tables.
    fn load(&mut self) -> Result<()> {
        self.open()?;
        let opened = self.opened()?;
        let store = opened.store();
        self.workload.scenario.load(store, &self.time)?;
        for family in store.db().column_families() {
            family.flush()?;
        }
        store.db().wait_idle()?;
        self.workload.scenario.begin(opened)?;
        self.time.start();
        Ok(())
    }

    fn happen(&mut self, event: Event) -> Result<()> {
        self.held = None;
        match event {
            Event::Restart => {
                self.before = Counters::of(self.opened()?).after(self.before);
                self.close()?;
                self.open()?;
            }
            Event::DivideMemory(by) => {
                let limit = self.workload.settings.range_cache / by.max(1);
                if let Some(cache) = self.opened()?.cache() {
                    cache.set_memory_limit(limit as usize);
                }
            }
            Event::HoldSnapshot => self.held = Some(self.opened()?.store().snapshot()),
            Event::None | Event::MoveTo(_) | Event::DeleteQueues | Event::FillQueues => {
                self.workload
                    .scenario
                    .happen(event, self.opened()?.store())?;
            }
        }
        Ok(())
    }

    fn phase(&self, part: &Part, clocks: &mut Clocks, series: &mut Series) -> Result<()> {
        let from = series.phases.last().map_or(0.0, |phase| phase.to);
        let to = from + part.seconds;
        let opened = self.opened()?;
        let shift = Shift {
            store: opened.store(),
            work: &*self.workload.scenario,
            rate: self.workload.rate,
            seconds: part.seconds,
            first: series.done.next,
            interrupted: self.interrupted,
        };
        let looks = &mut series.looks;
        let mut done = pools::run(&shift, &mut |at| {
            looks.push(Look {
                at: from + at,
                processor: clocks.look()?,
                counters: Counters::of(opened).after(self.before),
            });
            Ok(())
        })?;
        for latency in done.reads.iter_mut().chain(&mut done.commits) {
            latency.due += from;
        }
        let all = &mut series.done;
        all.reads.extend(done.reads);
        all.commits.extend(done.commits);
        all.conflicts += done.conflicts;
        all.missed += done.missed;
        all.next = done.next;
        // What is after its end belongs to no phase. The first look of the next one is there.
        looks.retain(|look| look.at <= to);
        let name = part.name;
        series.phases.push(Phase { name, from, to });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::variants;
    use super::super::workloads::{Extent, catalog};
    use super::*;

    #[test]
    fn all_sides_of_a_queue_do_the_same_jobs() {
        let extent = Extent {
            history: Duration::from_secs(30),
            seconds: 1.2,
            phase: 0.5,
            divisor: 20,
        };
        let dir = tempfile::tempdir().unwrap();
        let interrupted = AtomicBool::new(false);
        for name in ["W3", "W7"] {
            let workload = catalog::workload(name, extent).unwrap();
            let mut jobs = Vec::new();
            for variant in variants::ALL {
                let at = dir.path().join("store");
                let series = run(&workload, variant, &at, &interrupted).unwrap();
                jobs.push(series.done.reads.len() as u64 + series.done.missed);
                assert_eq!(series.phases.len(), workload.phases.len());
                assert!(!series.done.commits.is_empty());
                assert!(series.looks.is_sorted_by(|a, b| a.at < b.at));
                assert!(!at.exists());
            }
            assert_eq!(jobs, [jobs[0]; 3]);
        }
    }
}
