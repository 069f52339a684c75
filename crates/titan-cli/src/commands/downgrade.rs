//! `titan downgrade`: converts a database to files that RocksDB reads.

use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;
use titan::Result;
use titan_tools::{DowngradePlan, DowngradeReport, Progress};

use crate::global::Global;
use crate::output::{self, Out};
use crate::{config, progress};

/// Make a database readable for RocksDB
///
/// Garbage collection moves values and records this in a way that RocksDB refuses. This command
/// rewrites the tables that point to moved values; the values themselves are not touched. It first
/// shows what it will write. It can be interrupted at any time: the database is then as it was, and
/// the command can be run again. If no value was moved, it does nothing. The database must not be
/// open.
///
/// Afterwards RocksDB 7 and later opens the directory, with every key, value and column family.
/// Titan opens it as before, and recounts which values are used by tables that RocksDB has written.
/// If RocksDB rewrites tables or its MANIFEST, only Titan's estimate of the garbage that no
/// compaction has found yet is lost: it is too low until Titan rewrites the tables itself.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Directory of the database.
    db: PathBuf,
    /// Only show what would be done.
    #[arg(long)]
    dry_run: bool,
}

const EXAMPLES: &str = "Examples:
  titan downgrade photos.db --dry-run     # how much it would write
  titan downgrade photos.db
  titan downgrade photos.db --json | jq '.written_bytes'

When Titan opens the database to write it may move values again, unless
enable_blob_garbage_collection is false: then RocksDB needs another downgrade.";

/// Sentence on RocksDB and a database in which no value was moved.
const READABLE: &str = "RocksDB 7 and later opens it, with every key, value and column family";

pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    let options = config::options(global)?;
    let plan = titan_tools::plan_downgrade(&args.db, &options)?;
    let mut out = Out::new();
    if args.dry_run {
        match global.json {
            true => out.json(&Planned { plan: &plan })?,
            false => {
                print_plan(&plan, &mut out)?;
                if plan.needed {
                    out.line("this was a dry run: nothing was changed")?;
                }
            }
        }
        out.flush()?;
        return Ok(ExitCode::SUCCESS);
    }
    if !global.json {
        print_plan(&plan, &mut out)?;
        // The plan is shown before it is carried out.
        out.flush()?;
    }
    let bar = progress::bytes("downgrade", Some(plan.table_bytes));
    let report = titan_tools::downgrade(&args.db, &options, &mut |at: Progress| {
        bar.set_length(at.total_bytes);
        bar.set_position(at.done_bytes);
    });
    bar.finish_and_clear();
    let report = report?;
    match global.json {
        true => out.json(&report)?,
        false => print(&report, &mut out)?,
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// A plan in the form of a report.
#[derive(Serialize)]
struct Planned<'p> {
    plan: &'p DowngradePlan,
}

fn print_plan(plan: &DowngradePlan, out: &mut Out) -> Result<()> {
    if !plan.needed {
        out.line("nothing to do: no value was moved")?;
        return out.line(READABLE);
    }
    out.line("RocksDB refuses this database: garbage collection has moved values")?;
    out.line(format_args!(
        "to be written: {} tables, about {}, and a MANIFEST",
        output::count(plan.tables.len() as u64),
        output::size(plan.table_bytes)
    ))?;
    out.line(format_args!(
        "to be deleted then: the tables they replace, and maps of {} blob files, {}",
        output::count(plan.blob_files as u64),
        output::size(plan.map_bytes)
    ))?;
    out.line("to be left as they are: keys, values and blob files")
}

fn print(report: &DowngradeReport, out: &mut Out) -> Result<()> {
    for note in &report.notes {
        out.line(format_args!("note: {note}"))?;
    }
    if !report.plan.needed {
        return Ok(());
    }
    out.line(format_args!(
        "done: {} tables rewritten, {}; keys, values and blob files are as they were",
        output::count(report.plan.tables.len() as u64),
        output::size(report.written_bytes)
    ))?;
    out.line(READABLE)?;
    out.line(
        "Titan may move values again when it opens it to write, unless \
         enable_blob_garbage_collection is false",
    )
}
