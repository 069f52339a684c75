//! `titan check`: reads everything and reports damage.

use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;
use titan::{Error, Result};
use titan_tools::{CheckReport, Progress};

use crate::global::Global;
use crate::output::{self, Out};
use crate::{config, progress, status};

/// Verify every file of a database
///
/// Reads all tables, blob files and logs, verifies their checksums, and checks that every
/// pointer leads to its value. Prints each problem with its place; the exit status is then 6.
/// Nothing is changed. If another process has the database open, it is checked as of one moment.
/// The exit status is 0 if no damage was found, 5 if there is no database, and 1 if it could not be
/// checked.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Directory of the database.
    db: PathBuf,
}

const EXAMPLES: &str = "Examples:
  titan check photos.db
  titan check photos.db --json | jq -r '.problems[].file'";

pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    let options = config::options(global)?;
    let bar = progress::bytes("check", Some(0));
    let report = titan_tools::check(&args.db, &options, &mut |at: Progress| {
        bar.set_length(at.total_bytes);
        bar.set_position(at.done_bytes);
    });
    bar.finish_and_clear();
    let report = match report {
        // Corruption that keeps a database from being looked at is its damage.
        Err(e) if e.is_corruption() => damaged(e),
        report => report?,
    };
    output::tell_moment(report.moment, global.json);
    let ok = report.problems.is_empty();
    let mut out = Out::new();
    if global.json {
        out.json(&Document { ok, report })?;
    } else {
        print(&report, &mut out)?;
    }
    out.flush()?;
    Ok(verdict(ok))
}

/// The report of a database whose files could not even be found.
fn damaged(error: Error) -> CheckReport {
    CheckReport {
        problems: vec![error],
        ..CheckReport::default()
    }
}

/// The report of a check, and whether it has no problems.
#[derive(Serialize)]
pub(super) struct Document<R: Serialize> {
    pub(super) ok: bool,
    #[serde(flatten)]
    pub(super) report: R,
}

/// The status with which a check ends.
pub(super) fn verdict(ok: bool) -> ExitCode {
    match ok {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(status::DAMAGED),
    }
}

fn print(report: &CheckReport, out: &mut Out) -> Result<()> {
    for problem in &report.problems {
        out.line(problem)?;
    }
    for note in &report.notes {
        out.line(format_args!("note: {note}"))?;
    }
    out.line(format_args!(
        "tables {}, blob files {}, log files {}, entries {}, pointers {}, log records {}, read {}",
        output::count(report.tables as u64),
        output::count(report.blob_files as u64),
        output::count(report.wal_files as u64),
        output::count(report.entries),
        output::count(report.pointers),
        output::count(report.wal_records),
        output::size(report.bytes)
    ))?;
    match report.problems.len() {
        0 => out.line("no damage found"),
        1 => out.line("1 place is damaged"),
        n => out.line(format_args!(
            "{} places are damaged",
            output::count(n as u64)
        )),
    }
}
