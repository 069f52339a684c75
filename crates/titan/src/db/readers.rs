//! Readers: snapshots, iterators, versions that are read although newer ones exist, and handles of
//! families that were dropped.

use std::sync::Arc;

use super::dropped::DroppedFamilies;
use crate::read::{IteratorList, SnapshotList};
use crate::version::Watch;

/// Lists of readers. Each list has its own lock, which is taken after all others.
#[derive(Default)]
pub(crate) struct Readers {
    pub(super) snapshots: Arc<SnapshotList>,
    pub(super) iterators: Arc<IteratorList>,
    /// Called back when a version ends for which a collection copied records.
    pub(super) version_watch: Arc<Watch>,
    pub(super) dropped: DroppedFamilies,
}
