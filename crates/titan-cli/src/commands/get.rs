//! `titan get`: prints one value.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use titan::Result;

use crate::entries::print_value;
use crate::global::Global;
use crate::keys;
use crate::open::{self, Access};
use crate::status;

/// Print the value of a key, byte for byte
///
/// The exit status is 4 if the key does not exist, 5 if there is no such database or column family,
/// 6 if the value is damaged, and 1 for other failures.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Directory of the database.
    db: PathBuf,
    /// The key: text, or hexadecimal after 0x.
    key: OsString,
    /// Column family.
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    cf: Option<String>,
}

const EXAMPLES: &str = "Examples:
  titan get photos.db Pictures/cat.jpg > cat.jpg
  titan get numbers.db 0x0000000000000007";

pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    let key = keys::parse(&args.key)?;
    let db = open::open(&args.db, global, Access::Read)?;
    let value = open::family(&db, args.cf.as_deref())?.get(&key)?;
    db.close()?;
    let Some(value) = value else {
        return Ok(status::no_key(format!("key {}", keys::escaped(&key))));
    };
    print_value(&key, &value, global.json)?;
    Ok(ExitCode::SUCCESS)
}
