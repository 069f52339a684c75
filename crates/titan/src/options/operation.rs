//! Options of single operations.

use std::fmt;
use std::sync::Arc;

use super::require;
use crate::error::Result;
use crate::gc::range::GarbageCollectionProgress;
use crate::read::Snapshot;

/// How a write is made durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// Return only after the write survives a power failure. Without it, a write survives a crash of
    /// the process, but a crash of the machine may lose the last ones. Default: false.
    pub sync: bool,
    /// Do not write to the WAL: the write is lost if the process ends before the next flush of its
    /// column family. Default: false.
    pub disable_wal: bool,
    /// Fail with `Busy` instead of waiting while writes are stalled. Default: false.
    pub no_slowdown: bool,
}

impl WriteOptions {
    /// Options of a write that survives a power failure.
    pub fn synced() -> Self {
        WriteOptions {
            sync: true,
            ..WriteOptions::default()
        }
    }
}

/// What a read sees and where an iterator ends.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// Read as of this snapshot instead of now. Default: none.
    pub snapshot: Option<Snapshot>,
    /// Iterators stop before the first key smaller than this. Default: none.
    pub lower_bound: Option<Vec<u8>>,
    /// Iterators stop before the first key not smaller than this. Default: none.
    pub upper_bound: Option<Vec<u8>>,
    /// Iterators see only keys with this prefix; together with bounds the narrower range applies.
    /// Needs the bytewise order. Default: none.
    pub prefix: Option<Vec<u8>>,
    /// Cache the blocks that the read loads. Turn it off for scans that should not evict what others
    /// use. Default: true.
    pub fill_cache: bool,
    /// How many values an iterator that is used sequentially reads ahead at most; it begins with
    /// few, and never reads ahead more than 4 MiB. 0 reads each value when it is fetched.
    /// Default: 1024.
    pub prefetch_values: usize,
}

impl Default for ReadOptions {
    fn default() -> Self {
        ReadOptions {
            snapshot: None,
            lower_bound: None,
            upper_bound: None,
            prefix: None,
            fill_cache: true,
            prefetch_values: 1024,
        }
    }
}

/// How [`compact_range`](crate::ColumnFamily::compact_range) works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompactRangeOptions {
    /// Rewrite files of the last level too, even if nothing above overlaps them: drops what only
    /// old snapshots pinned and applies changed separation or compression. Default: false.
    pub force_bottommost: bool,
}

/// How [`collect_garbage`](crate::ColumnFamily::collect_garbage) works.
#[derive(Clone)]
pub struct CollectGarbageOptions {
    /// The share of a blob file, from 0 to 1, that may be garbage without the file being collected.
    /// Default: 0, so that no garbage stays.
    pub threshold: f64,
    /// Flush and compact the range first: values that were overwritten or deleted are known to be
    /// garbage only once a compaction has dropped the entries that point to them. Rewrites keys, no
    /// values. Default: true.
    pub compact: bool,
    /// Called now and then with the progress of copying, on the caller's thread. Must not call the
    /// database. Default: none.
    pub progress: Option<Arc<dyn Fn(GarbageCollectionProgress) + Send + Sync>>,
}

impl Default for CollectGarbageOptions {
    fn default() -> Self {
        CollectGarbageOptions {
            threshold: 0.0,
            compact: true,
            progress: None,
        }
    }
}

impl CollectGarbageOptions {
    /// Checks every range, as a collection does before it begins.
    ///
    /// # Errors
    /// `InvalidOption` naming the option, the rule and the value.
    pub fn validate(&self) -> Result<()> {
        let share = (0.0..=1.0).contains(&self.threshold);
        require(share, "threshold", "from 0 to 1", self.threshold)
    }

    pub(crate) fn tell(&self, progress: GarbageCollectionProgress) {
        if let Some(tell) = &self.progress {
            tell(progress);
        }
    }
}

impl fmt::Debug for CollectGarbageOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CollectGarbageOptions")
            .field("threshold", &self.threshold)
            .field("compact", &self.compact)
            .finish_non_exhaustive()
    }
}
