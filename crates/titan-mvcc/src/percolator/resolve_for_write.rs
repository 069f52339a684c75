//! Resolving locks for writers, which wait for running transactions.

use std::time::Duration;

use bytes::Bytes;
use titan::ErrorKind;

use super::end_locks::end_for_waiter;
use super::owner_status::{OwnerStatus, owner_status};
use crate::core::Core;
use crate::error::{Error, Result};
use crate::locks::{ActiveLock, NoWait};
use crate::timestamp::Timestamp;

/// Waits until no other transaction has a lock that one of the keys had at the beginning, or `deadline`, a monotonic
/// time. Ends the locks of transactions that have ended or expired. If the deadline came first, returns a key that is
/// locked. `waiter` is the start of the caller's transaction.
///
/// # Errors
/// `Deadlock` if `waiter` would wait for itself; `Closed`; those of the engine.
pub(crate) fn wait_for_locks<'k>(
    core: &Core,
    keys: impl Iterator<Item = &'k [u8]>,
    waiter: Option<Timestamp>,
    deadline: Duration,
) -> Result<Option<(&'k [u8], ActiveLock)>> {
    for key in keys {
        if let Some(active) = core.locks.get(key)
            && Some(active.lock.start) != waiter
            && !wait(core, key, &active, waiter, deadline)?
        {
            return Ok(Some((key, active)));
        }
    }
    Ok(None)
}

/// The same for the lock that was found on one key. False if the deadline came first.
fn wait(
    core: &Core,
    key: &[u8],
    found: &ActiveLock,
    waiter: Option<Timestamp>,
    deadline: Duration,
) -> Result<bool> {
    let holder = found.lock.start;
    loop {
        let Some(active) = core.locks.owned_by(key, holder) else {
            return Ok(true);
        };
        match owner_status(core, &active, true)? {
            OwnerStatus::Committed(commit) => {
                end_for_waiter(core, key, &active.lock, Some(commit))?
            }
            OwnerStatus::RolledBack => end_for_waiter(core, key, &active.lock, None)?,
            OwnerStatus::Running => {
                let now = core.clock.monotonic();
                if now >= deadline {
                    return Ok(false);
                }
                // Its life may end before the deadline.
                let deciding = core.locks.owned_by(&active.lock.primary, holder);
                let left = core.locks.time_left(deciding.as_ref().unwrap_or(&active));
                let expiry = now
                    .saturating_add(left)
                    .saturating_add(Duration::from_millis(1));
                let is_locked = || core.locks.owned_by(key, holder).is_some();
                let waited = core.locks.waits.wait(
                    &*core.clock,
                    waiter,
                    holder,
                    deadline.min(expiry),
                    is_locked,
                );
                waited.map_err(|why| match why {
                    NoWait::Deadlock(circle) => Error::Deadlock {
                        key: Bytes::copy_from_slice(key),
                        circle,
                    },
                    NoWait::Closed => {
                        let what = "the store was closed during a wait for a lock";
                        titan::Error::new(ErrorKind::Closed, what).into()
                    }
                })?;
            }
        }
    }
}
