//! Snapshots, iterators and older versions in use, which pin entries and files; and the names of
//! families that were dropped, of which handles may exist.

use std::sync::Arc;

use super::dropped_families::DroppedFamilies;
use crate::read::{IteratorList, SnapshotList};
use crate::version::Watch;

/// The lists of objects that readers have. Each list has its own lock, which is taken after all
/// others.
#[derive(Default)]
pub(crate) struct Pins {
    pub(crate) snapshots: Arc<SnapshotList>,
    pub(crate) iterators: Arc<IteratorList>,
    /// Called back when a version ends for which a collection copied records.
    pub(crate) version_watch: Arc<Watch>,
    pub(crate) dropped: DroppedFamilies,
}
