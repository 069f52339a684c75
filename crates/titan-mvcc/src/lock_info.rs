//! Locks as calls and errors report them: plain values.

use std::time::Duration;

use bytes::Bytes;

use crate::timestamp::Timestamp;

/// What a lock is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// A put that was prewritten.
    Put,
    /// A deletion that was prewritten.
    Delete,
    /// A prewritten [`lock`](crate::Transaction::lock): it will leave the value.
    Lock,
    /// Nothing was prewritten yet: a pessimistic transaction keeps others away.
    Pessimistic,
}

/// A lock, as calls return it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockInfo {
    /// The locked key.
    pub key: Bytes,
    /// What will be done to it.
    pub kind: LockKind,
    /// The key that decides on the transaction.
    pub primary: Bytes,
    /// When the transaction began. This names it.
    pub start: Timestamp,
    /// When a pessimistic transaction took the lock; zero for an optimistic one.
    pub for_update: Timestamp,
    /// The transaction commits at this timestamp or later.
    pub min_commit: Timestamp,
    /// Others may roll it back when this time has passed without a sign of life.
    pub ttl: Duration,
    /// About how many keys the transaction has; zero if unknown.
    pub txn_size: u64,
    /// For an async commit: the other keys of the transaction if this is the primary key, otherwise none.
    pub secondaries: Option<Vec<Bytes>>,
}
