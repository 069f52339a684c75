//! Options of a read.

use super::Snapshot;

/// What a read sees and where an iterator ends.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// Read as of this snapshot instead of now. Default: none.
    pub snapshot: Option<Snapshot>,
    /// Iterators stop before the first key smaller than this. Default: none.
    pub lower_bound: Option<Vec<u8>>,
    /// Iterators stop before the first key not smaller than this. Default: none.
    pub upper_bound: Option<Vec<u8>>,
    /// [`DbIterator::seek`](crate::DbIterator::seek) and
    /// [`seek_for_prev`](crate::DbIterator::seek_for_prev) bound the iterator to the prefix of their
    /// target, by the family's [extractor](crate::prefix::PrefixExtractor), until the next seek. A
    /// target without a prefix bounds nothing. Needs an extractor and the bytewise order; excludes
    /// `prefix`; not in transactions. Default:
    /// false; keys are then in total order, also with an extractor.
    pub prefix_same_as_start: bool,
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
            prefix_same_as_start: false,
            prefix: None,
            fill_cache: true,
            prefetch_values: 1024,
        }
    }
}
