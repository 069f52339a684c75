//! Locks as calls and errors report them: plain values.

use std::time::Duration;

use bytes::Bytes;

use crate::timestamp::Timestamp;

/// The purpose of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// A prewritten put.
    Put,
    /// A prewritten deletion.
    Delete,
    /// A prewritten [`lock`](crate::Transaction::lock): the commit keeps the value.
    Lock,
    /// A pessimistic lock: the transaction has not prewritten the key yet.
    Pessimistic,
}

/// A lock, as calls and errors report it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockInfo {
    /// The locked key.
    pub key: Bytes,
    /// The purpose of the lock.
    pub kind: LockKind,
    /// The primary key of the transaction.
    pub primary: Bytes,
    /// The start timestamp, which identifies the transaction.
    pub start: Timestamp,
    /// The timestamp for update of a pessimistic lock; zero for an optimistic one.
    pub for_update: Timestamp,
    /// The first timestamp at which the transaction may commit.
    pub min_commit: Timestamp,
    /// Time to live. Other transactions may roll this one back when its owner has sent no heartbeat
    /// for so long.
    pub ttl: Duration,
    /// Approximate number of keys of the transaction; zero if unknown.
    pub txn_size: u64,
    /// The other keys of an async commit, on the lock of the primary key. Empty on its other locks,
    /// `None` without async commit.
    pub secondaries: Option<Vec<Bytes>>,
}
