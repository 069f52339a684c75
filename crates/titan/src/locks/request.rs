//! Requests for locks, and their results.

use std::time::Duration;

use bytes::Bytes;

use crate::format::ColumnFamilyId;

/// What has locks: a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct OwnerId(pub(crate) u64);

/// What is locked.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct LockKey {
    pub(crate) family: ColumnFamilyId,
    pub(crate) key: Bytes,
}

/// How a key is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Shared,
    Exclusive,
}

/// What a request changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acquired {
    /// The owner had no lock on the key before.
    New,
    /// The owner had a shared lock, which is exclusive now.
    Upgraded,
    /// The owner had the lock already.
    Had,
}

/// A request for a lock.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) owner: OwnerId,
    pub(crate) key: &'a LockKey,
    /// The name of the key's family, for messages.
    pub(crate) family: &'a str,
    pub(crate) mode: Mode,
    /// How long to wait at most; `None` for ever.
    pub(crate) timeout: Option<Duration>,
    /// Whether to fail if the request closes a circle.
    pub(crate) detect_deadlocks: bool,
}
