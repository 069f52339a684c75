//! Options of an ingestion.

/// The way of a file into the directory of a database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileTransfer {
    /// A copy. The file stays as it is.
    #[default]
    Copy,
    /// A hard link, and then the file's own name is removed; a copy where the file system cannot
    /// link. Nothing is removed before the ingestion has succeeded. Of a symbolic link, the file to
    /// which it leads is moved, and the link is removed too.
    Move,
    /// A hard link; a copy where the file system cannot link. Nobody may change the file any more.
    /// Of a symbolic link, the file to which it leads is linked.
    Link,
}

/// Options of [`ingest`](crate::ColumnFamily::ingest). The names are RocksDB's.
///
/// An ingested file always gets a sequence number of its own, in the MANIFEST and never in the
/// file (RocksDB's `write_global_seqno` is off). So snapshots never see it (its
/// `snapshot_consistency` is on), and a transaction that has read a key of its range conflicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IngestOptions {
    /// The way of files into the directory. Default: as copies.
    pub transfer: FileTransfer,
    /// Whether a file may be newer than data of the database in its range. If it is off, the call
    /// fails with `InvalidArgument` if a file overlaps a memtable, a table or another file, or
    /// while there are snapshots. Default: true.
    pub allow_global_seqno: bool,
    /// Whether a file may overlap memtables, which are flushed before. If it is off, the call fails
    /// with `Busy`. Default: true.
    pub allow_blocking_flush: bool,
    /// Fail with `Busy` if a file cannot be placed at the last level. Default: false.
    pub fail_if_not_bottommost_level: bool,
    /// Whether every block of every file is read before, and damage and pointers to values
    /// elsewhere are refused. Otherwise readers find them. Default: true, other than RocksDB's.
    /// Cost: a read of each file, while others write.
    pub verify_checksums: bool,
}

impl Default for IngestOptions {
    fn default() -> Self {
        IngestOptions {
            transfer: FileTransfer::Copy,
            allow_global_seqno: true,
            allow_blocking_flush: true,
            fail_if_not_bottommost_level: false,
            verify_checksums: true,
        }
    }
}
