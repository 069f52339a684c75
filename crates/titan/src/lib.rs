//! Titan: an embeddable key-value storage engine.
//!
//! A log-structured merge tree whose large values live outside the tree, in blob files. Its disk
//! formats are RocksDB's own: a RocksDB directory opens in place, and a directory Titan wrote
//! opens in RocksDB.

mod blob;
mod cache;
mod error;
mod format;
mod iterator;
mod memtable;
mod range_del;
mod table;
mod version;
pub mod vfs;
mod wal;
mod write;

pub use bytes::Bytes;
pub use error::{Error, ErrorKind, Result};
pub use format::{
    BlobFileNumber, BytewiseComparator, ColumnFamilyId, Comparator, CompressionType, FileNumber,
    ReverseBytewiseComparator, SequenceNumber,
};
