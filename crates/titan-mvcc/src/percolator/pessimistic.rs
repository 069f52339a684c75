//! Pessimistic locks, which protect keys before their writes are known.
//!
//! They are not synced. If a power failure removes one, its transaction may still commit, unless
//! the prewrite finds that the key was written.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use titan::{WriteBatch, WriteOptions};

use super::demands::present_value;
use super::resolve_for_write::wait_for_locks;
use super::rollback::{RELEASED_AT_ONCE, release_latched};
use crate::core::Core;
use crate::error::{Error, Result};
use crate::format::lock::{Lock, Owner};
use crate::lock_info::LockKind;
use crate::lookup::{Outcome, newest_version, newest_write, outcome};
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

/// Demands of a request for pessimistic locks beyond locks without conflicts. The default has none.
#[derive(Clone, Copy, Debug, Default)]
pub struct LockDemands<'a> {
    /// Keys of the request that must have no value.
    pub absent: &'a [&'a [u8]],
    /// Locks only the keys that have a value.
    pub only_existing: bool,
    /// Looks whether the keys have values.
    pub existence: bool,
    /// Locks keys that conflict too, with the conflicting commit as their timestamp for update.
    pub despite_conflicts: bool,
    /// The room of the caller's answer. `None`: no limit.
    pub room: Option<AnswerRoom<'a>>,
}

/// The room that an answer has for the states of keys. It is asked with each state before a lock is
/// taken; `false` refuses the request. It is asked while the keys are latched, so it must not call
/// the store.
#[derive(Clone, Copy)]
pub struct AnswerRoom<'a>(pub &'a dyn Fn(&LockedKey) -> bool);

impl fmt::Debug for AnswerRoom<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AnswerRoom")
    }
}

/// The state of a key of a request for pessimistic locks.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockedKey {
    /// The present value, if the request asks for values, or the key was locked after a conflict:
    /// its owner has read an older one.
    pub value: Option<Bytes>,
    /// True if the key has a value; `None` if the request asks neither for values nor for
    /// existence, and there was no conflict.
    pub exists: Option<bool>,
    /// False for a key without a value that a request for existing ones left alone.
    pub is_locked: bool,
    /// The commit timestamp of a conflict, after which the key was locked.
    pub conflict: Option<Timestamp>,
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
    demands: &LockDemands<'_>,
    owner: Owner,
) -> Result<Vec<LockedKey>> {
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
        if let Some(locked) = try_lock(core, keys, request, demands, owner)? {
            return Ok(locked);
        }
        let keys = keys.iter().copied();
        if let Some((key, active)) = wait_for_locks(core, keys, Some(request.start), deadline)? {
            return Err(active.key_is_locked(key));
        }
    }
}

/// A key that the transaction may lock.
struct Lockable<'a> {
    key: &'a [u8],
    /// The commit timestamp of a conflict, after which it is locked.
    conflict: Option<Timestamp>,
    /// True if its lock is to be written.
    is_new: bool,
}

/// Locks the keys and returns their states, or `None` if another transaction has locked one.
fn try_lock(
    core: &Core,
    keys: &[&[u8]],
    request: &PessimisticLock<'_>,
    demands: &LockDemands<'_>,
    owner: Owner,
) -> Result<Option<Vec<LockedKey>>> {
    let start = request.start;
    let _latches = core.latches.take(keys.iter().copied());
    gate!("lock: to be checked");
    let mut found = Vec::with_capacity(keys.len());
    for key in keys {
        let (conflict, is_new) = match core.locks.get(key) {
            Some(active) if active.lock.start != start => return Ok(None),
            Some(active) if active.lock.is_prewritten() => {
                return Err(Error::PrewrittenAlready {
                    key: Bytes::copy_from_slice(key),
                    start,
                });
            }
            Some(active) if active.lock.for_update >= request.for_update => {
                let later = active.lock.for_update;
                let is_forced = demands.despite_conflicts && later > request.for_update;
                (is_forced.then_some(later), false)
            }
            Some(_) => (None, true),
            None => match check(core, key, request) {
                Err(Error::Conflict { committed, .. }) if demands.despite_conflicts => {
                    (Some(committed), true)
                }
                checked => checked.map(|()| (None, true))?,
            },
        };
        found.push(Lockable {
            key,
            conflict,
            is_new,
        });
    }
    // After the checks, which searched for versions that must not have been dropped.
    core.safe_point.check(request.since)?;
    // Before the locks are written, so that an unreadable or large value leaves none.
    let states = found.iter().map(|lockable| {
        let state = state(core, lockable, request, demands)?;
        match demands.room {
            Some(AnswerRoom(has_room)) if !has_room(&state) => Err(Error::NotAdmitted {
                key: Bytes::copy_from_slice(lockable.key),
            }),
            _ => Ok(state),
        }
    });
    let states: Vec<LockedKey> = states.collect::<Result<_>>()?;
    let primary = Bytes::copy_from_slice(request.primary);
    let mut batch = WriteBatch::new();
    let mut locks = Vec::with_capacity(found.len());
    for (lockable, state) in found.iter().zip(&states) {
        if !lockable.is_new || !state.is_locked {
            continue;
        }
        let for_update = lockable
            .conflict
            .unwrap_or_default()
            .max(request.for_update);
        let lock = Lock {
            kind: LockKind::Pessimistic,
            owner,
            primary: primary.clone(),
            start,
            for_update,
            min_commit: for_update.next().unwrap_or(for_update),
            ttl: request.ttl,
            txn_size: 0,
            secondaries: None,
        };
        core.locks
            .batch_put(&mut batch, lockable.key, &lock, None)?;
        locks.push((Bytes::copy_from_slice(lockable.key), lock));
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
    Ok(Some(states))
}

/// The state of a key. The caller has taken its latch.
///
/// # Errors
/// `AlreadyExists`; those of the engine.
fn state(
    core: &Core,
    lockable: &Lockable<'_>,
    request: &PessimisticLock<'_>,
    demands: &LockDemands<'_>,
) -> Result<LockedKey> {
    let key = lockable.key;
    let is_absent = demands.absent.contains(&key);
    let mut state = LockedKey {
        value: None,
        exists: None,
        is_locked: true,
        conflict: lockable.conflict,
    };
    let returns_value = request.return_values || lockable.conflict.is_some();
    if !returns_value && !demands.existence && !demands.only_existing && !is_absent {
        return Ok(state);
    }
    let value = present_value(core, key)?;
    if is_absent && value.is_some() {
        let key = Bytes::copy_from_slice(key);
        return Err(Error::AlreadyExists { key });
    }
    state.exists = Some(value.is_some());
    state.is_locked = value.is_some() || !demands.only_existing;
    if returns_value {
        state.value = value.map(|value| value.fetch()).transpose()?;
    }
    Ok(state)
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
            other: newest.start,
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
    release_latched(core, keys, start, |lock| is_released(lock, for_update))
}

/// See [`Percolator::pessimistic_rollback_range`](super::Percolator::pessimistic_rollback_range).
pub(super) fn pessimistic_rollback_range(
    core: &Core,
    start: Timestamp,
    for_update: Timestamp,
    from: &[u8],
    to: Option<&[u8]>,
) -> Result<()> {
    let found = core
        .locks
        .keys_of(start, |lock| is_released(lock, for_update));
    let is_within = |key: &&[u8]| *key >= from && to.is_none_or(|to| *key < to);
    let keys: Vec<&[u8]> = found.iter().map(|key| &**key).filter(is_within).collect();
    let mut pieces = keys.chunks(RELEASED_AT_ONCE);
    pieces.try_for_each(|piece| pessimistic_rollback(core, piece, start, for_update))
}

/// Returns true for a lock that a rollback at `for_update` releases.
fn is_released(lock: &Lock, for_update: Timestamp) -> bool {
    let is_older = lock.for_update <= for_update || mutant!(later_locks_released);
    !lock.is_prewritten() && is_older
}
