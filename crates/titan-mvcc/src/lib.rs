//! A transactional store of versions on the Titan engine.
//!
//! A [`Store`] keeps the versions of each key, with the timestamps of the transactions that wrote
//! them. A [`Snapshot`] reads the store as of any timestamp since the safe point. A [`Transaction`]
//! reads a snapshot and its own writes, and commits all its writes at one timestamp or none.
//! Compactions of the engine drop the versions that no read can find.
//!
//! ```
//! # fn main() -> titan_mvcc::Result<()> {
//! # let dir = tempfile::tempdir().unwrap();
//! use titan_mvcc::{Store, StoreOptions};
//!
//! let store = Store::open(dir.path(), &StoreOptions::default())?;
//! let mut transaction = store.begin();
//! transaction.put(b"greeting", b"hello");
//! let committed = transaction.commit()?;
//!
//! let snapshot = store.snapshot_at(committed)?;
//! assert_eq!(snapshot.get(b"greeting")?.as_deref(), Some(&b"hello"[..]));
//! # drop(snapshot);
//! store.close()
//! # }
//! ```
//!
//! # Layout
//!
//! Each version is one entry of the engine, in the family `versions`
//! (`docs/adr/0043-one-entry-a-version.md`):
//!
//! ```text
//! memcomparable(key) | !commit timestamp (8) | kind (1) | varint(commit - start)   ->   the value
//! ```
//!
//! The family `locks` contains the locks of transactions in two phases and their values
//! (`docs/adr/0045-locks.md`), the family `default` the format, the safe point and the lease of the
//! oracle.
//!
//! # Promises
//!
//! - A read at a timestamp always finds the same, and waits for nothing. It sees every commit up to
//!   the timestamp. A read of the present sees every commit that was acknowledged before it began
//!   (`docs/adr/0052-write-groups-end-commits.md`).
//! - Of two transactions that overlap and write or [lock](Transaction::lock) the same key, one
//!   commits. As in all snapshot isolation, write skew is possible between keys that are read and
//!   not locked.
//! - After a crash a commit is there as a whole or not at all. It survives a power failure if
//!   [`StoreOptions::write`] syncs.
//! - Locks of a transaction that stops between the phases block no reader. The first caller that
//!   finds one resolves it: commits it if the transaction has committed, and otherwise rolls it
//!   back once it has expired (`docs/adr/0046-two-phases-and-snapshots.md`).
//! - Timestamps ascend over restarts and steps of the clock.
//! - A read before the safe point is refused, because versions may have been dropped.
//!
//! # Limits
//!
//! - A transaction must fit in memory.
//! - The committing thread runs the second phase before it returns. No thread sends heartbeats: a
//!   pessimistic transaction that makes no call for [`TransactionOptions::lock_ttl`] may be rolled
//!   back.
//! - [`Percolator::destroy_range`] is no transaction: snapshots lose the range too.

/// The examples of the first page and of the user's page are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
#[cfg_attr(workspace, doc = include_str!("../../../docs/mvcc.md"))]
struct Pages;

#[macro_use(mutant)]
extern crate titan;
#[macro_use]
mod gates;

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
#[cfg(test)]
mod races;
mod read;
mod store;
mod sweep;
mod timestamp;
mod transaction;

pub use self::core::TransactionOptions;
pub use error::{Error, Result};
pub use format::Kind as VersionKind;
pub use lock_info::{LockInfo, LockKind};
pub use lookup::{Direction, Found, Part, PartRequest, RangeSource, ReadStats, SourceRow};
pub use oracle::TimestampOracle;
pub use order::{Hold, HoldInfo};
pub use percolator::{
    AbsentKey, AnswerRoom, Assertion, CheckedStatus, ConflictCheck, Demands, KeyDemand, KnownLocks,
    LockDemands, LockedKey, Mutation, Percolator, PessimisticLock, Prewrite, Prewritten,
    SecondariesStatus, StatusAction, StatusCheck, TransactionStatus, Wait,
};
pub use read::{KeyVersions, Row, RowRef, RowValue, Scan, Snapshot, StoredVersion};
pub use store::{
    CheckProblem, CheckReport, HoldSpace, Store, StoreOptions, StoreSpaceReport, VersionSpace,
};
pub use sweep::{SweepStats, Swept};
pub use timestamp::Timestamp;
pub use transaction::{
    CommittedTransaction, PessimisticTransaction, PrewrittenTransaction, Transaction,
    TransactionScan,
};
