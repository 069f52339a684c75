//! Options of a cache.

use std::time::Duration;

/// How a cache is opened.
#[derive(Clone, Debug)]
pub struct CacheOptions {
    /// Bytes of memory that segments may take. Writes may exceed it until they are applied, by a read or when
    /// many have come. Zero holds nothing. More than three quarters of the memory that the process may use counts as that,
    /// so that the cache is not what the process is ended for; [`Stats::memory_limit`](crate::Stats::memory_limit) is what
    /// counts.
    pub memory_limit: usize,
    /// Bytes of a segment, about: it is split at twice as many, and joined with its neighbour if they have less than
    /// half together. A leaf that is made anew, at about every tenth write to it, costs a copy of the list of the leaves
    /// of its segment, which have some KiB each; a split costs a copy of the list of all segments.
    pub segment_size: usize,
    /// How far the cache's own safe point is behind the present. Reads before it go to the engine, but for those
    /// that are alive.
    pub safe_lag: Duration,
    /// Whether the cache decides by itself what is held, at each maintenance: it loads ranges in which scans of the engine pass
    /// many versions that they do not return, drops those whose writes cost more than their reads save, but for pinned
    /// ones, and remembers over a restart what was held. It keeps a small file in the directory of the store.
    pub chooses: bool,
    /// How many of a thousand segments are compared with the engine at each maintenance. That costs a barrier for each, and
    /// reads all its entries from the engine. If one differs, the cache is turned off
    /// ([`RangeCache::difference`](crate::RangeCache::difference)).
    pub audited_per_mille: u32,
    /// How often the cache is maintained by a thread of its own. Without one,
    /// [`RangeCache::maintain`](crate::RangeCache::maintain) is to be called.
    pub maintenance: Option<Duration>,
}

impl Default for CacheOptions {
    /// 256 MiB in segments of 256 KiB, 180 s behind, chosen and maintained each second, one of a thousand audited.
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
