//! `titan dump`: writes every entry to a file, the reverse of `titan load`.

mod names;

use std::collections::HashSet;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use serde::Serialize;
use titan::{ColumnFamily, DbIterator, Error, ErrorKind, ReadOptions, Result};

use crate::complaints::Complaints;
use crate::global::Global;
use crate::open::{self, Access};
use crate::output::{self, Out};
use crate::{keys, progress, status};

use names::Names;

/// Write every entry to a file, the reverse of load
///
/// The key is the file's path under DIR; a leading `/` is dropped. Nothing is ever written outside
/// DIR: keys that contain `..` are refused, and symbolic links found under DIR are not followed.
/// Existing files are left alone unless --force is given. Of keys that name the same file, such as
/// `x/y`, `/x/y` and `x//y`, the one without a superfluous `/` is written. What cannot be read or
/// written is left out and counted; one failure is reported for each damaged place, and at most 100
/// in total. The exit status is then 1, or 6 for damage. The file of a key with several columns has
/// its default column; that the others are left out counts as a failure.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Directory of the database.
    db: PathBuf,
    /// Directory to write the files to; created if it does not exist.
    dir: PathBuf,
    /// Replace existing files.
    #[arg(long)]
    force: bool,
    /// Column family.
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    cf: Option<String>,
}

const EXAMPLES: &str = "Example:
  titan dump photos.db restored";

#[derive(Default, Serialize)]
struct Summary {
    files: u64,
    bytes: u64,
    failed: u64,
    /// Failures because a file exists already.
    in_the_way: u64,
    /// Failures because the value cannot be read.
    unreadable: u64,
    /// Failures because the key has several columns, of which the file has one.
    with_columns: u64,
    /// Whether every key was seen: the keys after an unreadable part of a table are not.
    all_keys_seen: bool,
    seconds: f64,
}

impl Summary {
    fn is_complete(&self) -> bool {
        self.failed == 0 && self.with_columns == 0 && self.all_keys_seen
    }
}

pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    let started = Instant::now();
    let db = open::open(&args.db, global, Access::Read)?;
    let family = open::family(&db, args.cf.as_deref())?;
    let mut names = Names::new(&family);
    let mut restorer = Restorer::new(&args.dir, args.force)?;
    let progress = progress::bytes("dump", None);
    let mut summary = Summary::default();
    let mut entries = Entries::start(&family)?;
    let mut complaints = Complaints::default();
    let mut moved = entries.seek_to_first();
    while moved.is_ok() && entries.iterator.valid() {
        let iterator = &mut entries.iterator;
        let restored = match iterator.value() {
            Ok(value) => names
                .claim(iterator.key())
                .and_then(|path| restorer.restore(&path, &value))
                .map(|()| value.len() as u64),
            Err(error) => {
                summary.unreadable += 1;
                let key = keys::escaped(iterator.key());
                Err(error.context(format_args!("value of `{key}`")))
            }
        };
        match restored {
            Ok(bytes) => {
                summary.files += 1;
                summary.bytes += bytes;
                progress.inc(bytes);
                let iterator = &entries.iterator;
                let is_cut = iterator.is_entity() && iterator.columns()?.has_others();
                summary.with_columns += u64::from(is_cut);
            }
            Err(error) if error.kind() == ErrorKind::NoSpace => return Err(error),
            Err(error) => {
                summary.failed += 1;
                if error.kind() == ErrorKind::AlreadyExists {
                    summary.in_the_way += 1;
                }
                progress.suspend(|| complaints.tell(&error));
            }
        }
        moved = entries.next();
    }
    summary.all_keys_seen = moved.is_ok();
    if let Err(error) = moved {
        let last = entries.last.as_deref().map(keys::escaped);
        let after = last.map_or("keys".to_owned(), |last| format!("keys after `{last}`"));
        let error = error.context(after);
        progress.suspend(|| complaints.tell(&error));
    }
    progress.finish_and_clear();
    drop((entries, names));
    db.close()?;
    summary.seconds = started.elapsed().as_secs_f64();
    let mut out = Out::new();
    if global.json {
        out.json(&summary)?;
    } else {
        let files = output::count(summary.files);
        let bytes = output::size(summary.bytes);
        let rate = output::size((summary.bytes as f64 / summary.seconds.max(1e-9)) as u64);
        let time = output::seconds(summary.seconds);
        out.line(format_args!("{files} files, {bytes}, {time}, {rate}/s"))?;
    }
    out.flush()?;
    if summary.is_complete() {
        return Ok(ExitCode::SUCCESS);
    }
    let conclusion = conclusion(&summary, complaints.kind);
    output::complain(&conclusion);
    if complaints.kind == Some(ErrorKind::Corruption) {
        output::suggest_repair();
    }
    Ok(status::of(&conclusion))
}

/// Combines all failures into one error.
fn conclusion(summary: &Summary, kind: Option<ErrorKind>) -> Error {
    let mut text = String::new();
    if summary.failed > 0 || !summary.all_keys_seen {
        text += &format!("{} not restored", output::count(summary.failed));
        if !summary.all_keys_seen {
            text += ", nor the keys from the failure on";
        }
        text += ", see above";
    }
    if summary.with_columns > 0 {
        let separator = if text.is_empty() { "" } else { "; " };
        let cut = output::count(summary.with_columns);
        text += &format!("{separator}columns left out of {cut}; titan scan --json prints all");
    }
    if summary.in_the_way > 0 {
        text.push_str("; --force replaces files that exist");
    }
    Error::new(kind.unwrap_or(ErrorKind::InvalidArgument), text)
}

/// The entries of a family, in order.
struct Entries<'a> {
    family: &'a ColumnFamily,
    iterator: DbIterator,
    /// Whether the iterator is one entry ahead of the one shown.
    ahead: bool,
    /// The last entry that was passed.
    last: Option<Vec<u8>>,
}

impl<'a> Entries<'a> {
    fn start(family: &'a ColumnFamily) -> Result<Self> {
        Ok(Entries {
            family,
            iterator: family.iter(&reading(true))?,
            ahead: true,
            last: None,
        })
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.iterator.seek_to_first()
    }

    /// Moves to the next entry. An error is reported at its place: entries that the iterator
    /// reached before it come first.
    fn next(&mut self) -> Result<()> {
        let last = self.last.get_or_insert_default();
        last.clear();
        last.extend_from_slice(self.iterator.key());
        match self.iterator.next() {
            Err(_) if self.ahead => {}
            moved => return moved,
        }
        self.ahead = false;
        self.iterator = self.family.iter(&reading(false))?;
        self.iterator.seek(&*last)?;
        match self.iterator.key() == last.as_slice() {
            true => self.iterator.next(),
            false => Ok(()),
        }
    }
}

fn reading(ahead: bool) -> ReadOptions {
    let mut options = ReadOptions {
        fill_cache: false,
        ..ReadOptions::default()
    };
    if !ahead {
        options.prefetch_values = 0;
    }
    options
}

/// Writes files under one directory.
struct Restorer<'a> {
    root: &'a Path,
    force: bool,
    /// Directories under `root`, relative to it, that are known to be real directories.
    directories: HashSet<PathBuf>,
}

impl<'a> Restorer<'a> {
    fn new(root: &'a Path, force: bool) -> Result<Self> {
        fs::create_dir_all(root).map_err(|e| Error::io(e, "create", root))?;
        Ok(Restorer {
            root,
            force,
            directories: HashSet::new(),
        })
    }

    fn restore(&mut self, relative: &Path, value: &[u8]) -> Result<()> {
        if let Some(parent) = relative.parent() {
            self.enter(parent)?;
        }
        let path = self.root.join(relative);
        if self.force {
            match fs::remove_file(&path) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => {
                    return Err(Error::io(e, "replace", &path));
                }
                _ => {}
            }
        }
        // Creates a new file or fails: this does not write through an existing link either.
        let file = OpenOptions::new().write(true).create_new(true).open(&path);
        file.and_then(|mut file| file.write_all(value))
            .map_err(|e| Error::io(e, "write", &path))
    }

    /// Ensures that every component of `directory` is a real directory, not a link.
    fn enter(&mut self, directory: &Path) -> Result<()> {
        if directory.as_os_str().is_empty() || self.directories.contains(directory) {
            return Ok(());
        }
        if let Some(parent) = directory.parent() {
            self.enter(parent)?;
        }
        let path = self.root.join(directory);
        match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_dir() => {}
            Ok(_) => {
                let what = "a file is where the key needs a directory";
                return Err(Error::invalid_argument(what).in_file(&path));
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                fs::create_dir(&path).map_err(|e| Error::io(e, "create", &path))?;
            }
            Err(e) => return Err(Error::io(e, "look at", &path)),
        }
        self.directories.insert(directory.to_owned());
        Ok(())
    }
}
