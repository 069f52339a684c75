//! The status of a transaction, by its primary key; heartbeats.

use std::time::Duration;

use bytes::Bytes;
use titan::WriteBatch;

use super::rollback::{has_expired, release_latched, roll_back_latched};
use super::secondaries::async_status;
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

/// A check of the status of a transaction.
#[derive(Clone, Copy, Debug)]
pub struct StatusCheck<'a> {
    /// The primary key.
    pub primary: &'a [u8],
    /// The start timestamp, which identifies the transaction.
    pub start: Timestamp,
    /// The timestamp of the reader that has met a lock of the transaction, which will commit after
    /// it; zero for none. [`Timestamp::MAX`] for a reader of all that is committed.
    pub reader: Timestamp,
    /// The present, at which locks may have expired.
    pub now: Timestamp,
    /// If the primary key has no trace of the transaction: leaves a rollback record, which makes
    /// the status final.
    pub roll_back_if_missing: bool,
    /// The caller has found a lock for two phases among the keys of an async commit.
    pub has_fallen_back: bool,
    /// The caller has met a pessimistic lock, so the transaction may go on: an expired pessimistic
    /// primary lock is released, and no record is left.
    pub for_pessimistic: bool,
    /// Refuses a key that is not the primary one of its lock. Otherwise the primary key of that
    /// lock is checked in its place.
    pub verify_is_primary: bool,
}

impl<'a> StatusCheck<'a> {
    /// A check of the primary key that pushes nothing, expires nothing and leaves no record.
    pub fn of(primary: &'a [u8], start: Timestamp) -> Self {
        StatusCheck {
            primary,
            start,
            reader: Timestamp::ZERO,
            now: Timestamp::ZERO,
            roll_back_if_missing: false,
            has_fallen_back: false,
            for_pessimistic: false,
            verify_is_primary: true,
        }
    }
}

/// The answer to a [`StatusCheck`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckedStatus {
    /// The status. `None` if the primary key has neither a lock nor a record, and may get one.
    pub status: Option<TransactionStatus>,
    /// The change that the check has made.
    pub action: StatusAction,
}

/// A change by a check of a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusAction {
    /// None: the transaction has ended, or runs on.
    Nothing,
    /// The transaction will commit after the reader, which may ignore its locks.
    Pushed,
    /// It had expired, and was rolled back.
    ExpiredRolledBack,
    /// It had left no trace, and has a rollback record now.
    MissingRolledBack,
    /// Its pessimistic primary lock had expired, and was released.
    ExpiredUnlocked,
    /// It has left no trace, and may still lock its primary key.
    MissingLeft,
}

/// See [`Percolator::check_status`](super::Percolator::check_status).
pub(super) fn check(core: &Core, check: &StatusCheck<'_>) -> Result<CheckedStatus> {
    let (start, reader) = (check.start, check.reader);
    let is_last = reader == Timestamp::MAX;
    let latest = if is_last { start } else { start.max(reader) };
    core.order.check_handed_out(latest)?;
    if check.has_fallen_back
        && let Some(active) = core.locks.owned_by(check.primary, start)
        && active.lock.is_async()
    {
        // Makes the primary lock that of a commit in two phases, if the caller is right.
        async_status(core, &active.lock)?;
    }
    check_if(core, check, |active| has_expired(&active.lock, check.now))
}

/// Checks the status as of now: a lock expires by the owner's last heartbeat, independent of the
/// clock.
pub(super) fn check_expired(
    core: &Core,
    primary: &[u8],
    start: Timestamp,
    roll_back_if_missing: bool,
) -> Result<TransactionStatus> {
    let check = StatusCheck {
        roll_back_if_missing,
        ..StatusCheck::of(primary, start)
    };
    let checked = check_if(core, &check, |active| core.locks.is_expired(active))?;
    // Only checks for a pessimistic lock leave it open.
    Ok(checked.status.unwrap_or(TransactionStatus::RolledBack))
}

fn check_if(
    core: &Core,
    check: &StatusCheck<'_>,
    expired: impl Fn(&ActiveLock) -> bool,
) -> Result<CheckedStatus> {
    let StatusCheck {
        primary,
        start,
        reader,
        ..
    } = *check;
    let latches = core.latches.take(std::iter::once(primary));
    let Some(active) = core.locks.owned_by(primary, start) else {
        return check_missing(core, check);
    };
    let lock = &active.lock;
    if lock.primary != primary {
        if !check.verify_is_primary {
            drop(latches);
            let check = StatusCheck {
                primary: &lock.primary,
                verify_is_primary: true,
                ..*check
            };
            return check_if(core, &check, expired);
        }
        if lock.is_prewritten() || check.for_pessimistic {
            return Err(Error::PrimaryMismatch {
                key: Bytes::copy_from_slice(primary),
                lock: Box::new(lock.info(primary)),
            });
        }
        // The caller has met a prewritten lock with this primary key, so a late copy of a request
        // took the pessimistic one. A rollback ends it too.
        return check_missing(core, check);
    }
    if !lock.is_async() && expired(&active) {
        if check.for_pessimistic && !lock.is_prewritten() {
            release_latched(core, &[primary], start, |_| true)?;
            return answer(None, StatusAction::ExpiredUnlocked);
        }
        roll_back_latched(core, &[primary], start, true)?;
        let rolled_back = Some(TransactionStatus::RolledBack);
        return answer(rolled_back, StatusAction::ExpiredRolledBack);
    }
    // A reader at the last timestamp wants all that is committed, and pushes nothing.
    let is_last = reader == Timestamp::MAX;
    let is_pushed = !is_last && core.locks.push(primary, start, reader) == Push::Done;
    let ignores_it = is_pushed && reader != Timestamp::ZERO || is_last && !lock.is_async();
    let action = match ignores_it {
        true => StatusAction::Pushed,
        false => StatusAction::Nothing,
    };
    let now = core.locks.owned_by(primary, start).unwrap_or(active);
    let lock = Box::new(now.lock.info(primary));
    answer(Some(TransactionStatus::Running { lock, is_pushed }), action)
}

fn answer(status: Option<TransactionStatus>, action: StatusAction) -> Result<CheckedStatus> {
    Ok(CheckedStatus { status, action })
}

/// Checks the status of a transaction that has no lock on its primary key, or one that counts as
/// none. The caller has taken the latch of the key.
fn check_missing(core: &Core, check: &StatusCheck<'_>) -> Result<CheckedStatus> {
    let (primary, start) = (check.primary, check.start);
    let rolled_back = Some(TransactionStatus::RolledBack);
    match outcome(&core.versions, primary, start)? {
        Outcome::Committed(at) => {
            let committed = TransactionStatus::Committed(at);
            answer(Some(committed), StatusAction::Nothing)
        }
        Outcome::RolledBack => answer(rolled_back, StatusAction::Nothing),
        Outcome::Unknown if check.roll_back_if_missing && check.for_pessimistic => {
            answer(None, StatusAction::MissingLeft)
        }
        Outcome::Unknown if check.roll_back_if_missing => {
            roll_back_latched(core, &[primary], start, true)?;
            answer(rolled_back, StatusAction::MissingRolledBack)
        }
        Outcome::Unknown => Err(Error::TransactionNotFound {
            primary: Bytes::copy_from_slice(primary),
            start,
        }),
    }
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
    if !mutant!(heartbeat_is_not_in_memory) {
        core.locks.renew(primary, start, ttl);
    }
    Ok(ttl)
}
