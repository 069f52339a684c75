//! `titan mvcc scan`: prints rows as of a timestamp, in order.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::Map;
use titan::{Error, Result};
use titan_mvcc::{Direction, Scan};

use super::store::{read, snapshot, translated};
use crate::complaints::Complaints;
use crate::output::{self, Out};
use crate::{Global, keys};

/// Print the rows of a range as of a timestamp, in the order of their keys
///
/// A line is `key : value`, with unprintable bytes as \xHH. With --json a line is an object with `key` and
/// `value`; bytes that are not UTF-8 are in hexadecimal, after 0x, under the name `key_hex` or `value_hex`. With
/// --json and --hex both always are. A row whose value cannot be read is reported on standard error and left
/// out; the exit status is then 1, and also if the timestamp is before the safe point.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Directory of the store.
    db: PathBuf,
    /// The first key to print, or the next one after it: text, or hexadecimal after 0x.
    #[arg(long, value_name = "KEY")]
    from: Option<OsString>,
    /// The key before which to stop.
    #[arg(long, value_name = "KEY")]
    to: Option<OsString>,
    /// As of this timestamp; without it, as of now.
    #[arg(long, value_name = "TS")]
    at: Option<u64>,
    /// Print at most this many rows.
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Print keys only; values are not read.
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
  titan mvcc scan notes.db
  titan mvcc scan notes.db --from g --to h --at 467845120000000000
  titan mvcc scan notes.db --json --hex | jq -r .key_hex";

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
    let mut unread = Unread::default();
    let printed = print(scan.map_err(translated)?, args, global.json, &mut unread);
    drop(snapshot);
    match printed {
        // The reader of the output has closed it; the store is closed as after a complete scan.
        Err(error) if !output::is_broken_pipe(&error) => return Err(error),
        _ => store.close().map_err(translated)?,
    }
    match unread.complaints.kind {
        Some(kind) => {
            let values = output::count(unread.values);
            let text =
                format!("{values} values not read, see above; --keys-only prints their keys");
            Err(Error::new(kind, text))
        }
        None => Ok(ExitCode::SUCCESS),
    }
}

/// Rows that are left out.
#[derive(Default)]
struct Unread {
    values: u64,
    complaints: Complaints,
}

fn print(scan: Scan, args: &Args, json: bool, unread: &mut Unread) -> Result<()> {
    let mut out = Out::new();
    let mut line = Vec::new();
    let mut left = args.limit.unwrap_or(u64::MAX);
    if left == 0 {
        return out.flush();
    }
    for row in scan {
        let row = row.map_err(translated)?;
        let value = match args.keys_only {
            true => None,
            false => match row.value.fetch() {
                Ok(value) => Some(value),
                Err(error) => {
                    let key = keys::escaped(&row.key);
                    let error = error.context(format_args!("value of `{key}`"));
                    unread.complaints.tell(&error);
                    unread.values += 1;
                    continue;
                }
            },
        };
        if json {
            let mut object = Map::new();
            keys::insert_json(&mut object, "key", &row.key, args.hex);
            if let Some(value) = &value {
                keys::insert_json(&mut object, "value", value, args.hex);
            }
            out.json_line(&object)?;
        } else {
            let push = match args.hex {
                true => keys::push_hex,
                false => keys::push_escaped,
            };
            line.clear();
            push(&mut line, &row.key);
            if let Some(value) = &value {
                line.extend_from_slice(b" : ");
                push(&mut line, value);
            }
            line.push(b'\n');
            out.bytes(&line)?;
        }
        left -= 1;
        if left == 0 {
            break;
        }
    }
    out.flush()
}
