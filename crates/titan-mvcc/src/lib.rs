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
//! The family `default` has the format, the safe point and the lease of the local oracle.
//!
//! # What is promised
//!
//! - A read at a timestamp finds the same whenever it is made, and waits for nothing. It sees every commit up
//!   to the timestamp, and a read of the present every commit that was acknowledged before it began
//!   (`commit_order`, `docs/adr/0044-commits-wait-reads-do-not.md`).
//! - Of two transactions that overlap and write or [lock](Transaction::lock) the same key, one commits
//!   (`transaction`). Write skew is possible, as in all snapshot isolation, where keys are read and not locked.
//! - A commit is one batch of the engine: after a crash it is there as a whole or not at all, and it survives
//!   what [`StoreOptions::write`] lets a batch survive.
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
//! | `mutants` | points at which a bug can be planted, to test the tests |
//! | `timestamp`, `error` | timestamps; the one error type |
//! | `format` | the bytes of entries |
//! | `meta` | the numbers that the store keeps about itself |
//! | `oracle` | where timestamps come from |
//! | `commit_order` | the order in which commits become visible |
//! | `latches` | what keeps commits of the same key apart |
//! | `safe_point` | the oldest timestamp that can be read, and holds |
//! | `filter` | the compaction filter that drops old versions |
//! | `sweep` | finding tables with old versions, and having them compacted; the safe point by time |
//! | `read` | reads at a timestamp |
//! | `transaction` | optimistic transactions |
//! | `space` | the report on space |
//! | `check` | checking that every entry is one that the store writes |
//! | `store` | opening, closing, and what a store hands out |
//! | `read_only` | opening a store to read it alone |
//!
//! # Not there yet
//!
//! - Commits in two phases, and with them locks that outlive a call, pessimistic transactions and async
//!   commit. So a transaction must fit in memory and in one batch, and only the process that has the store open
//!   can take part in it.
//! - A key with many locks after its newest value costs a step for each of them, until the safe point passes
//!   them.
//! - Records of rolled back transactions, and benchmarks.

/// The examples of the user's page are tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/mvcc.md")]
struct UserPage;

#[macro_use]
mod mutants;

mod check;
mod commit_order;
mod error;
mod filter;
mod format;
mod latches;
mod meta;
mod oracle;
mod read;
mod read_only;
mod safe_point;
mod space;
mod store;
mod sweep;
mod timestamp;
mod transaction;

pub use check::{CheckProblem, CheckReport};
pub use error::{Error, Result};
pub use format::Kind as VersionKind;
pub use oracle::TimestampOracle;
pub use read::{Direction, KeyVersions, ReadStats, Row, Scan, Snapshot, StoredVersion};
pub use safe_point::{Hold, HoldInfo};
pub use space::{HoldSpace, StoreSpaceReport, VersionSpace};
pub use store::{Store, StoreOptions};
pub use sweep::{SweepStats, Swept};
pub use timestamp::Timestamp;
pub use transaction::{Transaction, TransactionScan};
