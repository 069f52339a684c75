//! The list of held ranges for users, and the faults of their cache.

use std::path::Path;

use titan::vfs::Vfs;
use titan_mvcc::codec::{self, AFTER_VERSIONS};

use crate::maintenance::hot_set::{self, Hot};
use crate::segments::faults::Faults;

/// A range that is held, or was held when the cache wrote its hot set.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeldRange {
    /// Its first key, or for a gap of dead rows the key before it; none at the beginning of the key
    /// space.
    pub from: Option<Vec<u8>>,
    /// The first key after it; none at the end of the key space.
    pub to: Option<Vec<u8>>,
    /// Whether it is evicted last.
    pub is_pinned: bool,
    /// Bytes of memory that it takes.
    pub bytes: u64,
    /// Steps of the engine's iterator saved between two passes of maintenance, minus the cost of
    /// writes: a decaying average.
    pub worth: i64,
}

impl HeldRange {
    pub(crate) fn new(hot: &Hot) -> Self {
        let (lower, upper) = &hot.range;
        HeldRange {
            from: (!lower.is_empty()).then(|| key(lower)),
            to: upper.as_deref().map(key),
            is_pinned: hot.is_pinned,
            bytes: hot.bytes,
            worth: hot.worth,
        }
    }
}

/// The last record of a cache: its held ranges and its faults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Remembered {
    /// The ranges in the order of their keys. For a cache that is off, those that it held before.
    pub held: Vec<HeldRange>,
    /// The faults of the cache.
    pub faults: Faults,
}

impl Remembered {
    /// The record of the cache of the store in `dir`: as of its closing, or at most a minute before
    /// it ended otherwise, if it is maintained each second. None if there is no record or it is
    /// damaged. Cost: reads a small file.
    pub fn read(vfs: &dyn Vfs, dir: &Path) -> Option<Remembered> {
        let hot_set = hot_set::read(vfs, &hot_set::path(dir))?;
        Some(Remembered {
            held: hot_set.ranges.iter().map(HeldRange::new).collect(),
            faults: hot_set.faults,
        })
    }
}

/// The key of a bound, which may follow all versions of the key.
fn key(bound: &[u8]) -> Vec<u8> {
    let encoded = bound.strip_suffix(&AFTER_VERSIONS).unwrap_or(bound);
    codec::decode_key(encoded).unwrap_or_else(|| bound.to_vec())
}
