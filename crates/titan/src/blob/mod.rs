//! Blob files: where large values are stored, outside the tree.
//!
//! A blob file holds the values of one column family in the order in which one flush, compaction
//! or collection wrote them. The layout is RocksDB's integrated BlobDB, numbers little-endian:
//!
//! ```text
//! file    header | record ... | footer           no footer: the file was never sealed
//!
//! header  magic 0x00248f37 u32 | version 1 u32 | column family u32
//! 30 B    | flags u8 | compression u8 | expiration 0 u64, 0 u64
//!
//! record  key length u64 | value length u64 | expiration 0 u64
//! 32 B +  | header checksum u32                  masked CRC-32C of the 24 bytes before it
//!         | blob checksum u32                    masked CRC-32C of key and value
//!         | key | value                          ^ BlobIndex.offset is where the value starts
//!
//! footer  magic u32 | record count u64 | expiration 0 u64, 0 u64
//! 32 B    | checksum u32                         masked CRC-32C of the 28 bytes before it
//! ```
//!
//! The key is the user key. "Value" above is the stored form: compressed with the one compression
//! that the file's header and every [`BlobIndex`](crate::format::blob_index::BlobIndex) into the
//! file name, even where that makes it longer.
//!
//! The module promises:
//!
//! 1. A value is returned only if its record's checksums, key and lengths match the pointer
//!    (BLOB-1). Damage is `Corruption` naming the file and the record's offset; it is neither a
//!    panic nor an allocation beyond the size to which the bytes of the file can decompress.
//! 2. A [`BlobSeparator`] that had an error reports it from then on and never finishes: no pointer
//!    that it returned can get into a table that is installed.
//! 3. A finished file is durable. Its *name* is durable only after the caller has synced the
//!    directory.
//! 4. Pointers name logical files. [`ValueFetcher`] asks [`BlobLocations`] where the records are
//!    at each fetch, so relocation changes neither pointers nor open readers.
//!
//! It assumes that files are immutable once finished, and are there as long as a location names
//! them (BLOB-2 is kept by the code that removes files).

mod fetcher;
mod holes;
mod layout;
mod location;
mod moved_chunk;
mod reader;
mod records;
mod relocation;
mod separator;
mod value_file;
mod writer;

pub use fetcher::BlobReaders;
pub(crate) use fetcher::{ValueAhead, ValueFetcher};
pub(crate) use holes::{BLOCK, whole_blocks};
pub use layout::{BLOB_FILE_FRAME_LEN, BLOB_FILE_HEADER_LEN, BLOB_FILE_MAGIC};
pub(crate) use location::{BlobLocation, BlobLocations, PhysicalLocation, no_location};
pub(crate) use moved_chunk::MovedRecord;
pub use reader::BlobFileReader;
pub(crate) use reader::RawRecord;
pub use records::{BlobRecord, Records};
pub(crate) use relocation::RelocationBuilder;
pub use relocation::RelocationMap;
pub(crate) use separator::{BlobSeparator, SeparatorOptions};
pub(crate) use value_file::ValueFile;
pub use writer::BlobFileSummary;
pub(crate) use writer::BlobFileWriter;

#[cfg(test)]
mod tests;
