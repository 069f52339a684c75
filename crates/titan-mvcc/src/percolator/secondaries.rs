//! The status of an async commit, which has committed once all its keys are prewritten.

use bytes::Bytes;

use super::rollback::roll_back_latched;
use crate::core::Core;
use crate::error::{Error, Result};
use crate::format::LOCKS;
use crate::format::lock::{Lock, record_key};
use crate::lock_info::LockInfo;
use crate::lookup::{Outcome, outcome};
use crate::timestamp::Timestamp;

/// The status of an async commit, by some of its keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecondariesStatus {
    /// All of them are prewritten. If this holds for all keys of the transaction, it has committed,
    /// at the largest of their minimal commit timestamps.
    Locked(Vec<LockInfo>),
    /// Committed at this timestamp.
    Committed(Timestamp),
    /// Rolled back, perhaps by this call.
    RolledBack,
}

/// See [`Percolator::check_secondary_locks`](super::Percolator::check_secondary_locks).
pub(super) fn check_secondaries(
    core: &Core,
    keys: &[&[u8]],
    start: Timestamp,
) -> Result<SecondariesStatus> {
    core.order.check_handed_out(start)?;
    let _latches = core.latches.take(keys.iter().copied());
    let mut locks = Vec::with_capacity(keys.len());
    for key in keys {
        match core.locks.owned_by(key, start) {
            Some(active) if active.lock.is_prewritten() => {
                locks.push(active.lock.info(key));
                continue;
            }
            Some(_) => {}
            None => match outcome(&core.versions, key, start)? {
                Outcome::Committed(at) => return Ok(SecondariesStatus::Committed(at)),
                Outcome::RolledBack => return Ok(SecondariesStatus::RolledBack),
                Outcome::Unknown => {}
            },
        }
        if !mutant!(missing_key_unrecorded) {
            roll_back_latched(core, &[key], start, true)?;
        }
        return Ok(SecondariesStatus::RolledBack);
    }
    Ok(SecondariesStatus::Locked(locks))
}

/// The status of an async commit, from a check that changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AsyncStatus {
    /// Committed at this timestamp.
    Committed(Timestamp),
    /// Rolled back.
    RolledBack,
    /// Undecided: some keys are not prewritten yet.
    Undecided,
    /// One of its keys is prewritten for a commit in two phases, so its primary key decides.
    FellBack,
}

/// The status of an async commit, by all its keys; `lock` is its primary lock, as it was a moment
/// ago. If the transaction has fallen back, its primary lock in memory is that of a commit in two
/// phases from then on.
///
/// # Errors
/// Those of the engine; `Corruption` if it would have committed at its start or before.
pub(super) fn async_status(core: &Core, lock: &Lock) -> Result<AsyncStatus> {
    let secondaries: &[Bytes] = lock.secondaries.as_deref().unwrap_or_default();
    let keys = || std::iter::once(&lock.primary).chain(secondaries);
    // Under the latches, every lock in memory is written.
    let _latches = core.latches.take(keys().map(|key| &**key));
    let mut last = Timestamp::ZERO;
    let (mut is_whole, mut fell_back) = (true, false);
    for key in keys() {
        match core.locks.owned_by(key, lock.start) {
            Some(active) if active.lock.is_prewritten() => {
                last = last.max(active.lock.min_commit);
                fell_back |= !active.lock.is_async();
            }
            Some(_) => is_whole = false,
            None => match outcome(&core.versions, key, lock.start)? {
                Outcome::Committed(at) => return Ok(AsyncStatus::Committed(at)),
                Outcome::RolledBack => return Ok(AsyncStatus::RolledBack),
                Outcome::Unknown => is_whole &= mutant!(async_commit_too_early),
            },
        }
    }
    if fell_back && !mutant!(fall_back_unnoticed) {
        core.locks.fall_back(&lock.primary, lock.start);
        return Ok(AsyncStatus::FellBack);
    }
    if !is_whole {
        return Ok(AsyncStatus::Undecided);
    }
    if last <= lock.start {
        let wrong = "its transaction has committed at its start or before";
        return Err(Error::corrupt_entry(
            LOCKS,
            &record_key(&lock.primary),
            wrong,
        ));
    }
    Ok(AsyncStatus::Committed(last))
}
