//! The status of a transaction, by its primary key; heartbeats.

use std::time::Duration;

use bytes::Bytes;
use titan::WriteBatch;

use super::rollback::{has_expired, roll_back_latched};
use crate::core::Core;
use crate::error::{Error, Result};
use crate::lock_info::LockInfo;
use crate::locks::{ActiveLock, Push};
use crate::lookup::{Outcome, outcome};
use crate::timestamp::Timestamp;

/// The status of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransactionStatus {
    /// Running: its primary key is locked.
    Running {
        /// The primary lock.
        lock: Box<LockInfo>,
        /// True if it will commit after the timestamp of the reader. False for an async commit,
        /// which all its keys decide.
        is_pushed: bool,
    },
    /// Committed at this timestamp.
    Committed(Timestamp),
    /// Rolled back, perhaps by this call.
    RolledBack,
}

/// See [`Percolator::check_transaction_status`](super::Percolator::check_transaction_status).
pub(super) fn check(
    core: &Core,
    primary: &[u8],
    start: Timestamp,
    reader: Timestamp,
    now: Timestamp,
    roll_back_if_missing: bool,
) -> Result<TransactionStatus> {
    let is_last = reader == Timestamp::MAX;
    let latest = if is_last { start } else { start.max(reader) };
    core.order.check_handed_out(latest)?;
    let expired = |active: &ActiveLock| has_expired(&active.lock, now);
    check_if(core, primary, start, reader, expired, roll_back_if_missing)
}

/// Checks the status as of now: a lock expires by the owner's last heartbeat, independent of the
/// clock.
pub(super) fn check_expired(
    core: &Core,
    primary: &[u8],
    start: Timestamp,
    roll_back_if_missing: bool,
) -> Result<TransactionStatus> {
    let expired = |active: &ActiveLock| core.locks.is_expired(active);
    let reader = Timestamp::ZERO;
    check_if(core, primary, start, reader, expired, roll_back_if_missing)
}

fn check_if(
    core: &Core,
    primary: &[u8],
    start: Timestamp,
    reader: Timestamp,
    expired: impl Fn(&ActiveLock) -> bool,
    roll_back_if_missing: bool,
) -> Result<TransactionStatus> {
    let _latches = core.latches.take(std::iter::once(primary));
    let Some(active) = core.locks.owned_by(primary, start) else {
        return match outcome(&core.versions, primary, start)? {
            Outcome::Committed(at) => Ok(TransactionStatus::Committed(at)),
            Outcome::RolledBack => Ok(TransactionStatus::RolledBack),
            Outcome::Unknown if roll_back_if_missing => {
                roll_back_latched(core, &[primary], start, true)?;
                Ok(TransactionStatus::RolledBack)
            }
            Outcome::Unknown => Err(Error::TransactionNotFound {
                primary: Bytes::copy_from_slice(primary),
                start,
            }),
        };
    };
    let lock = &active.lock;
    if lock.primary != primary {
        return Err(Error::PrimaryMismatch {
            key: Bytes::copy_from_slice(primary),
            lock: Box::new(lock.info(primary)),
        });
    }
    if !lock.is_async() && expired(&active) {
        roll_back_latched(core, &[primary], start, true)?;
        return Ok(TransactionStatus::RolledBack);
    }
    // A reader at the last timestamp wants whatever is committed, and pushes nothing.
    let is_pushed =
        reader != Timestamp::MAX && core.locks.push(primary, start, reader) == Push::Done;
    let now = core.locks.owned_by(primary, start).unwrap_or(active);
    Ok(TransactionStatus::Running {
        lock: Box::new(now.lock.info(primary)),
        is_pushed,
    })
}

/// See [`Percolator::heartbeat`](super::Percolator::heartbeat).
pub(crate) fn heartbeat(
    core: &Core,
    primary: &[u8],
    start: Timestamp,
    ttl: Duration,
) -> Result<Duration> {
    let _latches = core.latches.take(std::iter::once(primary));
    let Some(active) = core.locks.owned_by(primary, start) else {
        return Err(Error::LockNotFound {
            key: Bytes::copy_from_slice(primary),
            start,
        });
    };
    let mut lock = active.lock;
    lock.ttl = match mutant!(heartbeat_shortens_a_life) {
        true => ttl,
        false => lock.ttl.max(ttl),
    };
    let ttl = lock.ttl;
    let mut batch = WriteBatch::new();
    core.locks.batch_put(&mut batch, primary, &lock, None)?;
    core.db.write(batch, &core.config.unsynced)?;
    core.locks.renew(primary, start, ttl);
    Ok(ttl)
}
