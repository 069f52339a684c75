//! A directory as an object store: whether it is still the one that it was.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

/// The directory of an object store.
pub(super) struct Directory {
    path: PathBuf,
    /// Its device and its inode.
    identity: Mutex<(u64, u64)>,
}

impl Directory {
    pub(super) fn find(path: PathBuf) -> io::Result<Directory> {
        let identity = Mutex::new(identity(&path)?);
        Ok(Directory { path, identity })
    }

    /// # Errors
    /// It is another one now, without the sign of the volume: what is mounted there is gone, and a
    /// write would make the directory that it hid.
    pub(super) fn check(&self, sign: Option<&str>) -> io::Result<()> {
        let found = identity(&self.path)?;
        let mut known = self.identity.lock();
        if *known == found {
            return Ok(());
        }
        // What is mounted again may have another number.
        if !sign.is_some_and(|sign| self.path.join(sign).is_file()) {
            let what = "another directory is there now, without the blocks of the volume";
            return Err(io::Error::other(what));
        }
        *known = found;
        Ok(())
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let found = std::fs::metadata(path)?;
    Ok((found.dev(), found.ino()))
}
