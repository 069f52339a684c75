//! The block cache: data blocks by file and offset, bounded by bytes.
//!
//! [`Blocks`] are shared by the databases of an `Env`, and a [`BlockCache`] is the part that one of
//! them sees. The id of an opening and a file's number in it are never reused, so a block of a
//! deleted file, or of a closed database, merely takes space until it is evicted. `quick_cache`
//! provides the sharding and the scan resistance (like S3-FIFO).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::format::{FileNumber, OpeningId};

/// Bytes an entry costs besides its block: key, pointers and bookkeeping.
const ENTRY_OVERHEAD: u64 = 96;

/// The expected size of blocks, from which the cache sizes its tables.
const TYPICAL_BLOCK: usize = 4096;

/// Counter slots; blocks spread over them, so that threads rarely share a cache line.
const SLOTS: usize = 16;

/// The database, its file, and the offset in that.
type Key = (OpeningId, FileNumber, u64);

/// Lookups and insertions counted by one slot, on a cache line of its own.
#[derive(Default)]
#[repr(align(64))]
struct Slot {
    hits: AtomicU64,
    misses: AtomicU64,
    adds: AtomicU64,
    added_bytes: AtomicU64,
}

impl Slot {
    /// The number of the slot that counts a block.
    fn of(file: FileNumber, offset: u64) -> usize {
        // Any spread will do; block offsets differ in the bits above a few hundred bytes.
        (file.0 ^ (offset >> 8) ^ (offset >> 12)) as usize % SLOTS
    }
}

#[derive(Clone)]
struct ByBytes;

impl Weighter<Key, Bytes> for ByBytes {
    fn weight(&self, _key: &Key, block: &Bytes) -> u64 {
        if mutant!(cache_forgets_what_blocks_take) {
            return ENTRY_OVERHEAD;
        }
        block.len() as u64 + ENTRY_OVERHEAD
    }
}

/// The blocks of several databases.
pub(crate) struct Blocks {
    blocks: Cache<Key, Bytes, ByBytes>,
    /// 0 caches nothing.
    capacity: AtomicU64,
}

impl Blocks {
    /// At most `capacity` bytes, bookkeeping included; 0 caches nothing.
    pub(crate) fn new(capacity: usize) -> Self {
        let blocks = (capacity / TYPICAL_BLOCK).max(1);
        Blocks {
            blocks: Cache::with_weighter(blocks, capacity as u64, ByBytes),
            capacity: AtomicU64::new(capacity as u64),
        }
    }

    /// Changes the bound, and evicts the blocks beyond it. The number of shards stays that of the
    /// bound with which the cache was made.
    pub(crate) fn set_capacity(&self, capacity: u64) {
        self.capacity.store(capacity, Ordering::Relaxed);
        self.blocks.set_capacity(capacity);
    }

    /// Bytes in use, bookkeeping included.
    pub(crate) fn usage(&self) -> u64 {
        self.blocks.weight()
    }

    /// The bound on [`Blocks::usage`], in bytes.
    pub(crate) fn capacity(&self) -> u64 {
        self.capacity.load(Ordering::Relaxed)
    }
}

/// The decompressed data blocks of one database. All methods take `&self` and are cheap: one shard
/// lock.
pub struct BlockCache {
    shared: Arc<Blocks>,
    /// Tells its blocks from those of others.
    database: OpeningId,
    counters: [Slot; SLOTS],
}

impl BlockCache {
    /// A cache of its own, of at most `capacity` bytes, bookkeeping included; 0 caches nothing.
    pub fn new(capacity: usize) -> Self {
        BlockCache::among(&Arc::new(Blocks::new(capacity)), OpeningId::new())
    }

    /// The blocks of one more database.
    pub(crate) fn among(shared: &Arc<Blocks>, database: OpeningId) -> Self {
        BlockCache {
            database,
            shared: Arc::clone(shared),
            counters: Default::default(),
        }
    }

    /// The database whose blocks these are.
    pub(crate) fn database(&self) -> OpeningId {
        self.database
    }

    /// The block that starts at `offset` of `file`, if it is cached.
    #[inline]
    pub(crate) fn get(&self, file: FileNumber, offset: u64) -> Option<Bytes> {
        let found = self.shared.blocks.get(&(self.database, file, offset));
        if let Some(slot) = self.counters.get(Slot::of(file, offset)) {
            let counter = if found.is_some() {
                &slot.hits
            } else {
                &slot.misses
            };
            counter.fetch_add(1, Ordering::Relaxed);
        }
        found
    }

    /// Keeps a block. Its whole allocation should be the block, as only its length is counted.
    pub(crate) fn insert(&self, file: FileNumber, offset: u64, block: Bytes) {
        if self.capacity() == 0 {
            return;
        }
        invariant!(
            !block.is_empty(),
            "a block of nothing at {offset} of file {file} is cached"
        );
        let file = if mutant!(cache_confuses_files) {
            FileNumber(file.0 & !1)
        } else {
            file
        };
        if let Some(slot) = self.counters.get(Slot::of(file, offset)) {
            slot.adds.fetch_add(1, Ordering::Relaxed);
            let bytes = block.len() as u64;
            slot.added_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        let key = (self.database, file, offset);
        self.shared.blocks.insert(key, block);
    }

    /// Bytes in use by all databases that share the cache, bookkeeping included.
    pub(crate) fn usage(&self) -> u64 {
        self.shared.usage()
    }

    /// The bound on [`BlockCache::usage`], in bytes.
    pub(crate) fn capacity(&self) -> u64 {
        self.shared.capacity()
    }

    /// Lookups that found their block.
    pub(crate) fn hits(&self) -> u64 {
        self.sum(|slot| &slot.hits)
    }

    /// Lookups that did not find it.
    pub(crate) fn misses(&self) -> u64 {
        self.sum(|slot| &slot.misses)
    }

    /// Blocks that were put into it.
    pub(crate) fn adds(&self) -> u64 {
        self.sum(|slot| &slot.adds)
    }

    /// Bytes of these blocks.
    pub(crate) fn added_bytes(&self) -> u64 {
        self.sum(|slot| &slot.added_bytes)
    }

    fn sum(&self, counter: impl Fn(&Slot) -> &AtomicU64) -> u64 {
        let counts = self.counters.iter();
        counts
            .map(|slot| counter(slot).load(Ordering::Relaxed))
            .sum()
    }
}

impl std::fmt::Debug for BlockCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "BlockCache({} of {} bytes)",
            self.usage(),
            self.capacity()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_keeps_what_fits_and_counts() {
        let cache = BlockCache::new(1 << 20);
        assert!(cache.get(FileNumber(1), 0).is_none());
        for i in 0..1000u64 {
            cache.insert(FileNumber(1), i * 4096, Bytes::from(vec![i as u8; 4096]));
            assert!(cache.usage() <= cache.capacity());
        }
        let kept = (0..1000u64)
            .filter(|i| cache.get(FileNumber(1), i * 4096).is_some())
            .count();
        assert!(
            (100..=250).contains(&kept),
            "{kept} blocks of 4 KiB in 1 MiB"
        );
        assert_eq!(
            (cache.hits(), cache.misses()),
            (kept as u64, 1001 - kept as u64)
        );
        assert_eq!((cache.adds(), cache.added_bytes()), (1000, 1000 * 4096));
        let block = (0..1000u64)
            .rev()
            .find_map(|i| Some((i, cache.get(FileNumber(1), i * 4096)?)));
        assert!(block.is_some_and(|(i, b)| b[..] == vec![i as u8; 4096]));
        assert!(
            cache.get(FileNumber(2), 999 * 4096).is_none(),
            "other files have other blocks"
        );
    }

    #[test]
    fn a_smaller_capacity_evicts_and_a_larger_one_keeps_more() {
        let cache = BlockCache::new(0);
        let fill = || {
            for i in 0..1000u64 {
                cache.insert(FileNumber(1), i * 4096, Bytes::from(vec![0; 4096]));
            }
            cache.usage()
        };
        for capacity in [1 << 20, 2 << 20, 64 << 10, 0, 1 << 20] {
            cache.shared.set_capacity(capacity);
            assert!(cache.usage() <= capacity);
            let used = fill();
            assert!(
                used <= capacity && used >= capacity / 2,
                "{used} of {capacity}"
            );
        }
    }

    #[test]
    fn databases_share_the_bound_and_not_the_blocks() {
        let shared = Arc::new(Blocks::new(1 << 20));
        let [ours, others] = [(); 2].map(|()| BlockCache::among(&shared, OpeningId::new()));
        ours.insert(FileNumber(1), 0, Bytes::from_static(b"ours"));
        assert!(others.get(FileNumber(1), 0).is_none());
        others.insert(FileNumber(1), 0, Bytes::from_static(b"others"));
        assert_eq!(ours.get(FileNumber(1), 0).unwrap(), &b"ours"[..]);
        assert_eq!(others.get(FileNumber(1), 0).unwrap(), &b"others"[..]);
        assert_eq!((ours.hits(), others.hits(), others.misses()), (1, 1, 1));
        for i in 1..1000 {
            ours.insert(FileNumber(1), i * 4096, Bytes::from(vec![0; 4096]));
            others.insert(FileNumber(1), i * 4096, Bytes::from(vec![0; 4096]));
        }
        assert_eq!(ours.usage(), others.usage());
        assert!(ours.usage() <= 1 << 20);
    }

    #[test]
    fn capacity_zero_keeps_nothing() {
        let cache = BlockCache::new(0);
        cache.insert(FileNumber(1), 0, Bytes::from_static(b"block"));
        assert!(cache.get(FileNumber(1), 0).is_none());
        assert_eq!(cache.usage(), 0);
    }
}
