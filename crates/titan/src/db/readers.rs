//! Who reads: snapshots, iterators, and versions that are read although newer ones exist.

use std::sync::Arc;

use crate::read::{IteratorList, SnapshotList};
use crate::version::Watch;

/// What readers pin. Each list has its own lock, which is taken after all others.
#[derive(Default)]
pub(crate) struct Readers {
    pub(super) snapshots: Arc<SnapshotList>,
    pub(super) iterators: Arc<IteratorList>,
    /// Called back when a version ends for which a collection copied records.
    pub(super) version_watch: Arc<Watch>,
}
