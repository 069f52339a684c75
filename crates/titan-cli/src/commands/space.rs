//! `titan space`: shows the use of disk space.

mod advice;
mod chart;
mod history;
mod html;
mod parts;
mod text;

use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use titan::{Error, ErrorKind, Result};

use self::history::Sample;
use crate::global::Global;
use crate::open::{self, Access};
use crate::output::{self, Out};
use crate::{interrupt, progress};

/// Show what occupies disk space, and the live share of each blob file
///
/// Nothing in the directory is changed. Entries that are only in the log are counted with the log:
/// what they overwrite counts as live until a flush. Whether a blob file is due for collection
/// follows from the options that the database keeps, and from those of --config. If an action is
/// worthwhile, a line recommends it. The database remembers no earlier report: a file of --record
/// does, and the page of --html then shows how space went.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Directory of the database.
    db: PathBuf,
    /// Also write the report to an HTML page, for browsers and printers.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Append what was found to this file, a line of JSON; the page of --html shows all of them.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Do it again each time that this has passed, until Ctrl-C; needs --record.
    #[arg(long, value_name = "TIME", requires = "record", value_parser = super::top::interval)]
    every: Option<Duration>,
    /// Number of blob files of each family to list, those with the most garbage first.
    #[arg(long, value_name = "N", default_value_t = 20)]
    worst: usize,
}

const EXAMPLES: &str = "Examples:
  titan space photos.db
  titan space photos.db --html space.html
  titan space photos.db --record space.jsonl --every 1h --html space.html
  titan space photos.db --json | jq '.families[].blob_files[] | select(.status == \"next\")'";

pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    interrupt::name("space");
    if let Some(path) = &args.record {
        history::mend(path)?;
    }
    let Some(every) = args.every else {
        shown(args, global)?;
        return Ok(ExitCode::SUCCESS);
    };
    let taken = progress::undrawn("space", None);
    loop {
        match shown(args, global) {
            // The files change faster than they can be read: the next look may be luckier.
            Err(e) if e.kind() == ErrorKind::Busy => output::complain(&e),
            shown => {
                shown?;
                taken.inc(1);
            }
        }
        thread::sleep(every);
    }
}

/// Makes a report, records it, and shows it.
fn shown(args: &Args, global: &Global) -> Result<()> {
    let db = open::open(&args.db, global, Access::Read)?;
    let report = db.space_report()?;
    db.close()?;
    let mut history = Vec::new();
    if let Some(path) = &args.record {
        history::append(path, &Sample::of(&report))?;
        if args.html.is_some() {
            history = history::read(path)?;
        }
    }
    if let Some(path) = &args.html {
        let page = html::page(&report, &history, &args.db.to_string_lossy());
        std::fs::write(path, page).map_err(|e| Error::io(e, "write", path))?;
    }
    let mut out = Out::new();
    match (global.json, args.every) {
        (true, None) => out.json(&report)?,
        // Each line of standard output is a sample.
        (true, Some(_)) => out.json_line(&Sample::of(&report))?,
        (false, None) => text::print(&report, args.worst, &mut out)?,
        (false, Some(_)) => out.line(in_a_line(&Sample::of(&report)))?,
    }
    out.flush()
}

fn in_a_line(sample: &Sample) -> String {
    format!(
        "{}: SST {}, blob files {}, of them garbage {}, WAL {}",
        output::size(sample.total_bytes()),
        output::size(sample.sst_bytes),
        output::size(sample.blob_bytes),
        output::size(sample.garbage_blob_bytes),
        output::size(sample.wal_bytes),
    )
}
