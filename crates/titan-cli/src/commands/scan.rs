//! `titan scan`: prints entries in order.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use indicatif::ProgressBar;
use serde_json::{Map, Value};
use titan::{Bytes, DbIterator, ReadOptions, Result};

use crate::entries::Entries;
use crate::global::Global;
use crate::open::{self, Access};
use crate::output;
use crate::{keys, progress};

/// Print entries in the order of their keys
///
/// A line is `key : value`, with unprintable bytes as \xHH. With --json a line is an object with
/// `key` and `value`; bytes that are not UTF-8 are in hexadecimal, after 0x, under the name
/// `key_hex` or `value_hex`. With --json and --hex both always are. The value of a key with several
/// columns is its default column; with --json the object has the others in `columns`. An entry
/// whose value cannot be read is reported on standard error and left out; the exit status is then
/// 6.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Directory of the database.
    db: PathBuf,
    /// The first key to print, or the next one after it: text, or hexadecimal after 0x.
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    from: Option<OsString>,
    /// The key before which to stop.
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    to: Option<OsString>,
    /// Only keys that begin with this.
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    prefix: Option<OsString>,
    /// Print at most this many entries.
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
    /// Column family.
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    cf: Option<String>,
}

const EXAMPLES: &str = "Examples:
  titan scan photos.db --prefix Pictures/2026 --keys-only
  titan scan people.db --json | jq .value
  titan scan numbers.db --json --hex | jq -r .key_hex
  titan scan numbers.db --from 0x00 --to 0x80 --hex --limit 10";

pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    let mut options = ReadOptions {
        lower_bound: keys::parse_if_given(&args.from)?,
        upper_bound: keys::parse_if_given(&args.to)?,
        prefix: keys::parse_if_given(&args.prefix)?,
        fill_cache: false,
        ..ReadOptions::default()
    };
    // Values that are not printed need no readahead.
    let wanted = if args.keys_only {
        0
    } else {
        args.limit.unwrap_or(u64::MAX)
    };
    let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
    options.prefetch_values = options.prefetch_values.min(wanted);

    let db = open::open(&args.db, global, Access::Read)?;
    let mut iterator = open::family(&db, args.cf.as_deref())?.iter(&options)?;
    let mut entries = Entries::new(global.json, args.hex);
    let read = progress::undrawn("scan", None);
    let printed = print(&mut iterator, args, &mut entries, &read);
    drop(iterator);
    match printed {
        // The reader of the output has closed it; the database is closed as after a complete scan.
        Err(error) if !output::is_broken_pipe(&error) => return Err(error),
        _ => db.close()?,
    }
    entries.status()
}

fn print(
    iterator: &mut DbIterator,
    args: &Args,
    entries: &mut Entries,
    done: &ProgressBar,
) -> Result<()> {
    let mut left = args.limit.unwrap_or(u64::MAX);
    if left > 0 {
        if args.reverse {
            iterator.seek_to_last()?
        } else {
            iterator.seek_to_first()?
        }
    }
    while left > 0 && iterator.valid() {
        let value = match args.keys_only {
            true => None,
            false => match read(iterator, entries) {
                Ok(read) => Some(read),
                Err(error) => {
                    entries.leave_out(iterator.key(), error);
                    step(iterator, args)?;
                    continue;
                }
            },
        };
        let (value, columns) = value.unzip();
        entries.print_with(iterator.key(), value.as_deref(), columns.flatten().as_ref())?;
        done.inc(1);
        left -= 1;
        if left > 0 {
            step(iterator, args)?;
        }
    }
    entries.flush()
}

/// The value, and the other columns of an entity.
fn read(
    iterator: &mut DbIterator,
    entries: &Entries,
) -> Result<(Bytes, Option<Map<String, Value>>)> {
    let value = iterator.value()?;
    let columns = match iterator.is_entity() {
        true => entries.other_columns(&iterator.columns()?)?,
        false => None,
    };
    Ok((value, columns))
}

fn step(iterator: &mut DbIterator, args: &Args) -> Result<()> {
    match args.reverse {
        true => iterator.prev(),
        false => iterator.next(),
    }
}
