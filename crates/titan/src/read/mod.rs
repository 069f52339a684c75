//! Reading: lookups, iterators, snapshots, lazy values.
//!
//! Every read starts by taking the family's [`SuperVersion`]: the memtables and the version of one
//! moment, all immutable or append-only. Nothing that the read needs can be deleted while it has
//! that (VER-1, BLOB-2). The sequence number is taken *after* it, so that no newer flush or
//! compaction can have dropped what the number still sees.

mod db_iterator;
pub(crate) mod get;
mod iterator_list;
mod lazy_value;
mod options;
mod snapshot;
mod super_version;
mod value_window;
mod visible;

pub use db_iterator::DbIterator;
pub(crate) use db_iterator::IteratorSource;
pub(crate) use iterator_list::{IteratorList, ListedIterator};
pub use lazy_value::LazyValue;
pub use options::ReadOptions;
pub use snapshot::Snapshot;
pub(crate) use snapshot::SnapshotList;
pub(crate) use super_version::SuperVersion;
pub(crate) use value_window::ScanHistory;
