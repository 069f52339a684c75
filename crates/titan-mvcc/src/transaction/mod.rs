//! Transactions: optimistic and pessimistic, committed in one batch of the engine or in two phases.
//!
//! A transaction reads a [`Snapshot`](crate::Snapshot) and its own writes above it, which stay in
//! memory until it commits. It promises snapshot isolation: of two transactions that overlap in
//! time and write or lock the same key, only one commits.
//!
//! | file | owns |
//! |---|---|
//! | `writes` | the writes of a transaction, until it commits |
//! | `one_batch` | commits in one batch |
//! | `two_phase` | commits in two phases, for transactions that are too large for one batch |
//! | `scan` | scans with own writes |
//! | `optimistic` | transactions whose commit finds conflicts |
//! | `pessimistic` | transactions that lock keys before they write them |
//! | `reader` | snapshots and transactions as the engine's `Reader` |
//!
//! # Conflicts are found exactly
//!
//! A commit takes the latches of its keys, searches each for a lock and for a version after its
//! start, takes its timestamp, writes its batch and releases the latches. A prewrite does the same
//! without a timestamp, and writes locks. Another commit of one of the keys precedes this one in
//! the order of latches, and then its versions are published and found; or it follows, and finds
//! the versions of this one. Usually the latches prove that there is no conflict, without a search
//! in the engine (`latches`). No version that conflicts is dropped before: the transaction's hold
//! keeps the safe point at its start, and only versions up to the safe point are dropped.

mod one_batch;
mod optimistic;
mod pessimistic;
mod reader;
mod scan;
mod two_phase;
mod writes;

pub use optimistic::Transaction;
pub use pessimistic::PessimisticTransaction;
pub use scan::TransactionScan;
pub use two_phase::{CommittedTransaction, PrewrittenTransaction};
