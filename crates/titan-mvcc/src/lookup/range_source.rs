//! The interface of a cache that answers reads before the engine.
//!
//! A range source changes the cost of reads, not their answers.

use bytes::Bytes;

use super::direction::Direction;
use crate::timestamp::Timestamp;

/// A copy of ranges of a store that a commit hook of the same database keeps.
///
/// The store asks at a timestamp that is final and held, after the read has resolved the locks on
/// its way. Each answer includes every version that was published before the call. Calls do not
/// fail, and wait for no I/O.
pub trait RangeSource: Send + Sync {
    /// The content of an encoded key at a timestamp, or `None` to leave the read to the engine.
    fn get(&self, encoded: &[u8], at: Timestamp) -> Option<Found>;

    /// The next part of a scan. Appends the rows of a part from memory, in the direction of the
    /// scan.
    fn part(&self, request: &PartRequest<'_>, rows: &mut Vec<SourceRow>) -> Part;

    /// Reports a run of rows without a value that a scan met in the engine: from the encoded key
    /// `lower` to before `upper`, or to the end.
    fn met_dead_rows(&self, _lower: &[u8], _upper: Option<&[u8]>, _rows: u64) {}

    /// Reports a finished part that the engine answered, its iterator steps and its rows: from the
    /// encoded key `lower` to before `upper`, or to the end.
    fn read_engine(&self, _lower: &[u8], _upper: Option<&[u8]>, _steps: u64, _rows: u64) {}
}

impl std::fmt::Debug for dyn RangeSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RangeSource")
    }
}

/// The rest of a scan.
#[derive(Clone, Copy, Debug)]
pub struct PartRequest<'a> {
    /// The first encoded key.
    pub lower: &'a [u8],
    /// The end of the range, exclusive; `None` for a range without an end.
    pub upper: Option<&'a [u8]>,
    /// The direction of the scan.
    pub direction: Direction,
    /// The timestamp of the scan.
    pub at: Timestamp,
    /// The most rows that the scan wants now.
    pub limit: usize,
    /// True if the scan has fetched at least half of the values that were [`Found::Stored`]. Each
    /// of them costs a point read of the engine, so the engine's iterator may be cheaper.
    pub fetches_stored: bool,
}

/// The content of a key at a timestamp.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// No value.
    Nothing,
    /// This value.
    Value(Bytes),
    /// A value that only the engine has.
    Stored,
}

/// A row of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceRow {
    /// The encoded key.
    pub encoded: Vec<u8>,
    /// The value; never [`Found::Nothing`].
    pub found: Found,
}

/// A part of a scan, from its position to an encoded key: the first key after the part in a forward
/// scan, the first key of the part in a backward one, `None` at the end of the scan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// A part from memory, whose rows were appended.
    Memory {
        /// The end of the part.
        end: Option<Vec<u8>>,
        /// Rows that were examined.
        steps: u64,
        /// Examined rows without a value at the timestamp.
        dead: u64,
    },
    /// A part that only the engine has.
    Engine {
        /// The end of the part.
        end: Option<Vec<u8>>,
    },
}
