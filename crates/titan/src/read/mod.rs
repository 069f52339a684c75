//! Reading: lookups, iterators, snapshots, lazy values.
//!
//! Every read starts by taking the family's [`SuperVersion`]: the memtables and the version of one
//! moment, all immutable or append-only. Nothing that the read needs can be deleted while it has
//! that (VER-1, BLOB-2). The sequence number is taken *after* it, so that no newer flush or
//! compaction can have dropped entries that the number still sees.
//!
//! All reads walk the same list of sources (`source.rs`) and decide by the same rule on the value
//! of a key (`resolve.rs`).

mod covered_run;
mod cursor;
mod db_iterator;
mod first_in_prefix;
pub(crate) mod found;
#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
#[cfg(workspace)]
mod golden_tests;
mod iterator_list;
mod key_range;
pub(crate) mod lookup;
mod moves;
mod options;
mod point_reader;
mod range;
mod ranged_source;
pub(crate) mod resolve;
mod search;
mod snapshot;
mod source;
mod super_version;
#[cfg(test)]
mod tests;
mod value_window;
mod visible;
mod written_since;

pub(crate) use cursor::{Cursor, End, cursor};
pub use db_iterator::DbIterator;
pub(crate) use db_iterator::IteratorSource;
pub(crate) use first_in_prefix::PrefixSearch;
pub(crate) use iterator_list::{IteratorList, ListedIterator};
pub use key_range::KeyRange;
pub(crate) use options::Bounds;
pub use options::ReadOptions;
pub(crate) use point_reader::PointReader;
pub(crate) use range::{CursorSource, FamilySource};
pub use range::{Keys, Range};
pub use snapshot::Snapshot;
pub(crate) use snapshot::SnapshotList;
pub(crate) use super_version::SuperVersion;
pub(crate) use value_window::ScanHistory;
pub(crate) use written_since::WrittenSince;
