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
//! | `mutants` | where bugs can be planted, to see whether tests catch them |
//! | `timestamp`, `error` | timestamps; the one error type |
//! | `format` | the bytes of entries |
//! | `meta` | the numbers that the store keeps about itself |
//! | `oracle` | where timestamps come from |
//! | `commit_order` | the order in which commits become visible |
//! | `latches` | what keeps commits of the same key apart, and remembers them |
//! | `safe_point` | the oldest timestamp that can be read, and holds |
//! | `filter` | the compaction filter that drops old versions |
//! | `read` | reads at a timestamp |
//! | `transaction` | optimistic transactions |
//! | `store` | opening, closing, and what a store hands out |
//!
//! # Not there yet
//!
//! - Commits in two phases, and with them locks that outlive a call, pessimistic transactions and async
//!   commit. So a transaction must fit in memory and in one batch, and only the process that has the store open
//!   can take part in it.
//! - Collectors of table properties: the engine does not compact a table because it is rich in old versions.
//!   Compactions that come by drop them, or [`Store::drop_old_versions`] does.
//! - The safe point moves when [`Store::advance_safe_point`] is called, never by time.
//! - A key with many locks after its newest value costs a step for each of them, until the safe point passes
//!   them.
//! - Point reads have no counters; [scans](Scan::stats) have.
//! - Records of rolled back transactions and the `titan mvcc` commands.

#[macro_use]
mod mutants;

mod commit_order;
mod error;
mod filter;
mod format;
mod latches;
mod meta;
mod oracle;
mod read;
mod safe_point;
mod store;
mod timestamp;
mod transaction;

pub use error::{Error, Result};
pub use oracle::TimestampOracle;
pub use read::{Direction, Row, Scan, ScanStats, Snapshot};
pub use safe_point::{Hold, HoldInfo};
pub use store::{Store, StoreOptions};
pub use timestamp::Timestamp;
pub use transaction::{Transaction, TransactionScan};
