//! What is held, as a list for people, and how its cache fares.

use std::path::Path;

use titan::vfs::Vfs;
use titan_mvcc::entries::{self, AFTER_VERSIONS};

use crate::maintenance::hot_set::{self, Hot};
use crate::segments::faults::Trouble;

/// A range that is held, or was when the cache wrote its hot set.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeldRange {
    /// Its first key, or for a gap of dead rows the key before it; none at the beginning of the key space.
    pub from: Option<Vec<u8>>,
    /// The first key after it; none at the end of the key space.
    pub to: Option<Vec<u8>>,
    /// Whether it is dropped last when memory is short.
    pub is_pinned: bool,
    /// Bytes of memory that it takes.
    pub bytes: u64,
    /// Steps of the engine's iterator that its reads save between two maintenances, less what its writes cost: an average
    /// that forgets.
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

/// What a cache wrote down: what it holds, and how it fares.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Remembered {
    /// The ranges in the order of their keys. Of a cache that is off, those that it held before.
    pub held: Vec<HeldRange>,
    /// Of its maintenance.
    pub trouble: Trouble,
}

impl Remembered {
    /// What the cache of the store in `dir` held when it was closed, or some time before it ended otherwise, at most
    /// a minute if it is maintained each second. None if there is no such list, or it is damaged. Cost: reads a
    /// small file.
    pub fn read(vfs: &dyn Vfs, dir: &Path) -> Option<Remembered> {
        let hot_set = hot_set::read(vfs, &hot_set::path(dir))?;
        Some(Remembered {
            held: hot_set.ranges.iter().map(HeldRange::new).collect(),
            trouble: hot_set.trouble,
        })
    }
}

/// The key of a bound, which may be what follows all versions of the key.
fn key(bound: &[u8]) -> Vec<u8> {
    let encoded = bound.strip_suffix(&AFTER_VERSIONS).unwrap_or(bound);
    entries::decode_key(encoded).unwrap_or_else(|| bound.to_vec())
}
