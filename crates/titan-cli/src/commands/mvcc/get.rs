//! `titan mvcc get`: prints one value as of a timestamp.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use titan::{Error, ErrorKind, Result};
use titan_mvcc::Timestamp;

use super::store::{read, snapshot, timestamp, translated};
use crate::entries::print_value;
use crate::{Global, keys};

/// Print the value of a key, byte for byte
///
/// The exit status is 1 if the key has no value at that timestamp, or if the timestamp is before the safe
/// point, which the error names.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Directory of the store.
    db: PathBuf,
    /// The key: text, or hexadecimal after 0x.
    key: OsString,
    /// As of this timestamp; without it, as of now.
    #[arg(long, value_name = "TS", value_parser = timestamp, allow_negative_numbers = true)]
    at: Option<Timestamp>,
}

const EXAMPLES: &str = "Examples:
  titan mvcc get notes.db greeting
  titan mvcc get notes.db greeting --at 467845120000000000
  titan mvcc get numbers.db 0x0000000000000007 --json";

pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    let key = keys::parse(&args.key)?;
    let store = read(&args.db, global)?;
    let snapshot = snapshot(&store, args.at)?;
    let value = snapshot.get(&key).map_err(translated)?;
    drop(snapshot);
    store.close().map_err(translated)?;
    let Some(value) = value else {
        let at = args.at.map_or(String::new(), |at| format!(" at {at}"));
        let text = format!("key {}{at}", keys::escaped(&key));
        return Err(Error::new(ErrorKind::NotFound, text));
    };
    print_value(&key, &value, global.json)?;
    Ok(ExitCode::SUCCESS)
}
