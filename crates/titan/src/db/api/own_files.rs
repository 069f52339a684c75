//! Files of programs in the directory of a database.

use std::sync::Arc;

use super::handle::Db;
use crate::vfs::Vfs;

impl Db {
    /// The file system in which paths in the database's directory lead to the locked directory,
    /// even after its name has changed: for files that a program keeps beside the database's.
    pub fn vfs(&self) -> Arc<dyn Vfs> {
        Arc::clone(&self.core.shared.files.device)
    }
}
