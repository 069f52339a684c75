//! `titan repair`: rebuilds a database from the files that survive.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;
use titan::{Error, Result};
use titan_tools::{Progress, RepairReport, RepairTo};

use crate::global::Global;
use crate::output::{self, Out};
use crate::{config, progress, status};

/// Losses printed; the JSON has all of them.
const SHOWN: usize = 100;

/// Rebuild a damaged database from the files that survive
///
/// Keeps whole files, rewrites what can still be read of damaged files, and lists what is
/// lost: in which file and where, which keys, which sequence numbers, how many. The damaged
/// database stays as it is: the repaired one is put into a directory next to it, with hard
/// links to the files that were not damaged. The exit status is 0 if nothing was lost, 1 if
/// the repair failed and there is no repaired database, and 3 if the database was repaired and
/// something was lost.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Directory of the database.
    db: PathBuf,
    /// Directory for the repaired database; DB.repaired if not given. Must be empty or not
    /// exist.
    #[arg(long, value_name = "DIR", conflicts_with = "in_place")]
    into: Option<PathBuf>,
    /// Repair the database itself. Files not used any more are moved to DB/lost.
    #[arg(long)]
    in_place: bool,
}

const EXAMPLES: &str = "Examples:
  titan repair photos.db                     # the result is photos.db.repaired
  titan repair photos.db --into rescued.db
  titan repair photos.db --in-place --json | jq '.lost'

Look at the result with titan check before you delete anything.";

pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    let options = config::options(global)?;
    let (to, repaired) = match (&args.into, args.in_place) {
        (Some(dir), _) => (RepairTo::Directory(dir.clone()), dir.clone()),
        (None, true) => (RepairTo::InPlace, args.db.clone()),
        (None, false) => {
            let dir = beside(&args.db)?;
            (RepairTo::Directory(dir.clone()), dir)
        }
    };
    let bar = progress::bytes("repair", Some(0));
    let report = titan_tools::repair(&args.db, &to, &options, &mut |at: Progress| {
        bar.set_length(at.total_bytes);
        bar.set_position(at.done_bytes);
    });
    bar.finish_and_clear();
    let report = report?;
    let complete = report.lost.is_empty();
    let mut out = Out::new();
    if global.json {
        out.json(&Document {
            complete,
            repaired: &repaired,
            report: &report,
        })?;
    } else {
        print(&report, &repaired, &mut out)?;
    }
    out.flush()?;
    Ok(match complete {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(status::WITH_LOSSES),
    })
}

/// `photos.db` becomes `photos.db.repaired`. For `.` the directory's own name is looked up,
/// because nothing may be put into the damaged database.
fn beside(db: &Path) -> Result<PathBuf> {
    let path = match db.file_name() {
        Some(_) => db.components().collect(),
        None => std::fs::canonicalize(db).map_err(|e| Error::io(e, "look at", db))?,
    };
    let mut path = path.into_os_string();
    path.push(".repaired");
    Ok(PathBuf::from(path))
}

/// The engine's report, whether nothing was lost, and where the repaired database is.
#[derive(Serialize)]
struct Document<'d> {
    complete: bool,
    repaired: &'d PathBuf,
    #[serde(flatten)]
    report: &'d RepairReport,
}

fn print(report: &RepairReport, repaired: &Path, out: &mut Out) -> Result<()> {
    for loss in report.lost.iter().take(SHOWN) {
        out.line(format_args!("lost: {loss}"))?;
    }
    if let Some(more @ 1..) = report.lost.len().checked_sub(SHOWN) {
        out.line(format_args!(
            "{} more losses: see --json",
            output::count(more as u64)
        ))?;
    }
    for salvaged in &report.salvaged {
        out.line(format_args!(
            "salvaged: {} of family {}: {} entries: {}",
            salvaged.file,
            salvaged.family,
            output::count(salvaged.entries),
            salvaged.reason
        ))?;
    }
    for note in &report.notes {
        out.line(format_args!("note: {note}"))?;
    }
    out.line(format_args!(
        "kept {} tables and {} blob files, {}; salvaged {} tables; merged {}; replayed {} operations",
        output::count(report.kept_tables as u64),
        output::count(report.kept_blob_files as u64),
        output::size(report.kept_bytes),
        output::count(report.salvaged.len() as u64),
        output::count(report.merged_tables as u64),
        output::count(report.replayed)
    ))?;
    out.line(format_args!(
        "{} has {} entries in {} column families",
        repaired.display(),
        output::count(report.entries),
        report.families.len()
    ))?;
    match report.lost.len() {
        0 => out.line("nothing was lost"),
        1 => out.line("something was lost, in 1 place"),
        n => out.line(format_args!(
            "something was lost, in {} places",
            output::count(n as u64)
        )),
    }
}
