//! Makes an entry of a file.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use titan::{Error, Result};

use super::loader::Loader;

/// The engine's lengths have 32 bits; the key and metadata need a few of these bytes.
const MAX_FILE_BYTES: u64 = (u32::MAX as u64) - (1 << 20);

/// Adds the file to the load, or reports why it cannot be loaded. Returns only errors of
/// the database.
pub(super) fn load_file(path: &Path, loader: &mut Loader<'_>) -> Result<()> {
    match read(path) {
        Ok(value) => {
            loader.add(&key_of(path), &value, value.len() as u64)?;
            loader.file_done();
        }
        Err(error) => loader.failed(&error),
    }
    Ok(())
}

fn read(path: &Path) -> Result<Vec<u8>> {
    let failed = |e: io::Error| Error::io(e, "read", path);
    let mut file = File::open(path).map_err(failed)?;
    let length = file.metadata().map_err(failed)?.len();
    let mut value = Vec::new();
    if length <= MAX_FILE_BYTES {
        value.reserve_exact(length as usize);
        // A file may grow while it is read.
        let read = (&mut file)
            .take(MAX_FILE_BYTES)
            .read_to_end(&mut value)
            .map_err(failed)?;
        if (read as u64) < MAX_FILE_BYTES {
            return Ok(value);
        }
    }
    Err(Error::unsupported("a value of 4 GiB or more").in_file(path))
}

/// The path as a user would type it: without `.` components and doubled slashes.
fn key_of(path: &Path) -> Vec<u8> {
    let mut key = Vec::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::RootDir => key.push(b'/'),
            other => {
                if !key.is_empty() && key != b"/" {
                    key.push(b'/');
                }
                key.extend_from_slice(other.as_os_str().as_bytes());
            }
        }
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_paths_as_typed() {
        for (path, key) in [
            ("a", "a"),
            ("./a", "a"),
            ("./a/./b//c", "a/b/c"),
            ("/a/b", "/a/b"),
            ("../a", "../a"),
            ("d ir/ü", "d ir/ü"),
        ] {
            assert_eq!(key_of(Path::new(path)), key.as_bytes(), "{path}");
        }
    }
}
