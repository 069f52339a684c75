//! Reads what a mounted volume says about itself.

use std::path::Path;

use anyhow::{Context, Result, bail};
use rustix::io::Errno;

/// The text of one of the attributes that [`tifs::volume`] describes itself with.
///
/// # Errors
/// The path is not in a mounted volume.
pub(super) fn read(path: &Path, name: &str) -> Result<String> {
    let mut value = vec![0; 64 << 10];
    let length = match rustix::fs::getxattr(path, name, &mut value[..]) {
        Ok(length) => length,
        Err(Errno::OPNOTSUPP | Errno::NODATA) => {
            bail!("{} is not in a mounted volume", path.display())
        }
        Err(e) => return Err(e).with_context(|| path.display().to_string()),
    };
    value.truncate(length);
    Ok(String::from_utf8(value)?)
}
