//! Which file an entry is written to.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use titan::{ColumnFamily, Error, ReadOptions, Result};

use crate::keys;

/// Gives each file to one key.
///
/// Several keys can name the same file: `x/y`, `/x/y`, `x//y`. The key that is spelt as the path
/// has the file, otherwise the absolute path, otherwise the first of the others. Whether a better
/// one exists is looked up, so that only the rare others take memory.
pub(super) struct Names<'a> {
    family: &'a ColumnFamily,
    /// The files of keys that are spelt in other ways.
    others: HashSet<PathBuf>,
}

impl<'a> Names<'a> {
    pub(super) fn new(family: &'a ColumnFamily) -> Self {
        Names {
            family,
            others: HashSet::new(),
        }
    }

    /// The path of the file of a key, relative to the directory of the dump.
    ///
    /// # Errors
    /// `InvalidArgument` if the key names no file, or another key has it; those of looking up a
    /// key.
    pub(super) fn claim(&mut self, key: &[u8]) -> Result<PathBuf> {
        let path = path_of(key)?;
        let spelt = path.as_os_str().as_bytes();
        if key == spelt {
            return Ok(path);
        }
        let absolute = [b"/", spelt].concat();
        let better = match key == absolute {
            true => vec![spelt],
            false => vec![spelt, &absolute],
        };
        for other in better {
            if self.has(other)? {
                return Err(taken(key, other));
            }
        }
        if key != absolute && !self.others.insert(path.clone()) {
            return Err(taken(key, spelt));
        }
        Ok(path)
    }

    fn has(&self, key: &[u8]) -> Result<bool> {
        let options = ReadOptions {
            fill_cache: false,
            ..ReadOptions::default()
        };
        self.family.contains_key_with(key, &options)
    }
}

fn taken(key: &[u8], by: &[u8]) -> Error {
    let (key, by) = (keys::escaped(key), keys::escaped(by));
    Error::invalid_argument(format!("key `{key}` names the same file as `{by}`"))
}

/// The path of a key's file, relative to the directory of the dump.
fn path_of(key: &[u8]) -> Result<PathBuf> {
    let refused =
        |why: &str| Error::invalid_argument(format!("key `{}` {why}", keys::escaped(key)));
    if key.contains(&0) {
        return Err(refused("has a zero byte, which file names cannot have"));
    }
    if key.ends_with(b"/") {
        return Err(refused("names a directory"));
    }
    let mut path = PathBuf::new();
    for component in Path::new(OsStr::from_bytes(key)).components() {
        match component {
            Component::Normal(name) => path.push(name),
            Component::ParentDir => return Err(refused("contains `..`, which could leave DIR")),
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
    use titan::{Db, Options};

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

    #[test]
    fn each_file_has_one_key() {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path(), &Options::default()).unwrap();
        let keys = [
            "/a", "a", "/b", "//b", "./c", "c//", "c/.", "/d/e", "d//e", "d/./e",
        ];
        for key in keys {
            db.put(key.as_bytes(), b"").unwrap();
        }
        let mut names = Names::new(&db);
        let mut claim = |key: &str| names.claim(key.as_bytes()).ok();
        let path = |path: &str| Some(PathBuf::from(path));
        for (key, file) in [
            ("/a", None),
            ("a", path("a")),
            ("/b", path("b")),
            ("//b", None),
            ("./c", path("c")),
            ("c/.", None),
            ("/d/e", path("d/e")),
            ("d//e", None),
            ("d/./e", None),
        ] {
            assert_eq!(claim(key), file, "{key}");
        }
    }
}
