//! Transactions: optimistic and pessimistic, committed in one batch of the engine or in two phases.
//!
//! A transaction reads a [`Snapshot`](crate::Snapshot) and its own writes above it. Its writes are in memory until the commit.
//! It promises snapshot isolation: of two transactions that overlap in time and write or lock the same key, only
//! one commits.
//!
//! | file | owns |
//! |---|---|
//! | `writes` | the writes of a transaction, until it commits |
//! | `one_batch` | the commit in one batch |
//! | `two_phase` | the commit in two phases, for what is too large for one batch |
//! | `pessimistic` | transactions that lock keys before they write them |
//! | `reader` | snapshots and transactions as the engine's `Reader` |
//! | `scan` | scans with own writes |
//! | `optimistic` | transactions whose commit finds conflicts |
//!
//! # Why conflicts are found exactly
//!
//! A commit takes the latches of the keys that it writes, looks for a lock of each and for a version that was
//! committed after its start, takes its timestamp, writes its batch and releases the latches. A prewrite does the
//! same, but for the timestamp, and writes locks. Another commit of one of these keys is either before that in
//! the order of latches: then its versions are published, and found if they are after the start. Or it is after:
//! then it finds the versions of this one. Usually the latches tell that there is nothing to find, and the engine
//! is not asked: see `latches`. A version that the commit of this
//! transaction must find is not dropped before, because the transaction's hold keeps the safe point at its
//! start, and only versions up to the safe point are dropped.

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
