//! Resolving locks for writers, which wait for running transactions.
//!
//! A writer ends all locks of a transaction that has ended or expired, because it may be about to
//! write many of its keys, and visits all of its own keys before it tries again. Callers must not
//! hold latches.

use std::time::Duration;

use bytes::Bytes;
use titan::ErrorKind;

use super::end_locks::end_for_waiter;
use super::owner_status::{OwnerStatus, owner_status};
use crate::core::Core;
use crate::error::{Error, Result};
use crate::locks::{ActiveLock, NoWait};
use crate::timestamp::Timestamp;

/// Waits until every lock that another transaction had on one of the keys at the beginning is gone,
/// or until the monotonic time `deadline`. Ends locks of transactions that have ended or expired.
/// Returns a key that is still locked at the deadline. `waiter` is the caller's start timestamp.
///
/// # Errors
/// `Deadlock` if the wait would close a circle; `Closed`; those of the engine.
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

/// Waits for one lock. Returns false at the deadline.
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
                // The lock may expire before the deadline.
                let deciding = core.locks.owned_by(&active.lock.primary, holder);
                let left = core.locks.time_left(deciding.as_ref().unwrap_or(&active));
                let left = match mutant!(wait_outlasts_the_lock) {
                    true => Duration::MAX,
                    false => left,
                };
                let expiry = now
                    .saturating_add(left)
                    .saturating_add(Duration::from_millis(1));
                let is_locked = || core.locks.owned_by(key, holder).is_some();
                let waited = core.locks.waits.wait(
                    &*core.clock,
                    waiter,
                    (holder, key),
                    deadline.min(expiry),
                    is_locked,
                );
                waited.map_err(|why| match why {
                    NoWait::Deadlock(circle) => {
                        let key = Bytes::copy_from_slice(key);
                        let (circle, keys) = circle.into_iter().unzip();
                        Error::Deadlock { key, circle, keys }
                    }
                    NoWait::Closed => {
                        let what = "the store was closed during a wait for a lock";
                        titan::Error::new(ErrorKind::Closed, what).into()
                    }
                })?;
            }
        }
    }
}
