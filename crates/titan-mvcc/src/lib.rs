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

pub mod codec;
mod core;
mod database;
mod error;
mod format;
mod lock_info;
mod locks;
mod lookup;
mod meta;
mod old_versions;
mod oracle;
mod order;
mod percolator;
mod read;
mod store;
mod sweep;
mod timestamp;
mod transaction;

/// The former name of [`codec`].
#[doc(hidden)]
pub use codec as entries;

pub use self::core::TransactionOptions;
pub use error::{Error, Result};
pub use format::Kind as VersionKind;
pub use lock_info::{LockInfo, LockKind};
pub use lookup::{Direction, Found, Part, PartRequest, RangeSource, ReadStats, SourceRow};
pub use oracle::TimestampOracle;
pub use order::{Hold, HoldInfo};
pub use percolator::{
    Mutation, Percolator, PessimisticLock, Prewrite, Prewritten, SecondariesStatus,
    TransactionStatus, Wait,
};
pub use read::{KeyVersions, Row, Scan, Snapshot, StoredVersion};
pub use store::{
    CheckProblem, CheckReport, HoldSpace, Store, StoreOptions, StoreSpaceReport, VersionSpace,
};
pub use sweep::{SweepStats, Swept};
pub use timestamp::Timestamp;
pub use transaction::{
    CommittedTransaction, PessimisticTransaction, PrewrittenTransaction, Transaction,
    TransactionScan,
};
