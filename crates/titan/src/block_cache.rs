//! The block cache: data blocks by file and offset, bounded by bytes.
//!
//! Shared by all tables of a database; file numbers are never reused within one, so a block of a
//! deleted file merely takes space until it is evicted. `quick_cache` provides the sharding and the
//! scan resistance (like S3-FIFO).

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::format::FileNumber;

/// Bytes an entry costs besides its block: key, pointers and bookkeeping.
const ENTRY_OVERHEAD: u64 = 96;

/// The expected size of blocks, from which the cache sizes its tables.
const TYPICAL_BLOCK: usize = 4096;

/// Counter slots; blocks spread over them, so that threads rarely share a cache line.
const SLOTS: usize = 16;

type Key = (FileNumber, u64);

/// Lookups counted by one slot, on a cache line of its own.
#[derive(Default)]
#[repr(align(64))]
struct Slot {
    hits: AtomicU64,
    misses: AtomicU64,
}

#[derive(Clone)]
struct ByBytes;

impl Weighter<Key, Bytes> for ByBytes {
    fn weight(&self, _key: &Key, block: &Bytes) -> u64 {
        // MUTANT: the block cache counts entries, not the bytes of their blocks.
        if mutant!(
            "cache-forgets-what-blocks-take",
            "-p titan --test memory the_block_cache"
        ) {
            return ENTRY_OVERHEAD;
        }
        block.len() as u64 + ENTRY_OVERHEAD
    }
}

/// A cache of decompressed data blocks. All methods take `&self` and are cheap: one shard lock.
pub(crate) struct BlockCache {
    /// `None` for capacity 0, which caches nothing.
    blocks: Option<Cache<Key, Bytes, ByBytes>>,
    capacity: u64,
    counters: [Slot; SLOTS],
}

impl BlockCache {
    /// A cache of at most `capacity` bytes, bookkeeping included; 0 caches nothing.
    pub(crate) fn new(capacity: usize) -> Self {
        let blocks = (capacity > 0).then(|| {
            Cache::with_weighter((capacity / TYPICAL_BLOCK).max(1), capacity as u64, ByBytes)
        });
        BlockCache {
            blocks,
            capacity: capacity as u64,
            counters: Default::default(),
        }
    }

    /// The block that starts at `offset` of `file`, if it is cached.
    pub(crate) fn get(&self, file: FileNumber, offset: u64) -> Option<Bytes> {
        let found = self
            .blocks
            .as_ref()
            .and_then(|blocks| blocks.get(&(file, offset)));
        // Any spread will do; block offsets differ in the bits above a few hundred bytes.
        let slot = (file.0 ^ (offset >> 8) ^ (offset >> 12)) as usize % SLOTS;
        if let Some(slot) = self.counters.get(slot) {
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
        if let Some(blocks) = &self.blocks {
            // MUTANT: the block cache takes two files with neighbouring numbers for one.
            let file = if mutant!(
                "cache-confuses-files",
                "-p titan-campaigns --test it metamorphic::"
            ) {
                FileNumber(file.0 & !1)
            } else {
                file
            };
            blocks.insert((file, offset), block);
        }
    }

    /// Bytes in use, bookkeeping included.
    pub(crate) fn usage(&self) -> u64 {
        self.blocks.as_ref().map_or(0, Cache::weight)
    }

    /// The bound on [`BlockCache::usage`], in bytes.
    pub(crate) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Lookups that found their block.
    pub(crate) fn hits(&self) -> u64 {
        self.counters
            .iter()
            .map(|s| s.hits.load(Ordering::Relaxed))
            .sum()
    }

    /// Lookups that did not find it.
    pub(crate) fn misses(&self) -> u64 {
        self.counters
            .iter()
            .map(|s| s.misses.load(Ordering::Relaxed))
            .sum()
    }
}

impl std::fmt::Debug for BlockCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BlockCache({} of {} bytes)", self.usage(), self.capacity)
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
    fn capacity_zero_keeps_nothing() {
        let cache = BlockCache::new(0);
        cache.insert(FileNumber(1), 0, Bytes::from_static(b"block"));
        assert!(cache.get(FileNumber(1), 0).is_none());
        assert_eq!(cache.usage(), 0);
    }
}
