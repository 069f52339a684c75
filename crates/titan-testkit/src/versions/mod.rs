//! Operations on a store of versions as data and as text, and the [model](Versions) of what it
//! holds.
//!
//! A list prints as one operation per line:
//!
//! ```
//! use titan_testkit::ops::Ops;
//! use titan_testkit::versions::Op;
//!
//! let text = "\
//! begin 1
//! put 1 k 7*20
//! delete 1 %
//! commit 1
//! begin 2 async
//! put 2 a 9*3
//! put 2 b 9*3
//! prewrite 2 b
//! get k @1
//! scan a..m reverse first 5
//! prewrite 2 a
//! snapshot 3
//! safe-point @2-
//! load a..m
//! load 4 m.. pinned
//! load-step 4 3
//! evict a..b
//! gc
//! flush
//! collect
//! crash random:7 back 3
//! reopen
//! ";
//! let ops: Ops<Op> = text.parse()?;
//! assert_eq!(ops.to_string(), text);
//! # Ok::<(), titan::Error>(())
//! ```
//!
//! # Text
//!
//! Keys and values are those of [`ops`](crate::ops); a range is `FROM..TO`, each of them possibly
//! without a key. Transactions, snapshots, holds, timestamps, iterators and loads have numbers;
//! each number is given once. `@7` is the commit timestamp of transaction 7, or the timestamp of
//! snapshot, hold or timestamp 7; `@7-` is the timestamp before it; without `@` it is the present.
//! `in 7` reads in transaction 7.
//!
//! A list fits any outcome: an operation on a transaction that has ended does nothing.

pub mod isolation;
mod model;
mod text;

pub use model::{Versions, Write};

use crate::ops::{Field, Value};
use crate::sim::Loss;

/// A way in which a transaction commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It finds conflicts when it commits.
    Optimistic,
    /// It locks keys when it writes them.
    Pessimistic,
    /// Its client makes the calls of Percolator.
    Client,
    /// The same, as an async commit.
    Async,
}

impl Kind {
    /// Whether its client makes the calls of Percolator.
    pub fn is_of_client(self) -> bool {
        matches!(self, Kind::Client | Kind::Async)
    }
}

/// A moment at which an operation reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// Now.
    Present,
    /// The timestamp with this number.
    Of(u32),
    /// The timestamp before it.
    Before(u32),
    /// In this transaction.
    In(u32),
}

/// A range of keys: from a first key, to before another one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// First key, or no bound.
    pub from: Option<Vec<u8>>,
    /// End, exclusive, or no bound.
    pub to: Option<Vec<u8>>,
}

/// A write of a transaction to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Sets the value.
    Put(Value),
    /// Removes the value.
    Delete,
    /// Locks the key.
    Lock,
    /// Locks the key and reads its present value.
    GetForUpdate,
}

/// An operation on one thing that has a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Takes a commit timestamp for a client's transaction.
    CommitTs,
    /// Commits the primary key.
    CommitPrimary,
    /// Commits, or commits the keys that are left.
    Commit,
    /// Rolls back.
    Rollback,
    /// The owner is gone, and its locks stay.
    Abandon,
    /// Another actor checks the keys of an async commit.
    CheckSecondaries,
    /// Sends a heartbeat.
    Heartbeat,
    /// Another actor ends the locks of a transaction that has ended.
    Resolve,
    /// Takes a timestamp of this number.
    Timestamp,
    /// Ends a snapshot, a hold or an iterator.
    Release,
    /// Abandons a load.
    DropLoad,
}

/// An operation on the whole store or cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whole {
    /// Runs a sweep, as the store does now and then.
    Gc,
    /// Drops all versions that may be dropped.
    DropOld,
    /// Flushes.
    Flush,
    /// Collects the garbage of blob files.
    Collect,
    /// Compares everything.
    Check,
    /// Closes the store and opens it.
    Reopen,
    /// Runs a pass of the cache's maintenance: prunes, splits, joins, chooses.
    Maintain,
    /// Compares the cache with the engine.
    Audit,
}

crate::operations! {
    /// One operation.
    #[derive(Clone, Debug, PartialEq, Eq)]
    #[expect(missing_docs, reason = "the module says what the fields are")]
    pub enum Op {
        /// Begins a transaction.
        Begin = "begin" { id: u32, kind: Kind },
        /// Prewrites these keys of a client's transaction, or all.
        Prewrite = "prewrite" { id: u32, keys: Vec<Vec<u8>> },
        /// Another actor asks for the status of a transaction; a reader at `at` pushes it. With
        /// `expired` it takes the locks for expired.
        CheckStatus = "check-status" { id: u32, at: At, expired: bool },
        /// Reads a key.
        Get = "get" { key: Vec<u8>, at: At },
        /// Reads the rows of a range, or the first ones.
        Scan = "scan" { range: Range, at: At, reverse: bool, first: Option<u32> },
        /// Begins to read the rows of a range.
        Iter = "iter" { id: u32, range: Range, at: At, reverse: bool },
        /// Reads the next `n` rows.
        Next = "next" { id: u32, n: u32 },
        /// Keeps a snapshot.
        Snapshot = "snapshot" { id: u32, at: At },
        /// Holds the safe point.
        Hold = "hold" { id: u32, at: At },
        /// Moves the safe point.
        SafePoint = "safe-point" { at: At },
        /// Compacts the tables around a key.
        Compact = "compact" { key: Vec<u8>, bottommost: bool },
        /// Lets milliseconds pass.
        Tick = "tick" { ms: u64 },
        /// Sets the clock forward or back, by milliseconds.
        Clock = "clock" { ms: i64 },
        /// Makes steps of a load.
        LoadStep = "load-step" { id: u32, n: u32 },
        /// Drops a range from the cache.
        Evict = "evict" { range: Range },
        /// Sets the cache's limit of memory.
        Limit = "limit" { bytes: usize },
    }
    others(show_other, take_other) {
        /// Writes in a transaction.
        Change { id: u32, key: Vec<u8>, change: Change },
        /// Stops the machine or the process, `back` operations of the file system ago, and opens
        /// the store.
        Crash { loss: Loss, back: usize },
        /// Begins to load a range into the cache, or loads it if it has no number.
        Load { id: Option<u32>, range: Range, pinned: bool },
        /// See [`Verb`].
        On { verb: Verb, id: u32 },
        /// See [`Whole`].
        Whole(Whole),
    }
}
