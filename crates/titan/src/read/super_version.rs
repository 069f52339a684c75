//! Everything a reader needs of a family, taken at once.

use std::sync::Arc;

use crate::dead_ranges::ReadPoint;
use crate::format::SequenceNumber;
use crate::memtable::Memtable;
use crate::version::Version;

/// The memtables and the version of one moment. Replaced whole whenever one of them changes.
pub(crate) struct SuperVersion {
    pub(crate) memtable: Arc<Memtable>,
    /// Full memtables that are not flushed yet, newest first.
    pub(crate) immutables: Vec<Arc<Memtable>>,
    pub(crate) version: Arc<Version>,
    /// Grows with each change of the tables in a family with a compaction filter: keys may have
    /// lost their values then, without a write. Zero in other families.
    pub(crate) generation: u64,
}

impl SuperVersion {
    /// The view of a reader whose newest sequence number is `snapshot`.
    pub(crate) fn at(&self, snapshot: SequenceNumber) -> ReadPoint {
        ReadPoint {
            snapshot,
            generation: self.generation,
        }
    }

    /// All memtables, newest first.
    pub(crate) fn memtables(&self) -> impl Iterator<Item = &Arc<Memtable>> {
        std::iter::once(&self.memtable).chain(&self.immutables)
    }

    /// The newest sequence number that can be read here, of a database whose last one is
    /// `published`. The memtables may have entries of a failed commit, and later commits elsewhere
    /// have been given their numbers: that these are published says nothing of the entries here.
    pub(crate) fn readable_to(&self, published: SequenceNumber) -> SequenceNumber {
        let accepted = self.memtables().map(|memtable| memtable.accepted_to());
        accepted.fold(published, SequenceNumber::min)
    }
}
