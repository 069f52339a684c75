//! Files that a database does not use any more and that may have data all the same.

use std::path::Path;

use super::directory::create_dir_durably;
use crate::error::Result;
use crate::format::file_name::FileKind;
use crate::vfs::{Vfs, link_or_copy};

/// Where they are, in the directory of the database. Nothing there is ever read or removed.
pub const LOST_DIR: &str = "lost";

/// Links files of `dir` into `lost/`, where no opening deletes them. Durable on return.
///
/// Cost: a link each; a copy where the file system has no links or WAL files are on another one.
pub fn link_to_lost(vfs: &dyn Vfs, dir: &Path, files: &[FileKind]) -> Result<()> {
    if files.is_empty() {
        return Ok(());
    }
    let lost = dir.join(LOST_DIR);
    create_dir_durably(vfs, &lost)?;
    for file in files {
        let to = file.path(&lost);
        // A number is used once, so it is the same file, linked there by an attempt before this.
        if vfs.exists(&to)? {
            vfs.remove(&to)?;
        }
        link_or_copy(vfs, &file.path(dir), &to)?;
    }
    vfs.sync_dir(&lost)
}
