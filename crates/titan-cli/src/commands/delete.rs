//! `titan delete`: one key.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use titan::{Result, WriteBatch, WriteOptions};

use crate::Global;
use crate::keys;
use crate::open::{self, Access};

/// Delete a key
///
/// The deletion is synced: it has survived when the command ends. A key that is not there is
/// deleted with success.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Directory of the database.
    db: PathBuf,
    /// The key: text, or hexadecimal after 0x.
    key: OsString,
    /// Column family.
    #[arg(long, value_name = "NAME")]
    cf: Option<String>,
}

const EXAMPLES: &str = "Example:
  titan delete notes.db greeting";

pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    let key = keys::parse(&args.key)?;
    let db = open::open(&args.db, global, Access::Write)?;
    let family = open::family(&db, args.cf.as_deref())?;
    let mut batch = WriteBatch::new();
    batch.delete(&family, &key)?;
    db.write(batch, &WriteOptions::synced())?;
    db.close()?;
    Ok(ExitCode::SUCCESS)
}
