//! `titan delete`: one key, or the keys that a file lists.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::json;
use titan::{ColumnFamily, Db, Error, Result, WriteBatch, WriteOptions};

use crate::Global;
use crate::keys;
use crate::open::{self, Access};
use crate::output::{self, Out};

/// Bytes of a batch from which it is committed.
const BATCH_BYTES: usize = 1 << 20;

/// Delete a key, or the keys that a file lists
///
/// The deletions are synced: they have survived when the command ends. A key that is not there is
/// no error. With --from-file the file is read to its end before anything is deleted; where the
/// command is interrupted then, the first so many of its keys are gone, or none. What the values
/// took on disk is given back later: see titan gc.
#[derive(clap::Args)]
#[command(override_usage = USAGE, after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Directory of the database.
    db: PathBuf,
    /// The key: text, or hexadecimal after 0x.
    #[arg(required_unless_present = "from_file")]
    key: Option<OsString>,
    /// Delete the keys in this file, one a line: text, or hexadecimal after 0x; `-` is standard
    /// input.
    #[arg(long, value_name = "FILE", conflicts_with = "key")]
    from_file: Option<PathBuf>,
    /// Column family.
    #[arg(long, value_name = "NAME")]
    cf: Option<String>,
}

const USAGE: &str = "titan delete [OPTIONS] <DB> <KEY>
       titan delete [OPTIONS] --from-file <FILE> <DB>";

const EXAMPLES: &str = "Examples:
  titan delete notes.db greeting
  titan delete numbers.db 0x0000000000000007
  titan scan photos.db --prefix tmp/ --keys-only --hex | titan delete photos.db --from-file -";

pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    let key = args.key.as_deref().map(keys::parse).transpose()?;
    // All of it before the database is opened: the other end of a pipe may have it open.
    let listed = match &args.from_file {
        Some(path) => Some(read_keys(path)?),
        None => None,
    };
    let db = open::open(&args.db, global, Access::Write)?;
    let family = open::family(&db, args.cf.as_deref())?;
    if let Some(listed) = &listed {
        delete(&db, &family, listed)?;
    } else if let Some(key) = key {
        delete(&db, &family, &[key])?;
    }
    db.close()?;
    if let Some(listed) = listed {
        let mut out = Out::new();
        if global.json {
            out.json(&json!({ "keys": listed.len() }))?;
        } else {
            let count = output::count(listed.len() as u64);
            out.line(format_args!("{count} keys deleted, or not there"))?;
        }
        out.flush()?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Deletes in batches, of which the last is synced and with it all before.
fn delete(db: &Db, family: &ColumnFamily, keys: &[Vec<u8>]) -> Result<()> {
    let mut batch = WriteBatch::new();
    for key in keys {
        if batch.size_bytes() >= BATCH_BYTES {
            db.write(std::mem::take(&mut batch), &WriteOptions::default())?;
        }
        batch.delete(family, key)?;
    }
    if batch.count() > 0 {
        db.write(batch, &WriteOptions::synced())?;
    }
    Ok(())
}

/// The keys of a list.
///
/// # Errors
/// What cannot be read, and `InvalidArgument` with the line that is no key.
fn read_keys(path: &Path) -> Result<Vec<Vec<u8>>> {
    let failed = |e| Error::io(e, "read", path);
    let input: Box<dyn BufRead> = if path == Path::new("-") {
        Box::new(io::stdin().lock())
    } else {
        Box::new(BufReader::new(File::open(path).map_err(failed)?))
    };
    let mut keys = Vec::new();
    for (index, line) in input.split(b'\n').enumerate() {
        let line = line.map_err(failed)?;
        let key = keys::parse(OsStr::from_bytes(&line)).map_err(|error| {
            Error::invalid_argument(format!("line {}: {}", index + 1, error.message()))
                .in_file(path)
        })?;
        keys.push(key);
    }
    Ok(keys)
}
