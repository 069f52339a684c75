//! Encodings shared by every file format: numbers, checksums, compression, internal keys, file
//! names. Nothing here does I/O or knows of versions or tables.
//!
//! The layouts are RocksDB's; `docs/formats.md` draws them.

pub(crate) mod blob_index;
pub(crate) mod bytes;
#[allow(missing_docs, reason = "reached through `internals` only")]
pub(crate) mod checksum;
pub(crate) mod codec;
#[allow(missing_docs, reason = "reached through `internals` only")]
pub(crate) mod coding;
pub(crate) mod comparator;
pub(crate) mod compression;
#[allow(missing_docs, reason = "reached through `internals` only")]
pub(crate) mod entity;
#[allow(missing_docs, reason = "reached through `internals` only")]
pub(crate) mod file_name;
#[allow(missing_docs, reason = "reached through `internals` only")]
pub(crate) mod internal_key;
pub(crate) mod key_text;
pub(crate) mod numbers;
pub(crate) mod ordered_key;
pub(crate) mod pointers;
pub mod prefix;
pub(crate) mod range_tombstone;
pub(crate) mod sequence_times;
pub(crate) mod unique_id;

pub use comparator::{BytewiseComparator, Comparator, KeyOrder, ReverseBytewiseComparator};
pub use compression::CompressionType;
pub(crate) use numbers::OpeningId;
pub use numbers::total;
pub use numbers::{BlobFileNumber, ColumnFamilyId, FileNumber, SequenceNumber};
