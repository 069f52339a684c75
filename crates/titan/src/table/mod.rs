//! Sorted tables: RocksDB's block-based SST files.
//!
//! ```text
//! [data block]*            entries by internal key
//! [filter]                 Bloom filter over user keys, if configured
//! [index]                  a separator and a handle for each data block
//! [range tombstones]       if there are any
//! [liveness]               pointers into blob files, if there are any; named by a property only
//! [properties]
//! [metaindex]              name -> handle of filter, properties, range tombstones
//! [footer]                 53 bytes: checksum type, handles of metaindex and index, version, magic
//!
//! block on disk   payload | compression type u8 | checksum u32
//! block           entries | restart array | packed u32                     (block/)
//! handle          offset varint64 | size varint64, without the 5 bytes after the payload
//! ```
//!
//! Written: format version 5, XXH3 checksums, binary index of user keys with delta-coded values
//! (internal keys where a user key straddles two blocks), RocksDB's own full Bloom filter, so that
//! RocksDB reads and uses all of it (FMT-1). Read: versions 2 to 7, every checksum, every index
//! type, compression dictionaries, blocks with separated values, files ingested with a global
//! sequence number. Refused with an error that names the feature: other kinds of table, later
//! versions, compression managers and indexes of applications, embedded blobs.
//!
//! Promises:
//!
//! 1. With any content of a file, reading it gives its entries or an error that names file and
//!    offset; never a panic, never an allocation that its size does not justify.
//! 2. Every block is verified when it is read from the file.
//! 3. A written table is durable when [`TableWriter::finish`] returns; its name is not.
//! 4. The liveness block adds up to the totals that a full scan finds (BLOB-3);
//!    [`TableReader::verify`] checks that.
//!
//! | module | owns |
//! |---|---|
//! | `block` | blocks: building, reading from a file, cursors, the layout with separated values |
//! | `filter` | RocksDB's Bloom filter and the hashes of its versions |
//! | `footer`, `index`, `properties`, `liveness` | the other parts of a file |
//! | `writer`, `output`, `prefix_run` | writing a table; the file it is written to; where runs of a prefix end |
//! | `read` | reading a table: opening, lookups, cursors, readahead, verifying all of it |
//!
//! Assumes: keys come in the order of the comparator whose name the table stores; a file never
//! changes once its writer is done (except for RocksDB's in-place global sequence number, before
//! the file is part of a version).

pub(crate) mod block;
mod filter;
pub(crate) mod footer;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
pub(crate) mod index;
pub(crate) mod liveness;
mod output;
mod prefix_run;
pub(crate) mod properties;
pub(crate) mod read;
pub(crate) mod writer;

#[cfg(test)]
mod tests;

pub(crate) use liveness::BlobRef;
pub(crate) use properties::EntryCounts;
pub use read::iterator::TableIterOptions;
pub(crate) use read::iterator::TableIterator;
pub(crate) use read::open::{prefetch_head, refuse_unreadable};
pub use read::reader::{TableIdentity, TableReader, TableReaderOptions};
pub use read::verify::{TableCheck, TableVisitor};
pub(crate) use writer::TableSummary;
pub use writer::{TableFamily, TableWriter, TableWriterOptions};

/// Names in the metaindex.
pub const META_PROPERTIES: &[u8] = b"rocksdb.properties";
pub const META_INDEX: &[u8] = b"rocksdb.index";
pub const META_RANGE_DEL: &[u8] = b"rocksdb.range_del";
pub const META_COMPRESSION_DICT: &[u8] = b"rocksdb.compression_dict";
/// Prefixes of the names of filters, before the name of the filter policy.
pub const META_FILTERS: [&[u8]; 3] = [b"filter.", b"fullfilter.", b"partitionedfilter."];
