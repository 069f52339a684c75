//! Transactions: several keys at once, and which way to take.
//!
//! | you want | take |
//! |---|---|
//! | several writes, all or nothing, without a condition | a [`WriteBatch`](crate::WriteBatch) |
//! | to change one key only if it has a certain value | [`compare_and_set`](crate::ColumnFamily::compare_and_set), [`put_if_absent`](crate::ColumnFamily::put_if_absent) |
//! | to add to a value, from many threads | a [merge operator](crate::merge): no read, no conflict |
//! | to read some keys and write others, as if alone | [`Db::transaction`](crate::Db::transaction), *optimistic* |
//! | the same, where many threads want the same keys | [`transaction_with`](crate::Db::transaction_with), *pessimistic* |
//! | to read the state of a past timestamp after a restart, or to commit from other machines | the crate `titandb-mvcc`, a store of versions |
//!
//! # Optimistic: the usual way
//!
//! Nobody waits. A transaction whose keys another write has changed fails at its commit with a
//! retryable error, and [`Db::transaction`](crate::Db::transaction) runs it again. Plain puts count
//! as other writes, too.
//!
//! ```
//! # fn main() -> titan::Result<()> {
//! # let dir = tempfile::tempdir()?;
//! # let db = titan::Db::open(dir.path(), &titan::Options::default())?;
//! fn number(value: Option<titan::Bytes>) -> u64 {
//!     let bytes = value.and_then(|value| value.as_ref().try_into().ok());
//!     bytes.map_or(0, u64::from_be_bytes)
//! }
//!
//! db.put("alice", 10_u64.to_be_bytes())?;
//! db.transaction(|t| {
//!     // "for update": a change of it by others, until the commit, is a conflict.
//!     let alice = number(t.get_for_update(&db, "alice")?);
//!     let bob = number(t.get_for_update(&db, "bob")?);
//!     t.put(&db, "alice", (alice - 3).to_be_bytes())?;
//!     t.put(&db, "bob", (bob + 3).to_be_bytes())
//! })?;
//! assert_eq!(number(db.get("bob")?), 3);
//! # Ok(())
//! # }
//! ```
//!
//! The closure may run several times, so it should have no effect but those on the transaction.
//!
//! # Pessimistic: contended keys
//!
//! The first to touch a key locks it, and the others wait. Locks are in memory, and end with the
//! transaction. Two that wait for each other are found: one fails with a retryable error.
//!
//! ```
//! # fn main() -> titan::Result<()> {
//! # let dir = tempfile::tempdir()?;
//! # let db = titan::Db::open(dir.path(), &titan::Options::default())?;
//! use titan::{Error, Retry, TransactionOptions};
//!
//! let locked = TransactionOptions::pessimistic();
//! db.transaction_with(&locked, &Retry::default(), |t| {
//!     let next = t.get_for_update(&db, "next")?.map_or(0, |value| value[0]);
//!     t.put(&db, "next", [next + 1])?;
//!     Ok::<_, Error>(next)
//! })?;
//! # Ok(())
//! # }
//! ```
//!
//! Only pessimistic transactions take locks: write the contended keys in such ones only.
//!
//! # Isolation
//!
//! No write of a key that a transaction wrote is lost. Two transactions that each read a key that
//! the other one writes may both commit, unless they read it *for update*: see the
//! [module](crate::transaction). Keys that a range shows are not guarded.
