//! Resolving locks for readers, which never wait for a decision of another transaction.
//!
//! - If the transaction committed at the reader's timestamp or before, the reader ends the lock and
//!   reads the version. If the engine takes no writes, it reads the value of the lock.
//! - If the transaction committed later, or was rolled back, the reader reads the versions below
//!   the lock.
//! - If the transaction is running, the reader raises its minimal commit timestamp and reads the
//!   versions below the lock.
//! - If the primary key has no trace of the transaction, its prewrite is incomplete. It will take a
//!   commit timestamp after the reader's.
//! - An async commit has committed if all its keys are prewritten. If one is missing, its prewrite
//!   will move the commit after the reader. If one is prewritten for two phases, the transaction
//!   has fallen back to them: its primary lock is that of a running transaction.
//!
//! A reader rolls back an expired transaction, through its primary key. Callers must not hold
//! latches.

use titan::LazyValue;

use super::end_locks::end_lock;
use super::owner_status::{OwnerStatus, owner_status};
use crate::core::Core;
use crate::error::{Error, Result};
use crate::lock_info::LockKind;
use crate::locks::{ActiveLock, Push, lost_value};
use crate::timestamp::Timestamp;

/// The place of a key's value.
pub(crate) enum ReadFrom {
    /// The versions of the key.
    Versions,
    /// The lock of a committed transaction, with its value, or `None` for a deletion.
    Lock(Option<LazyValue>),
}

/// Resolves the lock of `key` for a read at `at`. Without writes if the engine refuses them.
///
/// # Errors
/// Those of the engine.
pub(crate) fn resolve_for_read(core: &Core, key: &[u8], at: Timestamp) -> Result<ReadFrom> {
    if core.locks.is_empty() {
        return Ok(ReadFrom::Versions);
    }
    // A store that is open read-only rolls nothing back: a transaction that has not committed yet
    // does not matter to it. Nor does a forked child.
    let may_write = !core.config.is_read_only && core.check_not_inherited().is_ok();
    match resolve(core, key, at, may_write) {
        Err(Error::Engine(_)) => resolve(core, key, at, false),
        found => found,
    }
}

fn resolve(core: &Core, key: &[u8], at: Timestamp, may_write: bool) -> Result<ReadFrom> {
    while let Some(active) = core.locks.get(key) {
        if !active.affects_read_at(at) {
            break;
        }
        gate!("read: has found a lock");
        let lock = &active.lock;
        let deciding = core.locks.owned_by(&lock.primary, lock.start);
        let is_expired = may_write && core.locks.is_expired(deciding.as_ref().unwrap_or(&active));
        let is_async = |active: &ActiveLock| active.lock.is_async();
        let was_async = deciding.as_ref().is_some_and(is_async);
        let fell_back = || {
            let deciding = core.locks.owned_by(&lock.primary, lock.start);
            was_async && !deciding.as_ref().is_some_and(is_async)
        };
        if deciding.is_some() && !is_expired {
            match core.locks.push(&lock.primary, lock.start, at) {
                Push::Done => {
                    gate!("read: has pushed");
                    break;
                }
                Push::Committing => {
                    // Its versions are being written, in a forked child by a thread of the parent.
                    core.check_not_inherited()?;
                    gate!("read: waits for a commit");
                    drop(core.latches.take(std::iter::once(&*lock.primary)));
                    continue;
                }
                Push::None => continue,
                Push::Async => {}
            }
        }
        match owner_status(core, &active, is_expired)? {
            OwnerStatus::Committed(commit) if commit > at => break,
            OwnerStatus::Committed(commit) if commit == at && mutant!(lock_read_one_too_late) => {
                break;
            }
            OwnerStatus::Committed(commit) if may_write => end_lock(core, key, lock, Some(commit))?,
            OwnerStatus::Committed(_) if lock.kind == LockKind::Delete => {
                return Ok(ReadFrom::Lock(None));
            }
            OwnerStatus::Committed(_) => {
                let value = core.locks.prewritten_value(key)?;
                // Otherwise another thread ended the lock, and the value may belong to a later one.
                if core.locks.owned_by(key, lock.start).is_some() {
                    return match value {
                        Some(_) => Ok(ReadFrom::Lock(value)),
                        None => Err(lost_value(key)),
                    };
                }
            }
            OwnerStatus::RolledBack if may_write => end_lock(core, key, lock, None)?,
            // It fell back, so that it can be pushed.
            OwnerStatus::Running if fell_back() => {}
            // The owner sent a heartbeat at the same time.
            OwnerStatus::Running if is_expired => {}
            OwnerStatus::RolledBack | OwnerStatus::Running => break,
        }
    }
    Ok(ReadFrom::Versions)
}
