//! Compares calls that only Titan and some peer have: transactions, merges, reads within a prefix,
//! the commit hook, the store of versions.
//!
//! A workload of the suite of engines compares whole engines, each in a process of its own. Here
//! several *sides* do the same work in one process, in turn, round after round.

mod counters;
mod hook;
mod mvcc;
mod prefixes;
mod sides;
mod transactions;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Result;

use crate::catalogue::Suite;
use crate::session::Session;
use sides::Bench;
pub(crate) use sides::Extent;

/// Runs the comparisons of these names in directories in `dir`, which it removes. The report is
/// written to `out`, if that is given. An interruption ends it after the comparison that runs.
pub(crate) fn run(
    names: &[String],
    dir: &Path,
    out: Option<&Path>,
    extent: Extent,
    interrupted: Arc<AtomicBool>,
) -> Result<Session> {
    std::fs::create_dir_all(dir)?;
    let mut session = Session::new("Titan, call by call", dir, out, 0, interrupted);
    session.report.measures = sides::measures();
    session.condition("rounds", extent.rounds.to_string());
    session.condition("rows and calls are divided by", extent.divisor.to_string());
    for name in names {
        if session.is_interrupted() {
            break;
        }
        one(name, &dir.join(name), extent, &mut session)?;
    }
    Ok(session)
}

fn one(name: &str, dir: &Path, extent: Extent, session: &mut Session) -> Result<()> {
    std::fs::create_dir_all(dir)?;
    let bench = &mut Bench {
        dir,
        extent,
        session,
    };
    let compared = match name {
        "transactions" => transactions::run(bench),
        "counters" => counters::run(bench),
        "prefixes" => prefixes::run(bench),
        "hook" => hook::run(bench),
        "mvcc-points" => mvcc::points(bench),
        "mvcc-commits" => mvcc::commits(bench),
        "mvcc-scans" => mvcc::scans(bench),
        _ => Err(Suite::Calls.unknown(name)),
    };
    std::fs::remove_dir_all(dir)?;
    compared
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_comparison_runs() {
        let dir = tempfile::tempdir().unwrap();
        let extent = Extent {
            rounds: 1,
            divisor: 1000,
            badger: false,
        };
        let names = Suite::Calls.chosen(None);
        let out = dir.path().join("out");
        let run = |names: &[String]| {
            run(
                names,
                &dir.path().join("dir"),
                Some(&out),
                extent,
                Arc::default(),
            )
        };
        let (report, _) = run(&names).unwrap().end().unwrap();
        assert!(report.names().len() > 12, "{:?}", report.names());
        for entry in &report.workloads {
            let rate = entry.figures["operations_per_second"].spread().unwrap();
            assert!(rate.median > 0.0, "{}: {}", entry.name, entry.variant);
        }
        assert_eq!(report.targets.len(), report.names().len());
        assert!(out.join("report.html").exists());
        assert!(run(&["nothing".to_owned()]).is_err());
    }
}
