//! The file that tells the address of a running node.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::Path;

use crate::error::{Error, Result};

/// Removes the address of an earlier run: a reader would connect to nobody.
pub(super) fn remove(file: &Path) -> Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::io(format!("remove {}", file.display()))(error))
        }
        _ => Ok(()),
    }
}

/// Writes the address so that a reader finds all of it or no file.
pub(super) fn write(file: &Path, address: SocketAddr) -> Result<()> {
    let doing = || format!("write {}", file.display());
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let new = file.with_file_name(name);
    fs::write(&new, address.to_string()).map_err(Error::io(doing()))?;
    fs::rename(&new, file).map_err(Error::io(doing()))
}
