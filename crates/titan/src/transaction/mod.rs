//! Transactions: reads and writes of many keys that take effect together, as if no other write came
//! between them.
//!
//! A [`Transaction`] collects writes in a [`WriteBatch`](crate::WriteBatch). It remembers the keys
//! that it touched for writing or guarded, and since when each must be unchanged, and commits by
//! [`Db::write_if`](crate::Db::write_if). So every write of others counts, by a transaction or not.
//!
//! ```
//! # fn main() -> titan::Result<()> {
//! # let dir = tempfile::tempdir()?;
//! use titan::{Db, ErrorKind, Options, TransactionOptions};
//!
//! let db = Db::open(dir.path(), &Options::default())?;
//! db.put(b"alice", b"10")?;
//!
//! let transaction = db.begin(&TransactionOptions::default())?;
//! assert_eq!(transaction.get_for_update(&db, "alice")?.as_deref(), Some(&b"10"[..]));
//! transaction.put(&db, "alice", "7")?;
//! transaction.put(&db, "bob", "3")?;
//! // Nobody else sees it before the commit.
//! assert_eq!(db.get(b"bob")?, None);
//! transaction.commit()?;
//! assert_eq!(db.get(b"bob")?.as_deref(), Some(&b"3"[..]));
//!
//! let transaction = db.begin(&TransactionOptions::default())?;
//! transaction.put(&db, "alice", "0")?;
//! db.put(b"alice", b"8")?;
//! assert_eq!(transaction.commit().unwrap_err().kind(), ErrorKind::Conflict);
//!
//! // One key needs no transaction.
//! assert!(db.compare_and_set(b"alice", Some(b"8"), Some(b"9"))?);
//! assert!(!db.put_if_absent(b"alice", b"1")?);
//! # Ok(())
//! # }
//! ```
//!
//! [`Db::transaction`] begins, commits and, after a conflict, begins again.
//!
//! # Isolation
//!
//! Reads of a transaction with a snapshot see the database as of one moment, and its own writes. No
//! write of a key that it wrote is lost, since that is a conflict. So it has *snapshot isolation*.
//! Two transactions that read keys that the other one writes may both commit (*write skew*), unless
//! they guard the keys that they read, by [`Transaction::get_for_update`],
//! [`Transaction::get_for_share`] or [`Transaction::guard`]. Keys that an iterator shows are not
//! guarded, nor are those that it does not show because they do not exist; a key that does not
//! exist can be guarded.
//!
//! | snapshot | reads see | a key must be unchanged since |
//! |---|---|---|
//! | [`AtBegin`](TransactionSnapshot::AtBegin) | the beginning of the transaction | the same |
//! | [`AtFirstUse`](TransactionSnapshot::AtFirstUse) | the first call | the same |
//! | [`None`](TransactionSnapshot::None) | now | the transaction touched it first |
//!
//! # Pessimistic transactions
//!
//! An optimistic transaction learns of conflicts when it commits. A pessimistic one
//! ([`TransactionOptions::pessimistic`]) locks each key that it touches for writing or guards, and
//! waits while another one has it locked. Where keys are contended, it wastes less work.
//!
//! ```
//! # fn main() -> titan::Result<()> {
//! # let dir = tempfile::tempdir()?;
//! # let db = titan::Db::open(dir.path(), &titan::Options::default())?;
//! use titan::{ErrorKind, LockOptions, TransactionOptions};
//! use std::time::Duration;
//!
//! let impatient = TransactionOptions {
//!     locks: Some(LockOptions { timeout: Some(Duration::ZERO), ..LockOptions::default() }),
//!     ..TransactionOptions::pessimistic()
//! };
//! let first = db.begin(&impatient)?;
//! first.put(&db, "k", "1")?;
//! let second = db.begin(&impatient)?;
//! let refused = second.put(&db, "k", "2");
//! assert_eq!(refused.unwrap_err().kind(), ErrorKind::LockTimeout);
//! first.commit()?;
//! second.put(&db, "k", "2")?;
//! second.commit()?;
//! # Ok(())
//! # }
//! ```
//!
//! Only pessimistic transactions take locks. A write without a transaction, or by an optimistic
//! one, neither takes locks nor waits for them: if it writes a key that a pessimistic transaction
//! has locked, that one fails with `Conflict` when it commits. In RocksDB's `TransactionDB` such a
//! write waits for the lock instead, because every write there takes locks; and a commit there does
//! not fail because of a conflict. Programs that write the contended keys only in pessimistic
//! transactions without a snapshot never see `Conflict`.
//!
//! With a snapshot that is older than the last write of a key, a pessimistic transaction fails with
//! `Conflict` when it touches the key (RocksDB: `Busy`).
//!
//! # Cost
//!
//! A transaction has its writes in memory twice, in the batch and in the index for its own reads. A
//! save point or an iterator shares the index. Each key that it touched costs a lookup at the
//! commit, in memtables and tables that have something newer than the key's condition. While it
//! lives, compactions keep the entries that its snapshot sees. One without a snapshot has the same
//! effect from the moment on at which it first touched a key.

mod compare_and_set;
mod entities;
mod handle;
mod index;
mod iterator;
mod options;
mod ranges;
mod reader;
mod retry;
mod state;
mod touch;
mod tracked;

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod iterator_tests;
#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod model_tests;
#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod races_tests;
#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod refusal_tests;
#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests;
#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod thread_tests;

use crate::db::Db;
use crate::error::Result;

pub use handle::Transaction;
pub use iterator::TransactionIterator;
pub use options::{LockOptions, TransactionOptions, TransactionSnapshot};
pub use reader::{FamilyAtSnapshot, FamilyInTransaction, Reader, Rows};
pub use retry::Retry;

impl Db {
    /// Begins a transaction: see [`Transaction`].
    ///
    /// # Errors
    /// `Closed`; `ReadOnly`; `WritesStopped` after a background failure; `InvalidArgument` if
    /// `options.write` asks for a synced write without the WAL.
    pub fn begin(&self, options: &TransactionOptions) -> Result<Transaction> {
        Transaction::begin(self, options)
    }
}
