//! The range tombstones of a memtable: a list of them as written, and the same sorted into
//! fragments on demand.
//!
//! Range deletions are rare compared with reads, so a read pays one atomic load when there are
//! none, and two when nothing changed since the last one.

use std::sync::Arc;

use crate::format::internal_key::InternalKeyComparator;
use crate::format::range_tombstone::RangeTombstone;
use crate::range_del::FragmentedTombstones;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{ArcSwapOption, Mutex};

/// See the module.
pub(super) struct TombstoneSet {
    written: Mutex<Vec<RangeTombstone>>,
    /// The length of `written`; stored with release under its lock.
    count: AtomicU64,
    memory: AtomicU64,
    cache: ArcSwapOption<Cached>,
}

struct Cached {
    /// Number of tombstones of which the fragments were made. As tombstones are only ever added,
    /// this shows whether they are current.
    count: u64,
    fragments: Arc<FragmentedTombstones>,
}

impl TombstoneSet {
    pub(super) fn new() -> Self {
        TombstoneSet {
            written: Mutex::new(Vec::new()),
            count: AtomicU64::new(0),
            memory: AtomicU64::new(0),
            cache: ArcSwapOption::empty(),
        }
    }

    /// Number of tombstones that were added.
    pub(super) fn len(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// Estimated bytes of memory: each tombstone is stored once as written and about once more in
    /// fragments, which share its keys.
    pub(super) fn memory(&self) -> u64 {
        self.memory.load(Ordering::Relaxed)
    }

    pub(super) fn add(&self, tombstone: RangeTombstone) {
        let keys = tombstone.start.len() + tombstone.end.len();
        let bytes = match mutant!(range_deletions_are_keys_only) {
            true => keys,
            false => keys + 2 * size_of::<RangeTombstone>(),
        };
        let mut written = self.written.lock();
        invariant!(
            self.count.load(Ordering::Relaxed) == written.len() as u64,
            "readers know of another number of tombstones than {}",
            written.len()
        );
        written.push(tombstone);
        self.memory.fetch_add(bytes as u64, Ordering::Relaxed);
        self.count.store(written.len() as u64, Ordering::Release);
    }

    /// All tombstones whose `add` returned before this call, as fragments.
    pub(super) fn fragmented(
        &self,
        comparator: &InternalKeyComparator,
    ) -> Arc<FragmentedTombstones> {
        let count = self.count.load(Ordering::Acquire);
        if count == 0 {
            return FragmentedTombstones::empty();
        }
        if let Some(current) = self.cached(count) {
            return current;
        }
        // Under the lock, so that one of several readers sorts and the others find its result.
        let written = self.written.lock();
        let before = count;
        let count = written.len() as u64;
        invariant!(before <= count, "of {before} tombstones, {count} are left");
        if let Some(current) = self.cached(count) {
            return current;
        }
        let fragments = Arc::new(FragmentedTombstones::build(
            written.iter().cloned(),
            comparator,
        ));
        let cached = Cached {
            count,
            fragments: Arc::clone(&fragments),
        };
        self.cache.store(Some(Arc::new(cached)));
        fragments
    }

    fn cached(&self, count: u64) -> Option<Arc<FragmentedTombstones>> {
        let cache = self.cache.load();
        let cached = cache.as_ref().filter(|cached| cached.count >= count)?;
        Some(Arc::clone(&cached.fragments))
    }
}
