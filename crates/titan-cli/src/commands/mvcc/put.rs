//! `titan mvcc put`: commits one value.

use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::json;
use titan::Result;

use crate::commands::put::Entry;
use crate::global::Global;
use crate::output::Out;
use crate::store::{AnyClock, translated, write};

/// Store a new version of a key, and print its commit timestamp
///
/// Older versions stay. The commit is synced: it is durable when the command ends. Creates the
/// store if it does not exist.
#[derive(clap::Args)]
#[command(override_usage = USAGE, after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Directory of the store.
    db: PathBuf,
    #[command(flatten)]
    entry: Entry,
    #[command(flatten)]
    clock: AnyClock,
}

const USAGE: &str = "titan mvcc put [OPTIONS] <DB> <KEY> <VALUE>
       titan mvcc put [OPTIONS] --file <FILE> <DB> <KEY>";

const EXAMPLES: &str = "Examples:
  titan mvcc put history.db greeting 'good morning'
  before=$(titan mvcc put history.db greeting hello)
  date | titan mvcc put history.db today -";

pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    let (key, value) = args.entry.read()?;
    let store = write(&args.db, global, true, &args.clock)?;
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
