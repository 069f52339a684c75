//! Pessimistic locks, which protect keys before their writes are known.
//!
//! They are not synced. If a power failure removes one, its transaction may still commit, unless
//! the prewrite finds that the key was written.

use std::time::Duration;

use bytes::Bytes;
use titan::{WriteBatch, WriteOptions};

use super::resolve_for_write::wait_for_locks;
use super::rollback::release_latched;
use crate::core::Core;
use crate::error::{Error, Result};
use crate::format::lock::{Lock, Owner};
use crate::lock_info::LockKind;
use crate::lookup::{Outcome, ReadStats, newest_version, newest_write, outcome, value_at};
use crate::timestamp::Timestamp;

/// A request for pessimistic locks.
#[derive(Clone, Copy, Debug)]
pub struct PessimisticLock<'a> {
    /// The primary key. This call or another one must lock it.
    pub primary: &'a [u8],
    /// The start timestamp, which identifies the transaction.
    pub start: Timestamp,
    /// A timestamp of the present, not before the start.
    pub for_update: Timestamp,
    /// Versions after this timestamp conflict. Usually the timestamp for update; earlier for
    /// transactions that write only keys as they read them. Not after the timestamp for update.
    pub since: Timestamp,
    /// Time to live of the locks after the owner's last heartbeat.
    pub ttl: Duration,
    /// The reaction to a lock of a running transaction.
    pub wait: Wait,
    /// Returns the values of the keys.
    pub return_values: bool,
}

/// The reaction to a lock of a running transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Fails at once.
    No,
    /// Waits at most this time.
    For(Duration),
}

impl Wait {
    fn duration(self) -> Duration {
        match self {
            Wait::No => Duration::ZERO,
            Wait::For(time) => time,
        }
    }
}

pub(crate) fn pessimistic_lock(
    core: &Core,
    keys: &[&[u8]],
    request: &PessimisticLock<'_>,
    owner: Owner,
) -> Result<Vec<Option<Bytes>>> {
    core.order
        .check_handed_out(request.for_update.max(request.start))?;
    if request.since > request.for_update {
        let what = format!(
            "since, {}, is after the timestamp for update, {}",
            request.since, request.for_update
        );
        return Err(titan::Error::invalid_argument(what).into());
    }
    let deadline = core
        .clock
        .monotonic()
        .saturating_add(request.wait.duration());
    loop {
        if let Some(values) = try_lock(core, keys, request, owner)? {
            return Ok(values);
        }
        let keys = keys.iter().copied();
        if let Some((key, active)) = wait_for_locks(core, keys, Some(request.start), deadline)? {
            return Err(active.key_is_locked(key));
        }
    }
}

/// Locks the keys and returns their values, or `None` if another transaction has locked one.
fn try_lock(
    core: &Core,
    keys: &[&[u8]],
    request: &PessimisticLock<'_>,
    owner: Owner,
) -> Result<Option<Vec<Option<Bytes>>>> {
    let start = request.start;
    let _latches = core.latches.take(keys.iter().copied());
    let mut to_lock: Vec<&[u8]> = Vec::with_capacity(keys.len());
    for key in keys {
        match core.locks.get(key) {
            Some(active) if active.lock.start != start => return Ok(None),
            Some(active) if active.lock.is_prewritten() => {
                return Err(Error::PrewrittenAlready {
                    key: Bytes::copy_from_slice(key),
                    start,
                });
            }
            Some(active) if active.lock.for_update >= request.for_update => {}
            Some(_) => to_lock.push(key),
            None => {
                check(core, key, request)?;
                to_lock.push(key);
            }
        }
    }
    // After the checks, which searched for versions that must not have been dropped.
    core.safe_point.check(request.since)?;
    // Before the locks are written, so that an unreadable value leaves none.
    let value = |key: &&[u8]| -> Result<Option<Bytes>> {
        if !request.return_values {
            return Ok(None);
        }
        let value = value_at(
            &core.versions,
            key,
            Timestamp::MAX,
            &mut ReadStats::default(),
        )?;
        Ok(value.map(|value| value.fetch()).transpose()?)
    };
    let values = keys.iter().map(value).collect::<Result<_>>()?;
    let primary = Bytes::copy_from_slice(request.primary);
    let mut batch = WriteBatch::new();
    let mut locks = Vec::with_capacity(to_lock.len());
    for key in to_lock {
        let lock = Lock {
            kind: LockKind::Pessimistic,
            owner,
            primary: primary.clone(),
            start,
            for_update: request.for_update,
            min_commit: request.for_update.next().unwrap_or(request.for_update),
            ttl: request.ttl,
            txn_size: 0,
            secondaries: None,
        };
        core.locks.batch_put(&mut batch, key, &lock, None)?;
        locks.push((Bytes::copy_from_slice(key), lock));
    }
    if !locks.is_empty() {
        let inserted = core.locks.insert_all(locks)?;
        let write = WriteOptions {
            no_slowdown: core.config.write.no_slowdown,
            ..core.config.unsynced
        };
        core.db.write(batch, &write)?;
        inserted.keep();
    }
    Ok(Some(values))
}

/// Checks that the transaction may lock a key without a lock.
fn check(core: &Core, key: &[u8], request: &PessimisticLock<'_>) -> Result<()> {
    let start = request.start;
    let Some(newest) = newest_version(&core.versions, key)? else {
        return Ok(());
    };
    let key = || Bytes::copy_from_slice(key);
    if newest.commit >= start {
        match outcome(&core.versions, &key(), start)? {
            Outcome::Unknown => {}
            Outcome::RolledBack => return Err(Error::RolledBack { key: key(), start }),
            Outcome::Committed(committed) => {
                return Err(Error::AlreadyCommitted {
                    key: key(),
                    start,
                    committed,
                });
            }
        }
    }
    let Some(newest) = newest_write(&core.versions, &key())? else {
        return Ok(());
    };
    if newest.commit > request.since && !mutant!(pessimistic_lock_unchecked) {
        return Err(Error::Conflict {
            key: key(),
            start: request.since,
            committed: newest.commit,
        });
    }
    Ok(())
}

/// See [`Percolator::pessimistic_rollback`](super::Percolator::pessimistic_rollback).
pub(super) fn pessimistic_rollback(
    core: &Core,
    keys: &[&[u8]],
    start: Timestamp,
    for_update: Timestamp,
) -> Result<()> {
    let _latches = core.latches.take(keys.iter().copied());
    release_latched(core, keys, start, |lock| {
        let is_older = lock.for_update <= for_update || mutant!(later_locks_released);
        !lock.is_prewritten() && is_older
    })
}
