//! `titan get`: prints one value, or the entries of several keys.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use titan::{ColumnFamily, Result};

use crate::entries::{Entries, print_bytes, print_value};
use crate::global::Global;
use crate::keys;
use crate::open::{self, Access};
use crate::status;

/// Print the value of a key, byte for byte, or the entries of several keys
///
/// Entries are printed as titan scan prints them, in the order of the arguments. The exit status is
/// 4 if a key does not exist, 5 if there is no such database or column family,
/// 6 if the value is damaged, and 1 for other failures.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Directory of the database.
    db: PathBuf,
    /// The keys: text, or hexadecimal after 0x.
    #[arg(required = true, value_name = "KEY")]
    keys: Vec<OsString>,
    /// Column family.
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    cf: Option<String>,
}

const EXAMPLES: &str = "Examples:
  titan get photos.db Pictures/cat.jpg > cat.jpg
  titan get numbers.db 0x0000000000000007
  titan get people.db a@x b@x --json";

pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    let keys = args.keys.iter().map(|key| keys::parse(key));
    let keys: Vec<Vec<u8>> = keys.collect::<Result<_>>()?;
    let db = open::open(&args.db, global, Access::Read)?;
    let family = open::family(&db, args.cf.as_deref())?;
    let [key] = &*keys else {
        let printed = print_entries(&family, &keys, global.json)?;
        db.close()?;
        return Ok(printed);
    };
    let status = match family.get_lazy(key)? {
        Some(value) if global.json => {
            print_value(key, &value.fetch()?, true)?;
            ExitCode::SUCCESS
        }
        Some(value) => {
            print_bytes(&value)?;
            ExitCode::SUCCESS
        }
        None => no_key(key),
    };
    db.close()?;
    Ok(status)
}

/// Prints the entries that exist, and says which keys do not.
fn print_entries(family: &ColumnFamily, keys: &[Vec<u8>], json: bool) -> Result<ExitCode> {
    let mut entries = Entries::new(json, false);
    let mut missing = None;
    for key in keys {
        match family.get(key) {
            Ok(Some(value)) => entries.print(key, Some(&value))?,
            Ok(None) => missing = Some(no_key(key)),
            Err(error) => entries.leave_out(key, error),
        }
    }
    entries.flush()?;
    let status = entries.status()?;
    Ok(missing.unwrap_or(status))
}

/// Says that a key does not exist, and returns the status for that.
fn no_key(key: &[u8]) -> ExitCode {
    status::no_key(format!("key {}", keys::escaped(key)))
}
