//! `titan put`: stores one entry.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use titan::{ColumnFamily, Error, Result, WriteOptions};

use crate::global::Global;
use crate::input::Input;
use crate::target::Target;
use crate::{interrupt, keys, progress};

/// Store an entry
///
/// An existing value of the key is replaced. The write is synced: it is durable when the
/// command ends. The database is created if it does not exist, unless the value cannot be read. It
/// is in use while the input after its first MiB is read. A store of versions and a volume of TiFS
/// are refused.
#[derive(clap::Args)]
#[command(override_usage = USAGE, after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Directory of the database.
    db: PathBuf,
    #[command(flatten)]
    entry: Entry,
    /// Column family, created if it does not exist.
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    cf: Option<String>,
    /// Write also to a store of versions or a volume of TiFS, which that may damage.
    #[arg(long)]
    force: bool,
}

/// The entry that is stored.
#[derive(clap::Args)]
pub(super) struct Entry {
    /// The key: text, or hexadecimal after 0x.
    key: OsString,
    /// The value: text, or hexadecimal after 0x; `-` is standard input, byte for byte.
    #[arg(required_unless_present = "file")]
    value: Option<OsString>,
    /// Take the value from this file, byte for byte.
    #[arg(long, value_name = "FILE", conflicts_with = "value")]
    file: Option<PathBuf>,
}

const USAGE: &str = "titan put [OPTIONS] <DB> <KEY> <VALUE>
       titan put [OPTIONS] --file <FILE> <DB> <KEY>";

const EXAMPLES: &str = "Examples:
  titan put notes.db greeting 'good morning'
  titan put photos.db Pictures/cat.jpg --file cat.jpg
  date | titan put notes.db today -
  titan put numbers.db 0x0000000000000007 0x00FF
  titan put notes.db -- -5 minus           # -- before a key that begins with a dash";

pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    interrupt::name("put");
    let key = keys::parse(&args.entry.key)?;
    let source = args.entry.source()?;
    let target = Target::open(&args.db, args.cf.as_deref(), args.force, global)?;
    match source.put(&target.family, &key) {
        Ok(()) => target.db.close()?,
        Err(e) => return Err(target.undo_after(e)),
    }
    Ok(ExitCode::SUCCESS)
}

/// A value that may not be read yet.
enum Source {
    Given(Vec<u8>),
    Input(Input),
}

impl Source {
    /// Stores the value.
    fn put(self, family: &ColumnFamily, key: &[u8]) -> Result<()> {
        let synced = WriteOptions::synced();
        match self {
            Source::Input(input) if family.options().enable_blob_files => {
                let bar = progress::bytes("put", input.size());
                let put = family.put_reader_with(key, bar.wrap_read(input), &synced);
                bar.finish_and_clear();
                put.map(drop)
            }
            source => family.put_with(key, source.read()?, &synced),
        }
    }

    /// The value in memory.
    fn read(self) -> Result<Vec<u8>> {
        match self {
            Source::Given(value) => Ok(value),
            Source::Input(input) => input.whole(),
        }
    }
}

impl Entry {
    /// The key and the value.
    pub(super) fn read(&self) -> Result<(Vec<u8>, Vec<u8>)> {
        Ok((keys::parse(&self.key)?, self.source()?.read()?))
    }

    /// The value that is given, on standard input, or in a file.
    fn source(&self) -> Result<Source> {
        match (&self.value, &self.file) {
            (_, Some(path)) => Input::open(path)?.begun().map(Source::Input),
            (Some(text), None) if text == "-" => Input::standard()?.begun().map(Source::Input),
            (Some(text), None) => keys::parse(text).map(Source::Given),
            (None, None) => Err(Error::invalid_argument("no value")),
        }
    }
}
