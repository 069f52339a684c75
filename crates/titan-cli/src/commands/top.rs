//! `titan top`: shows a database that is in use, again and again.
//!
//! It sees what a [secondary instance](titan::Secondary) sees: the files, and what the log says.
//! The reads and caches of the process that has the database open are on that process's page of
//! metrics (`Metrics::to_prometheus`). An interruption leaves nothing behind.

mod sample;
mod text;

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use titan::{ErrorKind, Result, Secondary};

use crate::config;
use crate::global::Global;
use crate::output::{self, Out};
use sample::Sample;

/// Moves the cursor to the first line of a terminal, and clears what follows.
const CLEAR: &[u8] = b"\x1b[H\x1b[2J";

/// Show levels, blob files and rates of a database in use, live
///
/// The database may be open in another process, of Titan or RocksDB. Rates are those since the page
/// before: operations by sequence numbers, and the growth of files. Reads and caches of the other
/// process are not in its files, and not shown. Each page opens all files and reads the log, and
/// keeps nothing open. Where the files change faster than that, the page says that the database is
/// busy, and the next one follows.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Directory of the database.
    db: PathBuf,
    /// Time between two pages.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = interval)]
    interval: Duration,
    /// Show one page, without rates, and end.
    #[arg(long)]
    once: bool,
}

const EXAMPLES: &str = "Examples:
  titan top photos.db
  titan top photos.db --interval 500ms
  titan top photos.db --once --json | jq '.families[].garbage_blob_bytes'";

fn interval(text: &str) -> std::result::Result<Duration, String> {
    let time = humantime::parse_duration(text).map_err(|e| e.to_string())?;
    match time < Duration::from_millis(100) {
        true => Err("expected at least 100ms".to_owned()),
        false => Ok(time),
    }
}

pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    let mut options = config::options(global)?;
    options.db.create_if_missing = false;
    let mut out = Out::new();
    let clears = !args.once && io::stdout().is_terminal();
    let mut before: Option<Sample> = None;
    let clear = |out: &mut Out| match clears && !global.json {
        true => out.bytes(CLEAR),
        false => Ok(()),
    };
    loop {
        let sample = match Secondary::open(&args.db, &options) {
            // Dropped at once: a view keeps the files of its moment, and their holes, from being
            // freed.
            Ok(secondary) => Sample::take(&secondary.db(), &args.db)?,
            // The files change faster than they can be read: the next page may be luckier.
            Err(e) if e.kind() == ErrorKind::Busy && !args.once => {
                clear(&mut out)?;
                match global.json {
                    // Each line of standard output is a page.
                    true => output::complain(&e),
                    false => out.line(e)?,
                }
                out.flush()?;
                thread::sleep(args.interval);
                continue;
            }
            Err(e) => return Err(e),
        };
        let page = sample.since(before.as_ref());
        clear(&mut out)?;
        match global.json {
            true if args.once => out.json(&page)?,
            true => out.json_line(&page)?,
            false => text::print(&page, &args.db, &mut out)?,
        }
        out.flush()?;
        if args.once {
            return Ok(ExitCode::SUCCESS);
        }
        before = Some(sample);
        thread::sleep(args.interval);
    }
}
