//! Titan: an embeddable key-value storage engine.
//!
//! ```
//! use titan::{Db, Options, WriteBatch, WriteOptions};
//!
//! # fn main() -> titan::Result<()> {
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path();
//! let db = Db::open(path, &Options::default())?;
//! db.put("greeting", "hello")?;
//! assert_eq!(db.get("greeting")?.as_deref(), Some(&b"hello"[..]));
//!
//! // Several writes take effect together; synced, they survive a power failure.
//! let mut batch = WriteBatch::new();
//! batch.put(&db, "picture", vec![7; 100_000])?;
//! batch.delete(&db, "greeting")?;
//! db.write(batch, &WriteOptions::synced())?;
//!
//! // A range sees one moment, from both ends.
//! for entry in db.range("a".."z") {
//!     let (key, value) = entry?;
//!     assert_eq!((&*key, value.len()), (&b"picture"[..], 100_000));
//! }
//! db.close()?;
//! # Ok(())
//! # }
//! ```
//!
//! A log-structured merge tree stores the keys, and blob files store the large values outside the
//! tree. The disk formats are RocksDB's own: a RocksDB directory opens in place, and a directory
//! that Titan wrote opens in RocksDB after `titan downgrade` has resolved the relocations of
//! garbage collection.
//!
//! | to | see |
//! |---|---|
//! | open a database, read and write | [`Db`], [`ColumnFamily`], [`Options`] |
//! | open many databases in one process | [`Env`] |
//! | write several keys at once | [`WriteBatch`], [`WriteOptions`] |
//! | read moments, ranges, large values | [`Snapshot`], [`Range`], [`DbIterator`], [`LazyValue`] |
//! | read and write without conflicts | [`Db::transaction`], [`transaction`] |
//! | combine values, drop expired ones | [`merge`], [`CompactionFilter`], [`TimeToLive`] |
//! | know what happens | [`Metrics`], [`Statistics`], [`PerfContext`], [`EventListener`] |
//! | know what takes space | [`SpaceReport`] |
//! | check, repair, inspect, downgrade | the crate `titandb-tools` |
//! | run on another file system | [`vfs`] |
//! | read on, a page for each question | [`guides`] |
//!
//! Every fallible call returns an [`Error`] with a [kind](ErrorKind), a text and, where they apply,
//! a file and an offset. Calls block their thread.
//!
//! The folder `examples` of the crate has short programs. They run in a temporary directory and
//! check their results.
//!
//! | example | shows |
//! |---|---|
//! | `basic`, `batch`, `iterate`, `transaction` | one call after the other |
//! | `documents` | JSON documents, changed by many threads; deleting a collection |
//! | `secondary_index` | a unique and an ordinary index, each a family |
//! | `queue` | jobs that are done at least once; reading from the key taken last on |
//! | `counters` | merge operators: a built-in one, and one of the program |
//! | `sessions` | time to live |
//! | `time_series` | ranges, prefixes, deletion of ranges |
//! | `large_files` | storing from readers, whole or in parts, reading as a stream and at offsets |
//! | `backup` | snapshot, checkpoint, restore |
//! | `rocksdb` | taking over a directory of RocksDB, and the way back |
//! | `viewer` | reading beside the process that writes |
//! | `tenants` | many families, many databases |
//! | `service`, of the crate `titandb-server` | HTTP by axum and tokio |

/// The examples of the first page and of the page on transactions are tests.
#[cfg(all(doctest, workspace))]
#[doc = include_str!("../../../README.md")]
#[doc = include_str!("../../../docs/transactions.md")]
struct Pages;

#[macro_use]
mod gates;

#[macro_use]
#[doc(hidden)]
pub mod invariants;

#[macro_use]
#[doc(hidden)]
pub mod mutants;

mod batch;
mod blob;
mod block_cache;
mod clock;
mod collector;
mod commit_hook;
mod compaction;
mod db;
mod dead_ranges;
mod env;
mod error;
mod filter;
mod format;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod gc;
pub mod guides;
#[cfg(test)]
mod histories;
mod ingest;
// Not documented, so that comments of exported items may link to items that are not exported.
#[cfg(not(doc))]
#[doc(hidden)]
pub mod internals;
#[allow(missing_docs, reason = "reached through `internals` only")]
mod iterator;
mod lazy_value;
mod locks;
mod memtable;
pub mod merge;
mod number_map;
#[allow(missing_docs, reason = "reached through `internals` only")]
mod open_files;
mod options;
mod panics;
mod partitioner;
mod process;
mod range_del;
mod read;
mod shared_map;
mod sorting;
mod stats;
mod sync;
#[allow(missing_docs, reason = "reached through `internals` only")]
mod table;
pub mod transaction;
mod version;
pub mod vfs;
#[allow(missing_docs, reason = "reached through `internals` only")]
mod wal;
mod wide_columns;
mod write;

pub use batch::{BatchOp, BatchOps, BatchTarget, WriteBatch};
pub use bytes::Bytes;
pub use clock::{StdClock, SystemClock};
pub use collector::{
    CollectorContext, EntryKind, GarbageByMoment, GarbageFrom, TableEntry,
    TablePropertiesCollector, TablePropertiesCollectorFactory, TableReport,
};
pub use commit_hook::{BypassedRange, CommitHook, CommittedOps};
pub use compaction::CompactRangeOptions;
pub use db::{
    CheckpointSummary, ColumnFamily, Conditions, Db, DeletedFiles, FamilyMetrics,
    GarbageCollectionPause, LevelMetrics, Metrics, Secondary, TableMetadata, prometheus_page,
};
pub use env::{Env, EnvOptions, EnvUsage};
pub use error::{Error, ErrorKind, Result, Retryable};
pub use filter::{
    CompactionFilter, CompactionFilterFactory, Decision, FilterContext, FilterEntry, FilterReason,
    Revisit, TimeToLive,
};
pub use format::prefix;
pub use format::{
    BlobFileNumber, BytewiseComparator, ColumnFamilyId, Comparator, CompressionType, FileNumber,
    KeyOrder, ReverseBytewiseComparator, SequenceNumber,
};
pub use gc::CollectGarbageOptions;
pub use gc::disk_usage::DiskUsage;
pub use gc::range::{DamagedBlobFile, GarbageCollectionProgress, GarbageCollectionSummary};
pub use gc::report::{
    BlobFileSpace, CollectionStatus, FamilySpace, FileSum, HolderKind, SpaceBound, SpaceHolder,
    SpaceReport, SpaceUsage,
};
pub use ingest::{FileTransfer, IngestOptions, SstFileInfo, SstFileWriter};
pub use lazy_value::{FindValue, LazyValue, ValueReader};
pub use options::{
    ColumnFamilyOptions, DataInMemory, DbOptions, LoadedOptions, OptionInfo, Options, Stated,
    TakenOptions, WalRecoveryMode,
};
pub use partitioner::{FixedPrefixPartitioner, SstPartitioner};
pub use process::Process;
pub use read::{DbIterator, KeyRange, Keys, Range, ReadOptions, Snapshot};
pub use stats::{
    CompactionBeginEvent, CompactionEvent, EventListener, FlushBeginEvent, FlushEvent,
    GarbageCollectionBeginEvent, GarbageCollectionEvent, HistogramBucket, HistogramData,
    HolePunchEvent, IngestionEvent, MemtableSealedEvent, PerfContext, PerfLevel, PerfRecorder,
    SlowOperationEvent, StallCause, StallEvent, Statistics, StatsLevel, WalDamageEvent,
};
pub use transaction::{
    FamilyAtSnapshot, FamilyInTransaction, LockOptions, Reader, Retry, Rows, Transaction,
    TransactionIterator, TransactionOptions, TransactionSnapshot,
};
pub use version::Moment;
pub use wide_columns::WideColumns;
pub use write::WriteOptions;
