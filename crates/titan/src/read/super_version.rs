//! Everything a reader needs of a family, taken at once.

use std::sync::Arc;

use crate::memtable::Memtable;
use crate::version::Version;

/// The memtables and the version of one moment. Replaced whole whenever one of them changes.
pub(crate) struct SuperVersion {
    pub(crate) memtable: Arc<Memtable>,
    /// Full memtables that are not flushed yet, newest first.
    pub(crate) immutables: Vec<Arc<Memtable>>,
    pub(crate) version: Arc<Version>,
}

impl SuperVersion {
    /// All memtables, newest first.
    pub(crate) fn memtables(&self) -> impl Iterator<Item = &Arc<Memtable>> {
        std::iter::once(&self.memtable).chain(&self.immutables)
    }
}
