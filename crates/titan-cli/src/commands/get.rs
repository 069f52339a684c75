//! `titan get`: prints one value, or the entries of several keys.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::{Map, Value};
use titan::{Bytes, ColumnFamily, LazyValue, Result};

use crate::entries::{self, Entries, print_bytes};
use crate::global::Global;
use crate::keys;
use crate::open::{self, Access};
use crate::status;
use crate::{output, owner};

/// Print the value of a key, byte for byte, or the entries of several keys
///
/// Entries are printed as titan scan prints them, in the order of the arguments. The value of a key
/// with several columns is its default column; with --json the object has the others in `columns`.
/// The exit status is 4 if a key does not exist, 5 if there is no such database or column family, 6
/// if the value is damaged, and 1 for other failures.
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
    let status = match &*keys {
        [key] if global.json => print_object(&family, key)?,
        [key] => print_one(&family, key)?,
        keys => print_entries(&family, keys, global.json)?,
    };
    if status != ExitCode::SUCCESS
        && let Some(owner) = owner::owner(&db)?
    {
        output::advise(&format!("the database has {owner}"));
    }
    db.close()?;
    Ok(status)
}

/// Prints the entry of a key as an object.
fn print_object(family: &ColumnFamily, key: &[u8]) -> Result<ExitCode> {
    let mut entries = Entries::new(true, false);
    let Some((value, columns)) = read(family, key, &entries)? else {
        return Ok(no_key(key));
    };
    entries.print_with(key, Some(&value), columns.as_ref())?;
    entries.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the value of a key in pieces.
fn print_one(family: &ColumnFamily, key: &[u8]) -> Result<ExitCode> {
    let Some(columns) = family.get_entity(key)? else {
        return Ok(no_key(key));
    };
    // An entity need not have a default column.
    if let Some(value) = columns.get("") {
        print_bytes(value)?;
    }
    if columns.has_others() {
        entries::tell_of_columns();
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the entries that exist, and says which keys do not.
fn print_entries(family: &ColumnFamily, keys: &[Vec<u8>], json: bool) -> Result<ExitCode> {
    let mut entries = Entries::new(json, false);
    let mut missing = None;
    for key in keys {
        match read(family, key, &entries) {
            Ok(Some((value, columns))) => {
                entries.print_with(key, Some(&value), columns.as_ref())?;
            }
            Ok(None) => missing = Some(no_key(key)),
            Err(error) => entries.leave_out(key, error),
        }
    }
    entries.flush()?;
    let status = entries.status()?;
    Ok(missing.unwrap_or(status))
}

/// The value of a key, and its other columns if it is an entity.
fn read(family: &ColumnFamily, key: &[u8], entries: &Entries) -> Result<Option<Entry>> {
    let Some(columns) = family.get_entity(key)? else {
        return Ok(None);
    };
    let value = columns.get("").map(LazyValue::fetch).transpose()?;
    let others = entries.other_columns(&columns)?;
    Ok(Some((value.unwrap_or_default(), others)))
}

/// A value, and other columns as JSON.
type Entry = (Bytes, Option<Map<String, Value>>);

/// Says that a key does not exist, and returns the status for that.
fn no_key(key: &[u8]) -> ExitCode {
    status::no_key(format!("key {}", keys::escaped(key)))
}
