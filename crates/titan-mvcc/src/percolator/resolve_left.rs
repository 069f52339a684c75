//! Ending the locks that owners have left: expired ones, and those of an earlier opening.

use super::end_locks::{end_transaction, keys_with_primary};
use super::owner_status::{OwnerStatus, owner_status};
use super::rollback::release_locks;
use crate::core::Core;
use crate::error::Result;
use crate::locks::ActiveLock;
use crate::timestamp::Timestamp;

/// Ends all locks of transactions that began at `until` or before and have ended or expired. Goes
/// on after a lock that cannot be ended.
///
/// # Errors
/// Those of the engine, and `Corruption`: the first one.
pub(crate) fn end_expired_locks(core: &Core, until: Timestamp) -> Result<()> {
    let mut result = Ok(());
    for (key, found) in core.locks.transactions(until) {
        let ended = end_if_expired(core, &key, found.lock.start);
        result = result.and(ended);
    }
    result
}

/// Ends the lock of a transaction on `key`, and its locks with the same primary key, if the
/// transaction has ended or expired.
fn end_if_expired(core: &Core, key: &[u8], start: Timestamp) -> Result<()> {
    let Some(active) = core.locks.owned_by(key, start) else {
        return Ok(());
    };
    match owner_status(core, &active, true)? {
        OwnerStatus::Committed(commit) => end_transaction(core, &active.lock, Some(commit)),
        OwnerStatus::RolledBack => end_transaction(core, &active.lock, None),
        OwnerStatus::Running => Ok(()),
    }
}

/// Ends the locks whose owners ended with an earlier opening. A lock that cannot be read or written
/// stays. It has expired, so the next caller that meets it tries again. These transactions make no
/// late calls, so they need no rollback records. Cost: a read and a write of the values of a
/// committed transaction, deletions for others.
pub(crate) fn end_orphaned_locks(core: &Core) {
    for (_, active) in core.locks.transactions(Timestamp::MAX) {
        let stays = mutant!(orphaned_locks_stay);
        if active.is_orphaned && !stays {
            let _ = end_orphan(core, &active);
        }
    }
}

fn end_orphan(core: &Core, active: &ActiveLock) -> Result<()> {
    // ORDER: before the store has other users, so a transaction that is undecided stays so.
    let commit = match owner_status(core, active, false)? {
        OwnerStatus::Committed(commit) => Some(commit),
        OwnerStatus::RolledBack | OwnerStatus::Running => None,
    };
    if commit.is_some() {
        return end_transaction(core, &active.lock, commit);
    }
    let keys = keys_with_primary(core, &active.lock);
    let keys: Vec<&[u8]> = keys.iter().map(|key| &**key).collect();
    release_locks(core, &keys, active.lock.start)
}
