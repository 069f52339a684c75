//! `titan mvcc get`: prints one value as of a timestamp.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use titan::Result;
use titan_mvcc::Timestamp;

use crate::entries::print_value;
use crate::global::Global;
use crate::store::{read, snapshot, timestamp, translated};
use crate::{keys, status};

/// Print the value of a key, byte for byte
///
/// The exit status is 4 if the key has no value at that timestamp, 5 if the store does not exist, 6
/// if the value is damaged, and 1 for other failures, such as a timestamp before the safe point.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Directory of the store.
    db: PathBuf,
    /// The key: text, or hexadecimal after 0x.
    key: OsString,
    /// Read as of this timestamp; by default, as of now.
    #[arg(long, value_name = "TS", value_parser = timestamp, allow_negative_numbers = true)]
    at: Option<Timestamp>,
}

const EXAMPLES: &str = "Examples:
  titan mvcc get history.db greeting
  titan mvcc get history.db greeting --json
  before=$(titan mvcc put history.db greeting hello)
  titan mvcc get history.db greeting --at $before";

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
        return Ok(status::no_key(text));
    };
    print_value(&key, &value, global.json)?;
    Ok(ExitCode::SUCCESS)
}
