//! What may answer reads in place of the engine.
//!
//! Owns the interface between reads and a copy of ranges of the store. Whether there is one changes no answer.

use bytes::Bytes;

use super::direction::Direction;
use crate::timestamp::Timestamp;

/// A copy of ranges of a store, kept by a commit hook of the same database.
///
/// It is asked for a timestamp that is settled and held, after the read has looked at what else it must look at.
/// So it answers for every version that was published before the call, or not at all. It never fails, and waits for no
/// I/O.
pub trait RangeSource: Send + Sync {
    /// What an encoded key has at a timestamp; none if the engine must be asked.
    fn get(&self, encoded: &[u8], at: Timestamp) -> Option<Found>;

    /// The next part of a scan. Appends the rows of a part that it has, in the direction of the scan.
    fn part(&self, request: &PartRequest<'_>, rows: &mut Vec<SourceRow>) -> Part;

    /// A scan met many rows in the engine, one after the other, that have no value at its timestamp: from the encoded
    /// key `lower` to before `upper`, or to the end.
    fn met_dead_rows(&self, _lower: &[u8], _upper: Option<&[u8]>, _rows: u64) {}

    /// A scan is done with a part that the engine was asked for: from the encoded key `lower` to before `upper`, or to
    /// the end. That took so many steps, and gave so many rows.
    fn read_engine(&self, _lower: &[u8], _upper: Option<&[u8]>, _steps: u64, _rows: u64) {}
}

impl std::fmt::Debug for dyn RangeSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RangeSource")
    }
}

/// What is left of a scan, and what of it is asked for next.
#[derive(Clone, Copy, Debug)]
pub struct PartRequest<'a> {
    /// The first encoded key.
    pub lower: &'a [u8],
    /// The first encoded key after it; none if it goes on to the end.
    pub upper: Option<&'a [u8]>,
    /// The direction of the scan.
    pub direction: Direction,
    /// The timestamp of the scan.
    pub at: Timestamp,
    /// Rows that are wanted at most.
    pub limit: usize,
    /// Whether the scan has fetched half or more of the values so far that were [`Found::Stored`]. Each costs a point
    /// read of the engine, so its iterator may be cheaper.
    pub fetches_stored: bool,
}

/// What a key has at a timestamp.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// No value.
    Nothing,
    /// This value.
    Value(Bytes),
    /// A value that the engine is to be asked for.
    Stored,
}

/// A row of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceRow {
    /// The encoded key.
    pub encoded: Vec<u8>,
    /// Its value; not [`Found::Nothing`].
    pub found: Found,
}

/// A part of a scan, which begins where the scan is and ends at an encoded key. For a scan forward that is the
/// first key after the part, for one backward the first key of the part; none where the scan ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// The rows of the part were appended.
    Memory {
        /// Where it ends.
        end: Option<Vec<u8>>,
        /// Rows that were looked at.
        steps: u64,
        /// Rows among them that have no value, at the timestamp.
        dead: u64,
    },
    /// The engine must be asked for the part.
    Engine {
        /// Where it ends.
        end: Option<Vec<u8>>,
    },
}
