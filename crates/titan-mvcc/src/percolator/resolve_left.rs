//! Ending the locks that owners have left: expired ones, and those of an earlier opening.

use super::end_locks::{end_transaction, keys_with_primary};
use super::owner_status::{OwnerStatus, owner_status};
use super::rollback::release_locks;
use crate::core::Core;
use crate::error::Result;
use crate::locks::ActiveLock;
use crate::timestamp::Timestamp;

/// Ends all locks of transactions that began at `until` or before and have ended or expired. One that cannot be ended
/// keeps no other one.
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

/// Ends the lock that the transaction that began at `start` has on a key, and all that the same primary key decides on,
/// if the transaction has ended or expired.
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

/// Ends the locks whose owners ended with an earlier opening. What cannot be ended, because it cannot be read or written,
/// has expired, and whoever meets it tries again. No call of these transactions can come late, so no record of
/// a rollback is left. Cost: for a transaction that was committed a read and a write of its values, for others
/// deletions.
pub(crate) fn end_orphaned_locks(core: &Core) {
    for (_, active) in core.locks.transactions(Timestamp::MAX) {
        // MUTANT: an opening leaves the locks of those who are gone.
        let stays = mutant!("orphaned-locks-stay", "-p titan-mvcc --test it two_phase::");
        if active.is_orphaned && !stays {
            let _ = end_orphan(core, &active);
        }
    }
}

fn end_orphan(core: &Core, active: &ActiveLock) -> Result<()> {
    // ORDER: nobody else uses the store yet, so what is not decided by now never will be.
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
