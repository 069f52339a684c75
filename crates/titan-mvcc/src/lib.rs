//! A transactional store of versions on the Titan engine.
//!
//! A [`Store`] keeps the versions of each key, with the timestamps of the transactions that wrote them. A
//! [`Snapshot`] reads the store as of any timestamp since the safe point. A [`Transaction`] reads a snapshot and
//! its own writes, and commits all of its writes at one timestamp or none: snapshot isolation over any number
//! of keys. Versions that no read can find any more are dropped by the engine's compactions.
//!
//! # Layout
//!
//! One entry of the engine a version, in the family `versions` (`docs/adr/0043-one-entry-a-version.md`):
//!
//! ```text
//! memcomparable(key) | !commit timestamp (8) | kind (1) | varint(commit - start)   ->   the value
//! ```
//!
//! The family `locks` has the locks of transactions in two phases and their values (`docs/adr/0045-locks.md`). The
//! family `default` has the format, the safe point and the lease of the local oracle.
//!
//! # What is promised
//!
//! - A read at a timestamp finds the same whenever it is made, and waits for nothing. It sees every commit up
//!   to the timestamp, and a read of the present every commit that was acknowledged before it began
//!   (`commit_order`, `docs/adr/0052-write-groups-end-commits.md`).
//! - Of two transactions that overlap and write or [lock](Transaction::lock) the same key, one commits
//!   (`transaction`). Write skew is possible, as in all snapshot isolation, where keys are read and not locked.
//! - After a crash a commit is there as a whole or not at all, and it survives what [`StoreOptions::write`] lets a
//!   batch survive. It is one batch of the engine, or two phases if it is large.
//! - What a transaction leaves that stops between the phases keeps no reader waiting, and is ended by those that find
//!   it: committed if the transaction has committed, otherwise rolled back when its time to live is over
//!   (`resolver`, `docs/adr/0046-two-phases-and-snapshots.md`).
//! - Timestamps ascend over restarts and steps of the clock (`oracle`).
//! - A read of versions that may have been dropped is refused with the safe point (`safe_point`).
//!
//! # Modules
//!
//! The lowest first; each uses only those above it, but for the parts of a store that [`Snapshot`] and
//! [`Transaction`] are given by it:
//!
//! | module | owns |
//! |---|---|
//! | `timestamp`, `error` | timestamps; the one error type |
//! | `format` | the bytes of entries |
//! | `entries` | the same, for code that keeps a copy of a store |
//! | `meta` | the numbers that the store keeps about itself |
//! | `oracle` | where timestamps come from |
//! | `wake` | what the thread that sweeps waits for |
//! | `commits_in_flight`, `commit_order` | the commits that have not ended; the order in which they become visible |
//! | `ends_commits` | the commit hook of a store, which ends what the engine has published |
//! | `latches` | what keeps commits of the same key apart, and remembers them |
//! | `safe_point` | the oldest timestamp that can be read, and holds |
//! | `waits`, `locks` | waiting for locks and deadlocks; the locks, in memory and on disk |
//! | `filter` | the compaction filter that drops old versions |
//! | `percolator` | the calls of transactions in two phases: prewrite, commit, rollback, status ... |
//! | `resolver` | what readers and writers do about locks of others |
//! | `read` | reads at a timestamp |
//! | `transaction` | optimistic and pessimistic transactions, in one batch or two phases |
//! | `sweep` | finding tables with old versions, and having them compacted; the safe point by time |
//! | `space` | the report on space |
//! | `check` | checking that every entry is one that the store writes |
//! | `database` | the engine's database that has a store: families and format |
//! | `store` | opening, closing, and what a store hands out |
//! | `read_only` | opening a store to read it alone |
//!
//! # Not there yet
//!
//! - A transaction must fit in memory, however large its commit may be.
//! - The second phase of a commit is done by the thread that commits, before it returns. There is no thread that
//!   gives signs of life: a pessimistic transaction that makes no call for longer than
//!   [`TransactionOptions::lock_ttl`] may be rolled back.
//! - Of TiKV's options, prewrites know no assertions, no inserts that check for absence and no commit in one phase; a
//!   lock that is only taken if the key exists, and fair locking, are missing too.
//! - A key with many locks after its newest value costs a step for each of them, until the safe point passes
//!   them.

/// The examples of the user's page are tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/mvcc.md")]
struct UserPage;

#[macro_use]
extern crate titan_mutants;

mod check;
mod commit_order;
mod commits_in_flight;
mod database;
mod ends_commits;
pub mod entries;
mod error;
mod filter;
mod format;
mod latches;
mod locks;
mod meta;
mod oracle;
mod percolator;
mod read;
mod read_only;
mod resolver;
mod safe_point;
mod space;
mod store;
mod sweep;
mod timestamp;
mod transaction;
mod waits;
mod wake;

pub use check::{CheckProblem, CheckReport};
pub use error::{Error, Result};
pub use format::Kind as VersionKind;
pub use oracle::TimestampOracle;
pub use percolator::{
    LockInfo, LockKind, Mutation, Percolator, PessimisticLock, Prewrite, Prewritten,
    SecondariesStatus, TransactionStatus, Wait,
};
pub use read::{
    Direction, Found, KeyVersions, Part, PartRequest, RangeSource, ReadStats, Row, Scan, Snapshot,
    SourceRow, StoredVersion,
};
pub use safe_point::{Hold, HoldInfo};
pub use space::{HoldSpace, StoreSpaceReport, VersionSpace};
pub use store::{Store, StoreOptions, TransactionOptions};
pub use sweep::{SweepStats, Swept};
pub use timestamp::Timestamp;
pub use transaction::{
    CommittedTransaction, PessimisticTransaction, PrewrittenTransaction, Transaction,
    TransactionScan,
};
