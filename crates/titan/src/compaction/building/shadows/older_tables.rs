//! The tables that new entries may shadow.

use crate::open_files::OpenFiles;
use crate::version::Version;

/// The older tables, of which new entries may shadow something.
#[derive(Clone, Copy)]
pub struct OlderTables<'a> {
    pub(crate) version: &'a Version,
    pub(crate) open_files: &'a OpenFiles,
}
