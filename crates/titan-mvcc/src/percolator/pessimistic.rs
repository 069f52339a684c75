//! Pessimistic locks: they keep other transactions from a key before it is known what will be written.
//!
//! They are not synced. If a power failure takes one away, its transaction may still commit unless the key was
//! written meanwhile, which the prewrite checks.

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

/// What [`Percolator::pessimistic_lock`](super::Percolator::pessimistic_lock) is asked for.
#[derive(Clone, Copy, Debug)]
pub struct PessimisticLock<'a> {
    /// The key that will decide on the transaction. It must be locked by this call or another.
    pub primary: &'a [u8],
    /// When the transaction began. This names it.
    pub start: Timestamp,
    /// A timestamp of the present, not before the start.
    pub for_update: Timestamp,
    /// What was committed after this timestamp is a conflict. The timestamp for update, but for transactions
    /// that write only what they could read at an earlier timestamp. Not after that for update.
    pub since: Timestamp,
    /// Others may roll the transaction back when this time has passed without a sign of life.
    pub ttl: Duration,
    /// What to do if another transaction has a lock.
    pub wait: Wait,
    /// Whether the values of the keys are wanted.
    pub return_values: bool,
}

/// What to do about a lock of another transaction that is alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Fail.
    No,
    /// Wait for so long at most.
    For(Duration),
}

impl Wait {
    pub(crate) fn duration(self) -> Duration {
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
            "conflicts since {} are after the timestamp for update, {}",
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
            return Err(active.lock.key_is_locked(key));
        }
    }
}

/// Locks the keys, and returns their values; none if another transaction has a lock of one.
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
    // After the checks: what they must find had not been dropped then.
    core.safe_point.check(request.since)?;
    // Before the locks are written: a value that cannot be read leaves none.
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

/// Whether a transaction may lock a key that nobody has locked.
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
    // MUTANT: a pessimistic lock is given whatever was committed since the transaction's read.
    if newest.commit > request.since
        && !mutant!(
            "pessimistic-lock-unchecked",
            "-p titan-mvcc --test it pessimistic::"
        )
    {
        return Err(Error::Conflict {
            key: key(),
            start: request.since,
            committed: newest.commit,
        });
    }
    Ok(())
}

/// See [`Percolator::pessimistic_rollback`](super::Percolator::pessimistic_rollback).
pub(crate) fn pessimistic_rollback(
    core: &Core,
    keys: &[&[u8]],
    start: Timestamp,
    for_update: Timestamp,
) -> Result<()> {
    let _latches = core.latches.take(keys.iter().copied());
    release_latched(core, keys, start, |lock| {
        !lock.is_prewritten() && lock.for_update <= for_update
    })
}
