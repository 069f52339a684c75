//! The experiment of the in-memory engine: TPC-C over a store of versions with and without a range
//! cache, and without it but with as much more block cache.
//!
//! Seven workloads, W1 to W7, run at fixed rates, each side after the other with the same jobs.
//! `docs/benchmarks.md` describes the method. The lowest module first; each uses only those above
//! it, but for `tests`:
//!
//! | module | owns |
//! |---|---|
//! | [`time`] | the time of the store, which runs faster than the clock |
//! | [`processor`] | processor time by pool of threads |
//! | [`pools`] | the pools of readers and writers, and their open loop |
//! | [`tpcc`] | TPC-C's keys, rows and transactions |
//! | [`variants`] | the three sides, and opening them |
//! | [`counters`] | what the store and the cache count |
//! | [`workloads`] | W1 to W7 |
//! | [`series`] | what a run measured, and the figures of any part of it |
//! | [`run`] | a run of one side |
//! | [`results`] | the schema of `report.json` |
//! | [`targets`] | what is to be reached |
//! | [`report`] | the results as a page |

mod counters;
mod pools;
mod processor;
mod report;
mod results;
mod run;
mod series;
mod targets;
mod time;
mod tpcc;
mod variants;
mod workloads;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Result;

use crate::measure::machine;
use crate::run::progress::Progress;
use results::{Measured, Results};
pub(crate) use workloads::catalog::NAMES;
use workloads::{Extent, Workload, catalog};

/// Everything from its begin: half an hour of the store and more.
const FULL: Extent = Extent {
    history: Duration::ZERO,
    seconds: 96.0,
    phase: 40.0,
    divisor: 1,
};

/// The last minutes of it: what was before is loaded.
const QUICK: Extent = Extent {
    history: Duration::from_secs(24 * 60),
    seconds: 15.0,
    phase: 6.0,
    divisor: 2,
};

/// Runs these workloads with their stores in `dir`, and writes the report to `out`, anew after each
/// workload. Returns whether it was not interrupted.
///
/// # Errors
/// An unknown name; the first error of a run.
pub(crate) fn run(
    names: &[String],
    is_quick: bool,
    dir: &Path,
    out: &Path,
    interrupted: &AtomicBool,
) -> Result<bool> {
    let (profile, extent) = match is_quick {
        true => ("quick", QUICK),
        false => ("full", FULL),
    };
    let workloads: Result<Vec<Workload>> = names
        .iter()
        .map(|name| catalog::workload(name, extent))
        .collect();
    let workloads = workloads?;
    std::fs::create_dir_all(dir)?;
    let began = SystemTime::now().duration_since(UNIX_EPOCH);
    let mut results = Results {
        profile,
        began: began.map_or(0, |time| time.as_secs()),
        machine: machine::describe(dir),
        workloads: Vec::new(),
        targets: Vec::new(),
        remarks: Vec::new(),
    };
    let progress = Progress::of(workloads.len() * variants::ALL.len());
    for workload in &workloads {
        sides(workload, dir, interrupted, &progress, &mut results)?;
        results.targets = targets::judge(&results.workloads);
        report::write(&results, out)?;
        if interrupted.load(Relaxed) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Runs all sides of a workload. Those of an interrupted run are left out.
fn sides(
    workload: &Workload,
    dir: &Path,
    interrupted: &AtomicBool,
    progress: &Progress,
    results: &mut Results,
) -> Result<()> {
    let mut window = None;
    for variant in variants::ALL {
        let name = format!("{} {}", workload.name, variant.name());
        progress.at(&name);
        let series = run::run(workload, variant, &dir.join("store"), interrupted)?;
        if interrupted.load(Relaxed) {
            return Ok(());
        }
        let window = *window.get_or_insert_with(|| {
            let (window, remark) = results::window(workload, &series);
            results.remarks.extend(remark);
            window
        });
        let measured = Measured::new(workload, variant, &series, window);
        let figures = &measured.figures;
        let line = format!(
            "{:.1} steps a row, readers {:.1} %, mean {:.0} us, p99 {:.0} us",
            figures.next_per_processed, figures.reader_cpu_percent, figures.mean_us, figures.p99_us
        );
        progress.ended(&name, line);
        results.workloads.push(measured);
    }
    Ok(())
}
