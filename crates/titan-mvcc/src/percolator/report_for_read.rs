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
    /// True for a client that reads all that is committed. A lock of a primary key does not count,
    /// unless it is that of an async commit, which may have committed.
    pub reads_latest: bool,
    /// True for a client that reads what is committed when it asks, and may read something else
    /// later: no lock counts.
    pub reads_committed: bool,
}

/// Finds the place of the value of `key` at `at`. Ends no lock. Waits for nothing, except that
/// reading the value of a committed lock waits for a commit that is ending it.
///
/// # Errors
/// `KeyIsLocked` by a transaction that the client does not know; those of the engine.
pub(crate) fn report_for_read(
    core: &Core,
    key: &[u8],
    at: Timestamp,
    known: &KnownLocks,
) -> Result<ReadFrom> {
    while let Some(active) = core.locks.get(key).filter(|_| !known.reads_committed) {
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
        // Otherwise a commit could have removed the value, and not the lock yet.
        let _latch = core.latches.take(std::iter::once(key));
        if core.locks.owned_by(key, lock.start).is_some() {
            return match core.locks.prewritten_value(key)? {
                None => Err(lost_value(key)),
                value => Ok(ReadFrom::Lock(value)),
            };
        }
    }
    Ok(ReadFrom::Versions)
}
