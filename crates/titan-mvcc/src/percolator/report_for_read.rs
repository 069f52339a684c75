//! Reads for clients that resolve locks themselves: a lock in the way is reported, with all its
//! values.

use super::resolve_for_read::ReadFrom;
use crate::core::Core;
use crate::error::Result;
use crate::lock_info::LockKind;
use crate::locks::lost_value;
use crate::timestamp::Timestamp;

/// The transactions whose status a reading client has checked, by their start timestamps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownLocks {
    /// Transactions that commit after the read, or were rolled back. Their locks do not count.
    pub resolved: Vec<Timestamp>,
    /// Transactions that have committed at the timestamp of the read or before. Values come from
    /// their locks.
    pub committed: Vec<Timestamp>,
    /// True for a client that reads whatever is committed. A lock of a primary key does not count,
    /// unless it is that of an async commit, which may have committed.
    pub reads_latest: bool,
}

/// Finds the place of the value of `key` at `at`. Ends no lock and waits for nothing.
///
/// # Errors
/// `KeyIsLocked` by a transaction that the client does not know; those of the engine.
pub(crate) fn report_for_read(
    core: &Core,
    key: &[u8],
    at: Timestamp,
    known: &KnownLocks,
) -> Result<ReadFrom> {
    while let Some(active) = core.locks.get(key) {
        let lock = &active.lock;
        let is_undecided = known.reads_latest && *lock.primary == *key && !lock.is_async();
        if !active.affects_read_at(at) || known.resolved.contains(&lock.start) || is_undecided {
            break;
        }
        if !known.committed.contains(&lock.start) {
            return Err(active.key_is_locked(key));
        }
        if lock.kind == LockKind::Delete {
            return Ok(ReadFrom::Lock(None));
        }
        let value = core.locks.prewritten_value(key)?;
        // Otherwise another thread ended the lock, and the value may belong to a later one.
        if core.locks.owned_by(key, lock.start).is_some() {
            return match value {
                Some(_) => Ok(ReadFrom::Lock(value)),
                None => Err(lost_value(key)),
            };
        }
    }
    Ok(ReadFrom::Versions)
}
