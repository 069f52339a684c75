//! Reads the description of a mounted volume.

use std::path::Path;

use anyhow::{Context, Result, bail};
use rustix::io::Errno;

use super::mounts;

/// The text of an attribute by which [`tifs::volume`] describes itself. Symbolic links are not
/// followed. `None` if the path is not in a mounted volume.
pub(super) fn read(path: &Path, name: &str) -> Result<Option<String>> {
    let mut value = vec![0; 64 << 10];
    let length = match rustix::fs::lgetxattr(path, name, &mut value[..]) {
        Ok(length) => length,
        Err(Errno::OPNOTSUPP | Errno::NODATA) => return Ok(None),
        Err(e) if mounts::has_ended(e) => {
            let mountpoint = mounts::above(path).map(|mount| mount.mountpoint);
            bail!(
                "{} is in a mount whose process has ended: unmount it, with tifs umount {}",
                path.display(),
                mountpoint.as_deref().unwrap_or(path).display()
            )
        }
        Err(e) => {
            let error = std::io::Error::from(e);
            return Err(error).with_context(|| path.display().to_string());
        }
    };
    value.truncate(length);
    Ok(Some(String::from_utf8(value)?))
}
