//! `VersionEdit`: one step in the history of a database's files. A MANIFEST is a log of them.
//!
//! An edit is a sequence of fields, each a tag and its content, in any order. `lp` is a varint
//! length and that many bytes; all other numbers are varints unless a width is given.
//!
//! ```text
//!   1 comparator     lp name                       200 column family     id (absent: 0)
//!   2 log number     n                             201 add family        lp name
//!   3 next file      n                             202 drop family
//!   4 last sequence  n                             203 max family id     id
//!   5 compact cursor level, lp internal key        300 atomic group      edits of it that follow
//!   6 deleted file   level, number                 400 blob file         number, count, bytes,
//!   9 previous log   n                                                   lp method, lp checksum,
//!  10 min log kept   n                                                   { tag, lp }, 0
//! 103 new file       level, number, size,          401 blob garbage      number, count, bytes,
//!                    lp smallest, lp largest,                            { tag, lp }, 0
//!                    smallest seq, largest seq,
//!                    { tag, lp }, 1
//! 4097 relocation     lp { 1, file, map, count, bytes, n, n * logical file }: ours, refused by
//!                        RocksDB
//! 8193 database id        lp text
//! 8199 WAL added          lp { number, { 2, synced size }, 1 }
//! 8200 WALs deleted       lp { first number kept }
//! 8201 timestamps stored  lp { u8 }
//! 12289 table facts       lp { see `facts` }: ours, ignored by RocksDB
//! 12292 options           lp { see `settings` }: ours, ignored by RocksDB
//! 12293 unlogged          lp { sequence number, log number }: ours, ignored by RocksDB
//! ```
//!
//! Read but not written: the older forms 7, 100, 102 of a new file, 8194 and 8195 for 400 and
//! 401, and 8196 and 8197, which are 8199 and 8200 without the length.
//!
//! An unknown tag with bit 13 is followed by an `lp` and may be ignored; such fields are kept as
//! they are, so that rewriting a MANIFEST does not lose them. Any other unknown tag is refused. The
//! same holds for the fields within a new file, where bit 6 says that a reader must know it, and
//! for those of a blob file, except that a new MANIFEST does not repeat them.
//!
//! This module encodes, decodes and checks each edit by itself. Whether an edit fits the state is
//! checked where it is applied.

mod decode;
mod encode;
mod facts;
mod new_file;
mod relocation;
mod settings;
mod tags;
#[cfg(test)]
mod tests;

pub use facts::TableFacts;
pub use new_file::NewFile;
pub use relocation::Relocation;
pub(crate) use settings::KeptSettings;

use crate::format::file_name::FileKind;
use crate::format::numbers::{BlobFileNumber, ColumnFamilyId, FileNumber, SequenceNumber};

/// One atomic change. A field that is `None` or empty changes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VersionEdit {
    /// The database's identity; the same as in the file IDENTITY.
    pub db_id: Option<String>,
    /// Name of the comparator of the family's keys.
    pub comparator: Option<String>,
    /// WALs with smaller numbers have nothing of this family that is not in its files.
    pub log_number: Option<FileNumber>,
    /// Not used since RocksDB has column families; written as 0.
    pub prev_log_number: Option<FileNumber>,
    /// Larger than the number of every file named so far.
    pub next_file_number: Option<FileNumber>,
    /// The last sequence number used when the edit was made.
    pub last_sequence: Option<SequenceNumber>,
    /// WALs with smaller numbers are not needed by any family.
    pub min_log_number_to_keep: Option<FileNumber>,
    /// The largest family id ever used, dropped ones included.
    pub max_column_family: Option<ColumnFamilyId>,
    /// The family this edit is about.
    pub column_family: ColumnFamilyId,
    /// Creates the family, with this name.
    pub added_column_family: Option<String>,
    /// Drops the family.
    pub dropped_column_family: bool,
    /// The edit belongs to a group that takes effect as one, and this many of it follow.
    pub atomic_group_remaining: Option<u32>,
    /// Where the next compaction of a level should start (RocksDB's; read, not used).
    pub compact_cursors: Vec<(usize, Vec<u8>)>,
    /// SSTs that leave a level. Applied before `new_files`: both together move a file.
    pub deleted_files: Vec<(usize, FileNumber)>,
    /// SSTs that join a level.
    pub new_files: Vec<(usize, NewFile)>,
    /// Blob files that come into being.
    pub blob_additions: Vec<BlobFileAddition>,
    /// Blob records to which nothing points any more, in addition to those of earlier edits.
    pub blob_garbage: Vec<BlobFileGarbage>,
    /// Blob files whose records a collection relocated. Applied after `blob_additions`.
    pub relocations: Vec<Relocation>,
    /// WAL files created or synced, where RocksDB tracks them (not written).
    pub wal_additions: Vec<WalAddition>,
    /// WAL files with smaller numbers were deleted, where RocksDB tracks them (not written).
    pub wal_deletion: Option<FileNumber>,
    /// Whether SSTs of the family store the user-defined timestamps of its keys.
    pub persist_user_defined_timestamps: Option<bool>,
    /// Facts about SSTs, keyed by their numbers. Absent facts are unknown.
    pub table_facts: Vec<TableFacts>,
    /// Options to use when the database is opened next.
    pub kept_settings: Vec<KeptSettings>,
    /// Sequence numbers that no WAL file has, because values went to tables with them, each with
    /// the WAL file that began then: a gap of the numbers there is no loss.
    pub unlogged: Vec<(SequenceNumber, FileNumber)>,
    /// Where in the MANIFEST the append of this edit's record began: everything before was durable
    /// then. 0 in the record that completes the state with which a MANIFEST starts.
    pub synced_before: Option<u64>,
    /// Whether this is the first edit of the state with which a MANIFEST starts.
    pub state_follows: bool,
    /// Ignorable fields this version does not know: tag and content.
    pub unknown: Vec<(u32, Vec<u8>)>,
}

impl VersionEdit {
    /// The tables, blob files and relocation maps that it adds or moves.
    pub(crate) fn named_files(&self) -> impl Iterator<Item = FileKind> {
        let tables = self
            .new_files
            .iter()
            .map(|(_, file)| FileKind::Table(file.number));
        let blob_files = self
            .blob_additions
            .iter()
            .map(|file| FileKind::Blob(file.number));
        let moved = self.relocations.iter().flat_map(Relocation::files);
        tables.chain(blob_files).chain(moved)
    }
}

/// A blob file that comes into being.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlobFileAddition {
    pub number: BlobFileNumber,
    /// Blob records in the file.
    pub count: u64,
    /// Their records, headers and keys included, in bytes.
    pub total_bytes: u64,
    /// Name of the algorithm of `checksum_value`; both are empty if there is none.
    pub checksum_method: Vec<u8>,
    /// Checksum of the whole file.
    pub checksum_value: Vec<u8>,
    /// Ignorable fields this version does not know.
    pub unknown: Vec<(u32, Vec<u8>)>,
}

/// Blob records of one file to which nothing points any more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlobFileGarbage {
    pub number: BlobFileNumber,
    pub count: u64,
    /// Their records, headers and keys included, in bytes.
    pub bytes: u64,
    /// Ignorable fields this version does not know.
    pub unknown: Vec<(u32, Vec<u8>)>,
}

/// A WAL that was created or, with a size, synced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WalAddition {
    pub number: FileNumber,
    /// Bytes known to be durable.
    pub synced_size: Option<u64>,
}
