//! What readers and writers do about locks of other transactions.
//!
//! The primary key of the other transaction says how it ended, or that it has not. A *reader* at a timestamp
//! waits for none of its decisions:
//!
//! - It committed at the timestamp of the reader or before: the lock that was found is turned into its version. If
//!   the engine takes no writes, the value is read where the lock has it.
//! - It committed later, or was rolled back: the reader reads what is below the lock.
//! - It is alive: its minimal commit timestamp is pushed past the reader, who reads what is below the lock.
//! - Its primary key is not locked and knows nothing of it: it has not been prewritten in full, so its commit
//!   timestamp is still to be taken, and later than the reader's.
//! - It is an async commit: it has committed if all its keys are prewritten. If one is missing, the prewrite of
//!   that key will make the commit later than the reader.
//!
//! A *writer* cannot go around a lock. It ends the locks of transactions that have ended or expired, and waits for
//! the others. It ends all locks of such a transaction at once, because it may be about to write many of its keys,
//! and looks at all of its own keys before it tries again.
//!
//! An *opening* ends the locks of those transactions that ended with the last one.
//!
//! Transactions that have expired are rolled back by both, through their primary key. No latches may be held by
//! those who call this module.

use titan::LazyValue;

use super::end_locks::end_lock;
use super::owner_status::{OwnerStatus, owner_status};
use crate::core::Core;
use crate::error::{Error, Result};
use crate::lock_info::LockKind;
use crate::locks::{Push, lost_value};
use crate::timestamp::Timestamp;

/// What a reader finds on a key.
pub(crate) enum ReadFrom {
    /// What the versions of the key say.
    Versions,
    /// The value that a transaction has committed, which is still with the lock; none for a deletion.
    Lock(Option<LazyValue>),
}

/// Where a reader at `at` finds what `key` has. If writes to the engine fail, it reads without.
///
/// # Errors
/// Those of the engine.
pub(crate) fn resolve_for_read(core: &Core, key: &[u8], at: Timestamp) -> Result<ReadFrom> {
    if core.locks.is_empty() {
        return Ok(ReadFrom::Versions);
    }
    // A store that is read alone rolls back nothing: what has not committed by now does not concern it.
    // Neither does a child of the process that has it open.
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
        let lock = &active.lock;
        let deciding = core.locks.owned_by(&lock.primary, lock.start);
        let is_expired = may_write && core.locks.is_expired(deciding.as_ref().unwrap_or(&active));
        if deciding.is_some() && !is_expired {
            match core.locks.push(&lock.primary, lock.start, at) {
                Push::Done => break,
                Push::Committing => {
                    // Its versions are being written, by a thread of the parent if this is a child.
                    core.check_not_inherited()?;
                    drop(core.latches.take(std::iter::once(&*lock.primary)));
                    continue;
                }
                Push::None => continue,
                Push::Async => {}
            }
        }
        match owner_status(core, &active, is_expired)? {
            OwnerStatus::Committed(commit) if commit > at => break,
            OwnerStatus::Committed(commit) if may_write => end_lock(core, key, lock, Some(commit))?,
            OwnerStatus::Committed(_) if lock.kind == LockKind::Delete => {
                return Ok(ReadFrom::Lock(None));
            }
            OwnerStatus::Committed(_) => {
                let value = core.locks.prewritten_value(key)?;
                // Otherwise it has been moved to the version, and another lock may have one there.
                if core.locks.owned_by(key, lock.start).is_some() {
                    return match value {
                        Some(_) => Ok(ReadFrom::Lock(value)),
                        None => Err(lost_value(key)),
                    };
                }
            }
            OwnerStatus::RolledBack if may_write => end_lock(core, key, lock, None)?,
            // Its owner has given a sign of life meanwhile.
            OwnerStatus::Running if is_expired => {}
            OwnerStatus::RolledBack | OwnerStatus::Running => break,
        }
    }
    Ok(ReadFrom::Versions)
}
