//! `titan mvcc scan`: prints rows as of a timestamp, in order.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use titan::Result;
use titan_mvcc::{Direction, Scan, Timestamp};

use crate::entries::Entries;
use crate::global::Global;
use crate::store::{read, snapshot, timestamp, translated};
use crate::{keys, output};

/// Print the rows of a range as of a timestamp, in the order of their keys
///
/// A line is `key : value`, with unprintable bytes as \xHH. With --json a line is an object with
/// `key` and `value`; bytes that are not UTF-8 are in hexadecimal, after 0x, under the name
/// `key_hex` or `value_hex`. With --json and --hex both always are. A row with an unreadable value
/// is left out and reported on standard error; then the exit status is 6. It is 1 if the timestamp
/// is before the safe point.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Directory of the store.
    db: PathBuf,
    /// The first key to print, or the next one after it: text, or hexadecimal after 0x.
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    from: Option<OsString>,
    /// The key before which to stop.
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    to: Option<OsString>,
    /// Read as of this timestamp; by default, as of now.
    #[arg(long, value_name = "TS", value_parser = timestamp, allow_negative_numbers = true)]
    at: Option<Timestamp>,
    /// Print at most this many rows.
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Print keys only, and read no values.
    #[arg(long)]
    keys_only: bool,
    /// Print keys and values in hexadecimal, as `ldb scan --hex` does.
    #[arg(long)]
    hex: bool,
    /// Print from the last key to the first.
    #[arg(long)]
    reverse: bool,
}

const EXAMPLES: &str = "Examples:
  titan mvcc scan history.db
  titan mvcc scan history.db --from g --to h --at $(titan mvcc put history.db greeting hello)
  titan mvcc scan history.db --json --hex | jq -r .key_hex";

pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    let (from, to) = (
        keys::parse_if_given(&args.from)?,
        keys::parse_if_given(&args.to)?,
    );
    let direction = match args.reverse {
        true => Direction::Backward,
        false => Direction::Forward,
    };
    let store = read(&args.db, global)?;
    let snapshot = snapshot(&store, args.at)?;
    let scan = snapshot.scan(from.as_deref(), to.as_deref(), direction);
    let mut entries = Entries::new(global.json, args.hex);
    let printed = print(scan.map_err(translated)?, args, &mut entries);
    drop(snapshot);
    match printed {
        // The reader of the output has closed it; the store is closed as after a complete scan.
        Err(error) if !output::is_broken_pipe(&error) => return Err(error),
        _ => store.close().map_err(translated)?,
    }
    entries.status()
}

fn print(scan: Scan, args: &Args, entries: &mut Entries) -> Result<()> {
    let mut left = args.limit.unwrap_or(u64::MAX);
    if left == 0 {
        return entries.flush();
    }
    for row in scan {
        let row = row.map_err(translated)?;
        let value = match args.keys_only {
            true => None,
            false => match row.value.fetch() {
                Ok(value) => Some(value),
                Err(error) => {
                    entries.leave_out(&row.key, error);
                    continue;
                }
            },
        };
        entries.print(&row.key, value.as_deref())?;
        left -= 1;
        if left == 0 {
            break;
        }
    }
    entries.flush()
}
