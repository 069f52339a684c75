//! The parts of an open node, opened and closed in order.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use parking_lot::Mutex;
use titan::Db;
use titan_mvcc::Store;

use super::room::Room;
use super::versions::Versions;
use crate::error::{Error, Result};
use crate::options::{Limits, NodeOptions};
use crate::raw::RawStore;
use crate::records::{Directory, Ids, SafePoints, SavedKeys, held_at};
use crate::regions::{KeyLimit, RegionMap, Within};

/// A region is looked at when this part of its size was written since the last look.
const PART_WRITTEN: u64 = 8;

/// The parts of an open node.
pub(crate) struct Shared {
    pub(crate) cluster_id: u64,
    /// The address that clients are told to connect to.
    pub(crate) address: String,
    pub(crate) versions: Versions,
    pub(crate) raw: RawStore,
    pub(crate) regions: RegionMap,
    pub(crate) ids: Arc<Ids>,
    pub(crate) safe_points: SafePoints,
    pub(crate) saved_keys: SavedKeys,
    pub(crate) limits: Limits,
    /// The database of records and raw keys.
    pub(crate) records: Db,
    pub(crate) room: Room,
    /// Wakes the keeper for a region. Gone when the node stops.
    pub(super) to_check: Mutex<Option<Sender<u64>>>,
}

impl Shared {
    /// Opens the parts of a node. `locked` is called when no other process can have them.
    ///
    /// # Errors
    /// `NotANode`; those of the store and the engine, and of `locked`.
    pub(crate) fn open(
        dir: &Path,
        options: &NodeOptions,
        address: String,
        to_check: Sender<u64>,
        locked: impl FnOnce() -> Result<()>,
    ) -> Result<Self> {
        let storage = &options.storage;
        let directory = Directory::open(dir, &storage.db)?;
        locked()?;
        let clock = &storage.db.clock;
        let held_at = held_at(&directory.db, clock.unix_time())?;
        let versions = match Versions::open(&directory.versions, storage, held_at) {
            // The store's safe point has passed the promise of a service, which is forgotten.
            Err(Error::Store(titan_mvcc::Error::BeforeSafePoint { .. })) => {
                Versions::open(&directory.versions, storage, None)?
            }
            opened => opened?,
        };
        directory.confirm()?;
        let records = directory.db;
        let ids = Arc::new(Ids::open(records.clone())?);
        let regions = RegionMap::open(
            records.clone(),
            directory.regions,
            Arc::clone(&ids),
            options.regions,
            KeyLimit(options.limits.key_bytes),
        )?;
        let (store, clock) = (versions.store().clone(), Arc::clone(clock));
        let safe_points = SafePoints::open(records.clone(), store, clock)?;
        Ok(Shared {
            cluster_id: directory.cluster_id,
            address,
            raw: RawStore::new(records.clone(), directory.raw, storage),
            regions,
            ids,
            safe_points,
            saved_keys: SavedKeys::open(records.clone())?,
            versions,
            limits: options.limits,
            records,
            room: Room::new(Arc::clone(&storage.db.vfs), dir),
            to_check: Mutex::new(Some(to_check)),
        })
    }

    /// The store of versions.
    pub(crate) fn store(&self) -> &Store {
        self.versions.store()
    }

    /// Notes that a call has written to its region.
    pub(crate) fn note_written(&self, within: &Within, bytes: usize, keys: usize) {
        let (bytes, keys) = within.written.add(bytes as u64, keys as u64);
        let (after_bytes, after_keys) = within.written.due_after();
        let sizes = &self.regions.sizes;
        let is_due = bytes >= after_bytes.max(sizes.bytes / PART_WRITTEN)
            || keys >= after_keys.max(sizes.keys / PART_WRITTEN);
        if is_due && let Some(to_check) = &*self.to_check.lock() {
            within.written.reset();
            // A keeper that is gone needs no regions.
            let _ = to_check.send(within.region.id);
        }
    }

    /// Closes the databases. Later calls fail.
    ///
    /// # Errors
    /// Those of [`Db::close`].
    pub(crate) fn close(&self) -> Result<()> {
        let closed = self.versions.close();
        self.records.close()?;
        closed
    }
}
