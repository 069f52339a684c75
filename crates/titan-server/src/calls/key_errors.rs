//! Errors of the store as errors of keys.

use std::time::Duration;

use bytes::Bytes;
use titan_mvcc::{Error, LockInfo, LockKind, Store, Timestamp};

use super::failure::Failure;
use crate::proto::deadlock::WaitForEntry;
use crate::proto::kvrpcpb::write_conflict::Reason;
use crate::proto::kvrpcpb::{self, Assertion, KeyError, Op};

/// The transaction of a call, as its errors name it.
pub(super) struct Caller<'a> {
    pub(super) start: u64,
    pub(super) primary: &'a Bytes,
    /// The reason of a conflict.
    pub(super) reason: Reason,
}

impl Caller<'_> {
    /// A call without a primary key, which finds no conflicts.
    pub(super) fn of(start: u64) -> Caller<'static> {
        static NONE: Bytes = Bytes::new();
        Caller {
            start,
            primary: &NONE,
            reason: Reason::Unknown,
        }
    }

    /// The failure for an error of a call that may commit.
    pub(super) fn commit_failure(&self, error: Error, store: &Store) -> Failure {
        if let Error::Engine(error) = &error
            && let Some(failure) = Failure::of_commit(error, store.db())
        {
            return failure;
        }
        self.failure(error)
    }

    /// The failure for an error of the store.
    pub(super) fn failure(&self, error: Error) -> Failure {
        let key_error = match error {
            Error::KeyIsLocked(lock) => KeyError {
                locked: Some(lock_info(&lock)),
                ..KeyError::default()
            },
            Error::Conflict {
                key,
                committed,
                other,
                ..
            } => self.conflict(key, other.0, committed.0, self.reason),
            Error::AlreadyExists { key } => KeyError {
                already_exist: Some(kvrpcpb::AlreadyExist { key }),
                ..KeyError::default()
            },
            Error::AssertionFailed {
                key,
                start,
                must_exist,
                existing,
            } => {
                let (existing_start, existing_commit) = existing.unwrap_or_default();
                let assertion = match must_exist {
                    true => Assertion::Exist,
                    false => Assertion::NotExist,
                };
                KeyError {
                    assertion_failed: Some(kvrpcpb::AssertionFailed {
                        start_ts: start.0,
                        key,
                        assertion: assertion.into(),
                        existing_start_ts: existing_start.0,
                        existing_commit_ts: existing_commit.0,
                    }),
                    ..KeyError::default()
                }
            }
            Error::RolledBack { key, start } => {
                // The record of the rollback has the start as its timestamp.
                self.conflict(key, start.0, start.0, Reason::SelfRolledBack)
            }
            Error::Deadlock { key, circle, keys } => KeyError {
                deadlock: Some(deadlock(key, &circle, keys)),
                ..KeyError::default()
            },
            Error::LockNotFound { .. } => KeyError {
                retryable: error.to_string(),
                ..KeyError::default()
            },
            Error::TransactionNotFound { primary, start } => txn_not_found(primary, start.0),
            Error::PrimaryMismatch { lock, .. } => KeyError {
                primary_mismatch: Some(kvrpcpb::PrimaryMismatch {
                    lock_info: Some(lock_info(&lock)),
                }),
                ..KeyError::default()
            },
            Error::CommitTsExpired {
                key,
                asked,
                min_commit,
            } => KeyError {
                commit_ts_expired: Some(kvrpcpb::CommitTsExpired {
                    start_ts: self.start,
                    attempted_commit_ts: asked.0,
                    key,
                    min_commit_ts: min_commit.0,
                }),
                ..KeyError::default()
            },
            Error::Engine(error) => return error.into(),
            error => return Failure::abort(error.to_string()),
        };
        key_error.into()
    }

    fn conflict(&self, key: Bytes, start: u64, commit: u64, reason: Reason) -> KeyError {
        KeyError {
            conflict: Some(kvrpcpb::WriteConflict {
                start_ts: self.start,
                conflict_ts: start,
                key,
                primary: self.primary.clone(),
                conflict_commit_ts: commit,
                reason: reason.into(),
            }),
            ..KeyError::default()
        }
    }
}

/// A circle of waits: each transaction waits for the next one, the last one for the first, which is
/// the caller. `keys` has the key that each waits for, `key` the caller's.
fn deadlock(key: Bytes, circle: &[Timestamp], keys: Vec<Bytes>) -> kvrpcpb::Deadlock {
    let next = circle.iter().cycle().skip(1);
    let waits = circle.iter().zip(next).zip(keys);
    let waits = waits.map(|((txn, other), key)| WaitForEntry {
        txn: txn.0,
        wait_for_txn: other.0,
        key_hash: key_hash(&key),
        key,
        ..WaitForEntry::default()
    });
    let mut wait_chain: Vec<_> = waits.collect();
    // The caller's wait would have closed the circle, so it comes last.
    if !wait_chain.is_empty() {
        wait_chain.rotate_left(1);
    }
    // The caller's own key for which another transaction waits.
    let caller = circle.first().map_or(0, |first| first.0);
    let waited_for = wait_chain.iter().find(|wait| wait.wait_for_txn == caller);
    kvrpcpb::Deadlock {
        lock_ts: circle.get(1).map_or(0, |holder| holder.0),
        deadlock_key_hash: waited_for.map_or(0, |wait| wait.key_hash),
        deadlock_key: waited_for.map_or_else(Bytes::new, |wait| wait.key.clone()),
        lock_key: key,
        wait_chain,
    }
}

/// The error for a transaction without a trace at its primary key.
pub(super) fn txn_not_found(primary_key: Bytes, start_ts: u64) -> KeyError {
    KeyError {
        txn_not_found: Some(kvrpcpb::TxnNotFound {
            start_ts,
            primary_key,
        }),
        ..KeyError::default()
    }
}

/// The failure of a read.
pub(super) fn read_failure(error: Error) -> Failure {
    Caller::of(0).failure(error)
}

/// A lock as clients see it.
pub(super) fn lock_info(lock: &LockInfo) -> kvrpcpb::LockInfo {
    let op = match lock.kind {
        LockKind::Put => Op::Put,
        LockKind::Delete => Op::Del,
        LockKind::Lock => Op::Lock,
        LockKind::Pessimistic => Op::PessimisticLock,
    };
    kvrpcpb::LockInfo {
        primary_lock: lock.primary.clone(),
        lock_version: lock.start.0,
        key: lock.key.clone(),
        lock_ttl: millis(lock.ttl),
        txn_size: lock.txn_size,
        lock_type: op.into(),
        lock_for_update_ts: lock.for_update.0,
        use_async_commit: lock.secondaries.is_some(),
        min_commit_ts: lock.min_commit.0,
        secondaries: lock.secondaries.clone().unwrap_or_default(),
        duration_to_last_update_ms: 0,
    }
}

/// A time in milliseconds.
pub(super) fn millis(time: Duration) -> u64 {
    time.as_millis().try_into().unwrap_or(u64::MAX)
}

/// The hash by which clients find the key among their own.
fn key_hash(key: &[u8]) -> u64 {
    farmhash::fingerprint64(key)
}
