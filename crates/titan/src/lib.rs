//! Titan: an embeddable key-value storage engine.
//!
//! A log-structured merge tree whose large values live outside the tree, in blob files. Its disk
//! formats are RocksDB's own: a RocksDB directory opens in place, and a directory Titan wrote opens
//! in RocksDB, once [a downgrade](fn@tools::downgrade) has resolved what garbage collection moved.
//!
//! [`Db`] is where to start. The rooms below it, lower ones knowing nothing of higher ones:
//!
//! | room | owns |
//! |---|---|
//! | [`vfs`] | files and directories; everything the engine asks of the operating system |
//! | `shared_map` | a sorted map of which copies share what they have in common |
//! | `clock` | time, and the random numbers of names |
//! | `format` | numbers, checksums, compression, internal keys, file names |
//! | `wal` | log records, which WAL files and MANIFESTs are made of |
//! | `iterator`, `range_del` | cursors and their merge; range deletions |
//! | `memtable` | what was written and is not in a table yet |
//! | `block_cache` | data blocks of tables, decompressed |
//! | `table` | SST files |
//! | `blob` | blob files: writing, reading, finding values |
//! | `open_files` | tables and blob files kept open |
//! | `version` | which files the database consists of; the MANIFEST |
//! | `compaction` | merging tables |
//! | `write` | batches, the commit queue, WAL files |
//! | `read` | lookups, iterators, snapshots, lazy values |
//! | `db` | the database: opening, recovery, background work, closing |
//! | `options`, `stats` | what can be set; what can be seen |
//! | `mutants` | points at which a bug can be planted, to test the tests |
//! | [`tools`] | checking a database and looking into its files |

#[macro_use]
mod mutants;

mod blob;
mod block_cache;
mod clock;
mod compaction;
mod db;
mod error;
mod format;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod gc;
mod iterator;
mod memtable;
mod open_files;
mod options;
mod range_del;
mod read;
mod shared_map;
mod stats;
mod sync;
mod table;
pub mod tools;
mod version;
pub mod vfs;
mod wal;
mod write;

pub use bytes::Bytes;
pub use clock::{StdClock, SystemClock};
pub use compaction::CompactRangeOptions;
pub use db::{
    CheckpointSummary, ColumnFamily, Db, FamilyMetrics, GarbageCollectionPause, LevelMetrics,
    Metrics, Secondary,
};
pub use error::{Error, ErrorKind, Result};
pub use format::{
    BlobFileNumber, BytewiseComparator, ColumnFamilyId, Comparator, CompressionType, FileNumber,
    KeyOrder, ReverseBytewiseComparator, SequenceNumber,
};
pub use gc::CollectGarbageOptions;
pub use gc::disk_usage::DiskUsage;
pub use gc::range::{DamagedBlobFile, GarbageCollectionProgress, GarbageCollectionSummary};
pub use gc::report::{
    BlobFileSpace, FamilySpace, FileSum, HolderKind, SpaceHolder, SpaceReport, SpaceUsage, Verdict,
};
pub use options::{
    ColumnFamilyOptions, DataInMemory, DbOptions, LoadedOptions, Options, Stated, TakenOptions,
};
pub use read::{DbIterator, LazyValue, ReadOptions, Snapshot};
pub use stats::{
    CompactionEvent, EventListener, FlushEvent, GarbageCollectionEvent, HolePunchEvent, StallCause,
    StallEvent, Statistics,
};
pub use version::Moment;
pub use write::{BatchOp, BatchOps, BatchTarget, WriteBatch, WriteOptions};
