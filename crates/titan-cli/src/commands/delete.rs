//! `titan delete`: deletes one key, the keys listed in a file, or those of a range.

mod range;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::json;
use titan::{ColumnFamily, Db, Error, Result, WriteBatch, WriteOptions};

use self::range::Range;
use crate::confirm::Consent;
use crate::global::Global;
use crate::input::Input;
use crate::open::{self, Access};
use crate::output::{self, Out};
use crate::{interrupt, keys, owner, progress};

/// A batch is committed once it has this many bytes.
const BATCH_BYTES: usize = 1 << 20;

/// Delete a key, the keys listed in a file, or all keys of a range
///
/// The deletions are synced: they are durable when the command ends. A missing key is no error.
/// With --from-file the whole file is read before anything is deleted; if the command is
/// interrupted later, a prefix of its keys has been deleted, possibly an empty one. A range is
/// deleted at once, after a question, during which the database is open. The disk space of the
/// values is freed later: see titan gc. A store of versions and a volume of TiFS are refused.
#[derive(clap::Args)]
#[command(override_usage = USAGE, after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Directory of the database.
    db: PathBuf,
    /// The key: text, or hexadecimal after 0x.
    #[arg(required_unless_present_any = ["from_file", "range"])]
    key: Option<OsString>,
    /// Delete the keys in this file, one per line: text, or hexadecimal after 0x; `-` is standard
    /// input. Empty lines are skipped; the empty key is 0x.
    #[arg(long, value_name = "FILE", conflicts_with = "key")]
    from_file: Option<PathBuf>,
    #[command(flatten)]
    range: Range,
    #[command(flatten)]
    consent: Consent,
    /// Column family.
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    cf: Option<String>,
    /// Delete also from a store of versions or a volume of TiFS, which that may damage.
    #[arg(long)]
    force: bool,
}

const USAGE: &str = "titan delete [OPTIONS] <DB> <KEY>
       titan delete [OPTIONS] --from-file <FILE> <DB>
       titan delete [OPTIONS] --prefix <KEY> <DB>
       titan delete [OPTIONS] --from <KEY> --to <KEY> <DB>";

const EXAMPLES: &str = "Examples:
  titan delete notes.db greeting
  titan delete numbers.db 0x0000000000000007
  titan delete photos.db --prefix tmp/ --yes
  titan delete photos.db --from Pictures/2025 --to Pictures/2026 --yes
  titan scan photos.db --prefix Pic --keys-only --hex | titan delete photos.db --from-file -";

pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    interrupt::name("delete");
    let key = args.key.as_deref().map(keys::parse).transpose()?;
    // The list is read before the database is opened: the process at the other end of a pipe may
    // have the database open.
    let listed = match &args.from_file {
        Some(path) => Some(read_keys(path)?),
        None => None,
    };
    let db = open::open(&args.db, global, Access::Write)?;
    owner::refuse_owned(&db, args.force)?;
    let family = open::family(&db, args.cf.as_deref())?;
    if let Some(listed) = &listed {
        let done = progress::operations("delete", Some(listed.count));
        let deleted = delete(&db, &family, listed.keys(), |keys| done.inc(keys));
        done.finish_and_clear();
        deleted?;
    } else if let Some(key) = key {
        delete(&db, &family, [Ok(key)], |_| {})?;
    } else {
        args.range.delete(&db, &family, &args.consent)?;
    }
    db.close()?;
    if let Some(listed) = listed {
        let mut out = Out::new();
        if global.json {
            out.json(&json!({ "keys": listed.count }))?;
        } else {
            let count = output::count(listed.count);
            out.line(format_args!("{count} keys deleted, or not there"))?;
        }
        out.flush()?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Deletes in batches; the last one is synced, and so are all before it. Tells how many keys each
/// of them has.
fn delete(
    db: &Db,
    family: &ColumnFamily,
    keys: impl IntoIterator<Item = Result<Vec<u8>>>,
    done: impl Fn(u64),
) -> Result<()> {
    let mut batch = WriteBatch::new();
    for key in keys {
        if batch.size_bytes() >= BATCH_BYTES {
            let keys = batch.count();
            db.write(std::mem::take(&mut batch), &WriteOptions::default())?;
            done(keys.into());
        }
        batch.delete(family, &key?)?;
    }
    if batch.count() > 0 {
        db.write(batch, &WriteOptions::synced())?;
    }
    Ok(())
}

/// The text of a list of keys, all of which are keys.
struct Listed {
    text: Vec<u8>,
    path: PathBuf,
    count: u64,
}

impl Listed {
    /// The keys, each read anew: as bytes of their own they can take many times the memory of the
    /// text.
    fn keys(&self) -> impl Iterator<Item = Result<Vec<u8>>> {
        let lines = self.text.split(|&byte| byte == b'\n').enumerate();
        let lines = lines.filter(|(_, line)| !line.is_empty());
        lines.map(|(index, line)| {
            keys::parse(OsStr::from_bytes(line)).map_err(|error| {
                Error::invalid_argument(format!("line {}: {}", index + 1, error.message()))
                    .in_file(&self.path)
            })
        })
    }
}

/// Reads a list of keys.
///
/// # Errors
/// Failures to read, those of a list that is too large, and `InvalidArgument` naming the line that
/// is not a key.
fn read_keys(path: &Path) -> Result<Listed> {
    let input = match path == Path::new("-") {
        true => Input::standard()?,
        false => Input::open(path)?,
    };
    let mut listed = Listed {
        text: input.whole_of_keys()?,
        path: path.to_owned(),
        count: 0,
    };
    let mut count = 0;
    for key in listed.keys() {
        key?;
        count += 1;
    }
    listed.count = count;
    Ok(listed)
}
