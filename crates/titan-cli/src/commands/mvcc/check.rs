//! `titan mvcc check`: verifies every entry of a store.

use std::path::PathBuf;
use std::process::ExitCode;

use titan::Result;
use titan_mvcc::CheckReport;

use crate::commands::check::{Document, verdict};
use crate::global::Global;
use crate::output::{self, Out};
use crate::progress;
use crate::store::{read, translated};

/// Verify that every entry is one that a store writes
///
/// Reads all keys. Each must have a whole timestamp, a known kind and its own commit after its
/// start; the database must contain nothing else. Prints each problem with its entry; then the exit
/// status is 6. Changes nothing. titan check verifies the files, and that values can be read.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Directory of the store.
    db: PathBuf,
}

const EXAMPLES: &str = "Examples:
  titan check history.db && titan mvcc check history.db
  titan mvcc check history.db --json | jq -r '.problems[].what'";

pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    let store = read(&args.db, global)?;
    let bar = progress::operations("check", None);
    let report = store.check(&mut |versions| bar.set_position(versions));
    bar.finish_and_clear();
    let report = report.map_err(translated)?;
    store.close().map_err(translated)?;
    let ok = report.problems_found == 0;
    let mut out = Out::new();
    if global.json {
        out.json(&Document { ok, report })?;
    } else {
        print(&report, &mut out)?;
    }
    out.flush()?;
    Ok(verdict(ok))
}

fn print(report: &CheckReport, out: &mut Out) -> Result<()> {
    for problem in &report.problems {
        out.line(problem)?;
    }
    let listed = report.problems.len() as u64;
    if report.problems_found > listed {
        let more = output::count(report.problems_found - listed);
        out.line(format_args!("{more} more problems, only counted"))?;
    }
    out.line(format_args!(
        "versions {}, rows {}, puts {}, deletions {}, locks and rollbacks {}, locks of transactions {}, safe point {}",
        output::count(report.versions),
        output::count(report.rows),
        output::count(report.puts),
        output::count(report.deletes),
        output::count(report.locks),
        output::count(report.transaction_locks),
        report.safe_point
    ))?;
    match report.problems_found {
        0 => out.line("no problem found"),
        1 => out.line("1 entry is wrong"),
        n => out.line(format_args!("{} entries are wrong", output::count(n))),
    }
}
