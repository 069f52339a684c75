//! Options of a cache.

use std::time::Duration;

/// Options of [`RangeCache::open`](crate::RangeCache::open).
#[derive(Clone, Debug)]
pub struct CacheOptions {
    /// The limit of memory in bytes. Zero holds nothing. At most three quarters of the memory that
    /// the process may use count ([`Stats::memory_limit`](crate::Stats::memory_limit)), so that the
    /// cache does not get the process killed. Writes may exceed the limit until they are applied,
    /// by a read or when many are pending.
    pub memory_limit: usize,
    /// The usual size of a segment in bytes. It is split at twice the size, and joined with a
    /// neighbour below half the size together. About every tenth write to a leaf of some KiB makes
    /// it anew and copies its segment's list of leaves; a split copies the list of all segments.
    pub segment_size: usize,
    /// The lag of the cache's safe point behind the present. Earlier reads go to the engine, except
    /// those that are open.
    pub safe_lag: Duration,
    /// Whether the cache chooses ranges at each maintenance. It loads ranges in which scans of the
    /// engine pass many versions that they do not return, and drops ranges whose writes cost more
    /// than their reads save, except pinned ones. It remembers the held ranges over a restart, in a
    /// small file in the directory of the store.
    pub chooses: bool,
    /// Thousandths of the segments that each maintenance compares with the engine. Cost for each: a
    /// barrier, and a read of all its entries. A difference turns the cache off
    /// ([`RangeCache::difference`](crate::RangeCache::difference)).
    pub audited_per_mille: u32,
    /// The interval at which a thread maintains the cache. If none, the program calls
    /// [`RangeCache::maintain`](crate::RangeCache::maintain).
    pub maintenance: Option<Duration>,
}

impl Default for CacheOptions {
    /// 256 MiB in segments of 256 KiB, 180 s behind, chosen and maintained each second, one of a
    /// thousand audited.
    fn default() -> Self {
        CacheOptions {
            memory_limit: 256 << 20,
            segment_size: 256 << 10,
            safe_lag: Duration::from_secs(180),
            chooses: true,
            audited_per_mille: 1,
            maintenance: Some(Duration::from_secs(1)),
        }
    }
}
