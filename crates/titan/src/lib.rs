//! Titan: an embeddable key-value storage engine.
//!
//! A log-structured merge tree that stores large values outside the tree, in blob files. Its disk
//! formats are RocksDB's own: a RocksDB directory opens in place, and a directory that Titan wrote
//! opens in RocksDB after [a downgrade](fn@tools::downgrade) has resolved the relocations of
//! garbage collection.
//!
//! [`Db`] is where to start. The modules, the lowest first; each uses only those above it:
//!
//! | module | owns |
//! |---|---|
//! | `error`, `sync` | the error type; locks, atomics and threads |
//! | `panics` | calls of the application's code, which may panic |
//! | `process` | which process this is, and whether a database was opened in it |
//! | `gates` | points at which a test can stop a thread |
//! | `shared_map` | a sorted map whose copies share their common parts |
//! | `format` | numbers, checksums, compression, internal keys, file names |
//! | `batch`, `commit_hook` | write batches; the interface of the hook that is shown them |
//! | [`merge`] | merge operators |
//! | `clock` | time, and the random numbers of names |
//! | `lazy_value` | values that are read when they are asked for |
//! | `filter` | what compaction filters see and decide; time to live |
//! | `locks` | which transaction has which key locked |
//! | [`vfs`] | files and directories; everything the engine asks of the operating system |
//! | `stats`, `options` | statistics and listeners; configuration |
//! | `wal` | the records that WAL files and MANIFESTs are made of |
//! | `iterator`, `range_del` | cursors and their merge; range deletions |
//! | `memtable` | entries that are not in a table yet |
//! | `block_cache` | data blocks of tables, decompressed |
//! | `table` | SST files |
//! | `blob` | blob files: writing, reading, finding values |
//! | `open_files` | tables and blob files kept open |
//! | `version` | the files that the database consists of; the MANIFEST |
//! | `compaction` | merging tables |
//! | `gc` | collecting the garbage of blob files |
//! | `write` | the commit queue, WAL files |
//! | `read` | lookups, iterators, snapshots, lazy values |
//! | `db` | the database: opening, recovery, background jobs, closing |
//! | [`transaction`] | optimistic and pessimistic transactions |
//! | [`tools`] | checking a database and inspecting its files |

/// The examples of the page on transactions are tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/transactions.md")]
struct TransactionsPage;

#[macro_use]
extern crate titan_mutants;

#[macro_use]
mod gates;

#[macro_use]
#[doc(hidden)]
pub mod invariants;

mod batch;
mod blob;
mod block_cache;
mod clock;
mod collector;
mod commit_hook;
mod compaction;
mod db;
mod dead_ranges;
mod error;
mod filter;
mod format;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod gc;
mod iterator;
mod lazy_value;
mod locks;
mod memtable;
pub mod merge;
mod open_files;
mod options;
mod panics;
mod process;
mod range_del;
mod read;
mod shared_map;
mod stats;
mod sync;
mod table;
pub mod tools;
pub mod transaction;
mod version;
pub mod vfs;
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
    CheckpointSummary, ColumnFamily, Conditions, Db, FamilyMetrics, GarbageCollectionPause,
    LevelMetrics, Metrics, Secondary, TableMetadata,
};
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
    BlobFileSpace, CollectionStatus, FamilySpace, FileSum, HolderKind, SpaceHolder, SpaceReport,
    SpaceUsage,
};
pub use lazy_value::{FindValue, LazyValue};
pub use options::{
    ColumnFamilyOptions, DataInMemory, DbOptions, LoadedOptions, OptionInfo, Options, Stated,
    TakenOptions, WalRecoveryMode,
};
pub use process::Process;
pub use read::{DbIterator, ReadOptions, Snapshot};
pub use stats::{
    CompactionBeginEvent, CompactionEvent, EventListener, FlushBeginEvent, FlushEvent,
    GarbageCollectionBeginEvent, GarbageCollectionEvent, HolePunchEvent, MemtableSealedEvent,
    StallCause, StallEvent, Statistics, WalDamageEvent,
};
pub use transaction::{
    FamilyAtSnapshot, FamilyInTransaction, LockOptions, Reader, Retry, Rows, Transaction,
    TransactionIterator, TransactionOptions, TransactionSnapshot,
};
pub use version::Moment;
pub use wide_columns::WideColumns;
pub use write::WriteOptions;
