//! `titan mvcc put`: commits one value.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::json;
use titan::Result;

use super::super::put::value;
use super::store::{translated, write};
use crate::output::Out;
use crate::{Global, keys};

/// Store a new version of a key, and print its commit timestamp
///
/// Older versions stay. The commit is synced: it is durable when the command ends. The store is created if it
/// does not exist.
#[derive(clap::Args)]
#[command(override_usage = USAGE, after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Directory of the store.
    db: PathBuf,
    /// The key: text, or hexadecimal after 0x.
    key: OsString,
    /// The value: text, or hexadecimal after 0x; `-` is standard input, byte for byte.
    #[arg(required_unless_present = "file")]
    value: Option<OsString>,
    /// Take the value from this file, byte for byte.
    #[arg(long, value_name = "FILE", conflicts_with = "value")]
    file: Option<PathBuf>,
}

const USAGE: &str = "titan mvcc put [OPTIONS] <DB> <KEY> <VALUE>
       titan mvcc put [OPTIONS] --file <FILE> <DB> <KEY>";

const EXAMPLES: &str = "Examples:
  titan mvcc put notes.db greeting 'good morning'
  before=$(titan mvcc put notes.db greeting hello)
  date | titan mvcc put notes.db today -";

pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    let key = keys::parse(&args.key)?;
    let value = value(args.value.as_deref(), args.file.as_deref())?;
    let store = write(&args.db, global, true)?;
    let mut transaction = store.begin();
    transaction.put(&key, &value);
    let commit = transaction.commit().map_err(translated)?;
    store.close().map_err(translated)?;
    let mut out = Out::new();
    if global.json {
        out.json_line(&json!({ "commit": commit }))?;
    } else {
        out.line(commit)?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
