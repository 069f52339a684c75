//! The experiment of the in-memory engine: TPC-C over a store of versions with and without a range
//! cache, and without it but with as much more block cache.
//!
//! Seven workloads, W1 to W7, run at fixed rates, each side after the other with the same jobs.
//! `docs/benchmarks.md` describes the method. Each module uses only those before it:
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
//! | [`record`] | the figures and targets, as a report has them |

mod counters;
mod pools;
mod processor;
mod record;
mod run;
mod series;
mod time;
mod tpcc;
mod variants;
mod workloads;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Result;

use crate::session::Session;
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

/// Runs these workloads with their stores in `dir`, and keeps the measurements in `out` after each
/// side. An interruption ends it early.
///
/// # Errors
/// An unknown name; the first error of a run.
pub(crate) fn run(
    names: &[String],
    is_quick: bool,
    dir: &Path,
    out: &Path,
    interrupted: Arc<AtomicBool>,
) -> Result<Session> {
    let (profile, extent) = match is_quick {
        true => ("quick", QUICK),
        false => ("full", FULL),
    };
    let workloads = names.iter().map(|name| catalog::workload(name, extent));
    let workloads: Vec<Workload> = workloads.collect::<Result<_>>()?;
    std::fs::create_dir_all(dir)?;
    let title = "TPC-C with a range cache, and without";
    let steps = workloads.len() * variants::ALL.len();
    let mut session = Session::new(title, dir, Some(out), steps, interrupted);
    session.condition("profile", profile);
    session.condition(
        "seconds of the store in one of the clock",
        time::SPEED.to_string(),
    );
    session.report.measures = record::measures();
    session.report.targets = record::targets();
    let sides = variants::ALL.map(|variant| variant.name().to_owned());
    session.report.engines = sides.to_vec();
    session.report.remarks.push(
        "Latency is that of jobs that scan, from when they were due until their reads were done; \
         processor time is in percent of one processor."
            .to_owned(),
    );
    for workload in &workloads {
        let title = catalog::title(workload.name).to_owned();
        session.report.about.push((workload.name.to_owned(), title));
        sides_of(workload, dir, &mut session)?;
        if session.is_interrupted() {
            break;
        }
    }
    Ok(session)
}

/// Runs all sides of a workload. Those of an interrupted run are left out.
fn sides_of(workload: &Workload, dir: &Path, session: &mut Session) -> Result<()> {
    let mut window = None;
    for variant in variants::ALL {
        session
            .progress
            .at(format!("{} {}", workload.name, variant.name()));
        let interrupted = Arc::clone(&session.interrupted);
        let series = run::run(workload, variant, &dir.join("store"), &interrupted)?;
        if session.is_interrupted() {
            return Ok(());
        }
        let window = *window.get_or_insert_with(|| {
            let (window, remark) = record::window(workload, &series);
            session.report.remarks.extend(remark);
            window
        });
        record::record(session, workload, variant, &series, window);
        session.keep();
    }
    Ok(())
}
