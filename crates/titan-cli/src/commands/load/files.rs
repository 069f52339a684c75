//! Makes an entry of a file.

use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use titan::Result;

use super::loader::Loader;
use crate::input;

/// Adds the file to the load, or reports why it cannot be loaded. Returns only errors of
/// the load.
pub(super) fn load_file(path: &Path, loader: &mut Loader<'_>) -> Result<()> {
    match input::read_file(path) {
        Ok(value) => {
            loader.add(&key_of(path), &value, value.len() as u64)?;
            loader.file_done();
        }
        Err(error) => loader.failed(&error)?,
    }
    Ok(())
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
