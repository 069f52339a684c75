//! A directory as an object store: whether it is still the one that it was.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The directory of an object store.
pub(super) struct Directory {
    path: PathBuf,
    /// Its device and its inode.
    identity: (u64, u64),
}

impl Directory {
    pub(super) fn find(path: PathBuf) -> io::Result<Directory> {
        let identity = identity(&path)?;
        Ok(Directory { path, identity })
    }

    /// # Errors
    /// It is another one now. The file system mounted there may be gone, and a write would go to
    /// the directory that it hid. The sign of the volume proves nothing: that directory may be an
    /// older copy. A file system that was mounted again may have another number, too.
    pub(super) fn check(&self) -> io::Result<()> {
        match identity(&self.path)? == self.identity {
            true => Ok(()),
            false => Err(io::Error::other(
                "another directory is there now; if it has all blocks, mount the volume again",
            )),
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let found = std::fs::metadata(path)?;
    Ok((found.dev(), found.ino()))
}
