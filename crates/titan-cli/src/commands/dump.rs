//! `titan dump`: every entry back into a file, the reverse of `titan load`.

use std::collections::HashSet;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use serde::Serialize;
use titan::{Error, ErrorKind, ReadOptions, Result};

use crate::Global;
use crate::keys;
use crate::open::{self, Access};
use crate::output::{self, Out};
use crate::progress;

/// Write every entry to a file, the reverse of load
///
/// The key is the file's path under DIR; a leading `/` is dropped. Nothing is ever written outside
/// DIR: keys with a `..` in them are refused, and symbolic links found under DIR are not followed.
/// Files that exist are left alone unless --force is given. What cannot be written is reported,
/// and the exit status is then 1.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Directory of the database.
    db: PathBuf,
    /// Where the files go; created if it does not exist.
    dir: PathBuf,
    /// Replace files that exist.
    #[arg(long)]
    force: bool,
    /// Column family.
    #[arg(long, value_name = "NAME")]
    cf: Option<String>,
}

const EXAMPLES: &str = "Example:
  titan dump photos.db restored";

#[derive(Default, Serialize)]
struct Summary {
    files: u64,
    bytes: u64,
    failed: u64,
    /// Of those that failed, the ones with a file in their place.
    in_the_way: u64,
    seconds: f64,
}

pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    let started = Instant::now();
    let db = open::open(&args.db, global, Access::Read)?;
    let family = open::family(&db, args.cf.as_deref())?;
    let mut restorer = Restorer::new(&args.dir, args.force)?;
    let progress = progress::bytes("dump", None);
    let mut summary = Summary::default();
    let options = ReadOptions {
        fill_cache: false,
        ..ReadOptions::default()
    };
    let mut iterator = family.iter(&options)?;
    iterator.seek_to_first()?;
    while iterator.valid() {
        let value = iterator.value()?;
        match restorer.restore(iterator.key(), &value) {
            Ok(()) => {
                summary.files += 1;
                summary.bytes += value.len() as u64;
                progress.inc(value.len() as u64);
            }
            Err(error) if error.kind() == ErrorKind::NoSpace => return Err(error),
            Err(error) => {
                summary.failed += 1;
                if error.kind() == ErrorKind::AlreadyExists {
                    summary.in_the_way += 1;
                }
                progress.suspend(|| output::complain(&error));
            }
        }
        iterator.next()?;
    }
    progress.finish_and_clear();
    drop(iterator);
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
    if summary.failed > 0 {
        let failed = output::count(summary.failed);
        let hint = match summary.in_the_way {
            0 => "",
            _ => "; --force replaces files that exist",
        };
        output::complain(&Error::invalid_argument(format!(
            "{failed} not restored, see above{hint}"
        )));
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes files under one directory.
struct Restorer<'a> {
    root: &'a Path,
    force: bool,
    /// Directories under `root`, relative to it, that were seen to be real directories.
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

    fn restore(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let relative = path_of(key)?;
        if let Some(parent) = relative.parent() {
            self.enter(parent)?;
        }
        let path = self.root.join(&relative);
        if self.force {
            match fs::remove_file(&path) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => {
                    return Err(Error::io(e, "replace", &path));
                }
                _ => {}
            }
        }
        // A new file or none: an existing link is not written through either.
        let file = OpenOptions::new().write(true).create_new(true).open(&path);
        file.and_then(|mut file| file.write_all(value))
            .map_err(|e| Error::io(e, "write", &path))
    }

    /// Makes sure that every component of `directory` is a directory of its own, no link.
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
                return Err(Error::invalid_argument("no directory").in_file(&path));
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

/// The path, under the directory of the dump, that a key stands for.
fn path_of(key: &[u8]) -> Result<PathBuf> {
    let refused =
        |why: &str| Error::invalid_argument(format!("key `{}` {why}", keys::escaped(key)));
    if key.contains(&0) {
        return Err(refused("has a zero byte, which no file name can have"));
    }
    if key.ends_with(b"/") {
        return Err(refused("names a directory"));
    }
    let mut path = PathBuf::new();
    for component in Path::new(std::ffi::OsStr::from_bytes(key)).components() {
        match component {
            Component::Normal(name) => path.push(name),
            Component::ParentDir => return Err(refused("has `..` in it, which could leave DIR")),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    if path.as_os_str().is_empty() {
        return Err(refused("names no file"));
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_inside() {
        for (key, path) in [
            ("a/b", "a/b"),
            ("/etc/x", "etc/x"),
            ("//x", "x"),
            ("./x", "x"),
        ] {
            assert_eq!(path_of(key.as_bytes()).unwrap(), Path::new(path), "{key}");
        }
        for key in ["", "/", ".", "..", "../x", "a/../../x", "/..", "a/", "a\0b"] {
            assert!(path_of(key.as_bytes()).is_err(), "{key}");
        }
    }
}
