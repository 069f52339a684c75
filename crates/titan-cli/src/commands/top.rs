//! `titan top`: shows a database that is in use, again and again.
//!
//! It has the view of a [secondary instance](titan::Secondary): the files, and the content of the
//! log. The reads and caches of the process that has the database open are on that process's page
//! of metrics (`Metrics::to_prometheus`). An interruption leaves nothing behind.

mod sample;
mod text;

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use titan::{ErrorKind, Result, Secondary};

use crate::global::Global;
use crate::open;
use crate::output::{self, Out};
use sample::Sample;

/// Moves the cursor to the first line of a terminal, and clears the screen from there.
const CLEAR: &[u8] = b"\x1b[H\x1b[2J";

/// Show levels, blob files and rates of a database in use, live
///
/// The database may be open in another process, of Titan or RocksDB. Rates are those since the page
/// before: operations by sequence numbers, and the growth of files. Reads and caches of the other
/// process are not in its files, and not shown. Each page opens all files and replays the log, and
/// keeps nothing open: what stays open keeps its space. So that this takes at most a tenth of a
/// processor, the next page of a long log comes later than the interval says. Where the files
/// change faster than they are read, the page says that the database is busy, and the next one
/// follows.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Directory of the database.
    db: PathBuf,
    /// Time between two pages.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = interval)]
    interval: Duration,
    /// Number of families to show, those with the most bytes first; --json has all.
    #[arg(long, value_name = "N", default_value_t = 20)]
    families: usize,
    /// Show one page, without rates, and end.
    #[arg(long)]
    once: bool,
}

const EXAMPLES: &str = "Examples:
  titan top photos.db
  titan top photos.db --interval 500ms
  titan top photos.db --once --json | jq '.families[].garbage_blob_bytes'";

/// The time until the next page after one that took so long: at least nine times that.
fn pause(interval: Duration, took: Duration) -> Duration {
    interval.max(took.saturating_mul(9))
}

/// Parses a time between two pages.
pub(super) fn interval(text: &str) -> std::result::Result<Duration, String> {
    let time = humantime::parse_duration(text).map_err(|e| e.to_string())?;
    match time < Duration::from_millis(100) {
        true => Err("expected at least 100ms".to_owned()),
        false => Ok(time),
    }
}

pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    let mut options = open::options(&args.db, global)?;
    options.db.create_if_missing = false;
    let mut out = Out::new();
    let clears = !args.once && io::stdout().is_terminal();
    let mut before: Option<Sample> = None;
    let clear = |out: &mut Out| match clears && !global.json {
        true => out.bytes(CLEAR),
        false => Ok(()),
    };
    loop {
        let began = Instant::now();
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
                thread::sleep(pause(args.interval, began.elapsed()));
                continue;
            }
            Err(e) => return Err(e),
        };
        let page = sample.since(before.as_ref());
        clear(&mut out)?;
        match global.json {
            true if args.once => out.json(&page)?,
            true => out.json_line(&page)?,
            false => text::print(&page, &args.db, args.families, &mut out)?,
        }
        out.flush()?;
        if args.once {
            return Ok(ExitCode::SUCCESS);
        }
        before = Some(sample);
        thread::sleep(pause(args.interval, began.elapsed()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_take_at_most_a_tenth_of_the_time() {
        let second = Duration::from_secs(1);
        assert_eq!(pause(2 * second, second / 10), 2 * second);
        assert_eq!(pause(2 * second, second), 9 * second);
        assert_eq!(pause(second, Duration::MAX), Duration::MAX);
    }
}
