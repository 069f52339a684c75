//! Commits in one batch of the engine.

use bytes::Bytes;
use titan::{WriteBatch, invariant};

use super::writes::Writes;
use crate::core::Core;
use crate::error::{Error, Result};
use crate::format::{Kind, LastChange, LockValue, Version, encode_key_to};
use crate::locks::Taken;
use crate::lookup::{last_change, newest_write};
use crate::percolator::{Mutation, wait_for_locks};
use crate::timestamp::Timestamp;

/// Bytes of an entry in a batch, besides its key and value: a little more than most entries need.
const MOST_BESIDE: usize = 48;

/// Commits an optimistic transaction, which began at `start`.
///
/// # Errors
/// See [`Transaction::commit`](super::Transaction::commit).
pub(super) fn commit(core: &Core, writes: &Writes, start: Timestamp) -> Result<Timestamp> {
    let mut deadline = None;
    loop {
        let mut latches = core.latches.take_hashed(writes.hashes());
        if has_locked(core, writes) {
            drop(latches);
            let deadline = *deadline.get_or_insert_with(|| {
                let now = core.clock.monotonic();
                now.saturating_add(core.config.transactions.lock_wait)
            });
            match wait_for_locks(core, writes.keys(), None, deadline)? {
                None => continue,
                Some((key, active)) => {
                    return Err(active.key_is_locked(key));
                }
            }
        }
        check_conflicts(core, &latches, writes, start)?;
        let below_locks = below_locks(core, writes);
        // ORDER: under the latches, so that versions of a key are written in the order of their
        // timestamps; after the check, so that a commit with a conflict takes no timestamp.
        let in_flight = core.order.begin()?;
        gate!("commit: has its timestamp");
        let batch = batch(core, writes, below_locks, start, in_flight.timestamp())?;
        latches.note(in_flight.timestamp());
        core.db.write(batch, &core.config.write)?;
        // ORDER: after the engine has published the versions, so that the next commit finds them.
        drop(latches);
        return Ok(in_flight.published());
    }
}

/// Commits a pessimistic transaction, which has locked all its keys.
///
/// # Errors
/// See [`PessimisticTransaction::commit`](super::PessimisticTransaction::commit).
pub(super) fn commit_locked(core: &Core, writes: &Writes, start: Timestamp) -> Result<Timestamp> {
    let mut latches = core.latches.take_hashed(writes.hashes());
    let mut active = Vec::with_capacity(writes.len());
    for key in writes.keys() {
        let lock = core.locks.owned_by(key, start);
        if lock.is_none() && mutant!(commit_without_lost_locks) {
            continue;
        }
        let lock = lock.ok_or_else(|| lost(key, start))?;
        active.push((key, lock.lock));
    }
    let below_locks = below_locks(core, writes);
    let in_flight = core.order.begin()?;
    let mut batch = batch(core, writes, below_locks, start, in_flight.timestamp())?;
    for (key, lock) in &active {
        core.locks.batch_delete(&mut batch, key, lock)?;
    }
    latches.note(in_flight.timestamp());
    core.db.write(batch, &core.config.write)?;
    core.locks.remove(writes.keys());
    drop(latches);
    Ok(in_flight.published())
}

/// The error for a pessimistic transaction that has lost a lock.
fn lost(key: &[u8], start: Timestamp) -> Error {
    Error::PessimisticLockNotFound {
        key: Bytes::copy_from_slice(key),
        start,
    }
}

/// Returns true if one of the keys is locked.
fn has_locked(core: &Core, writes: &Writes) -> bool {
    !core.locks.is_empty()
        && !mutant!(one_batch_over_locks)
        && writes.keys().any(|key| core.locks.get(key).is_some())
}

fn check_conflicts(
    core: &Core,
    latches: &Taken<'_>,
    writes: &Writes,
    start: Timestamp,
) -> Result<()> {
    if latches.newest_of_all() <= start {
        return Ok(());
    }
    for (key, hash) in writes.keys().zip(writes.hashes()) {
        if latches.newest(hash) <= start {
            continue;
        }
        if let Some(newest) = newest_write(&core.versions, key)?
            && newest.commit > start
        {
            return Err(Error::Conflict {
                key: Bytes::copy_from_slice(key),
                start,
                committed: newest.commit,
                other: newest.start,
            });
        }
    }
    Ok(())
}

/// The keys of writes that only lock, in order, with their last changes. The caller has taken the
/// latches. Cost: a point read for each of them.
fn below_locks<'w>(core: &Core, writes: &'w Writes) -> Vec<(&'w [u8], LastChange)> {
    let locked = writes.iter().filter_map(|write| match write {
        Mutation::Lock { key } => Some(key),
        Mutation::Put { .. } | Mutation::Delete { .. } => None,
    });
    let with_last = |key| (key, last_change(&core.versions, key));
    locked.map(with_last).collect()
}

fn batch(
    core: &Core,
    writes: &Writes,
    below_locks: Vec<(&[u8], LastChange)>,
    start: Timestamp,
    commit: Timestamp,
) -> Result<WriteBatch> {
    invariant!(durable: start < commit, "{start} commits at {commit}")?;
    let keys: usize = writes.keys().map(<[u8]>::len).sum();
    let room = keys + writes.size() + writes.len() * MOST_BESIDE;
    let mut batch = WriteBatch::with_capacity(room);
    batch.set_ticket(commit.0);
    let mut engine_key = Vec::new();
    let mut below_locks = below_locks.into_iter();
    for write in writes.iter() {
        let lock_value;
        let (kind, value) = match write {
            Mutation::Put { value, .. } => (Kind::Put, value),
            Mutation::Delete { .. } => (Kind::Delete, &b""[..]),
            Mutation::Lock { key } => {
                let below = below_locks.next().filter(|(locked, _)| *locked == key);
                let value = LockValue {
                    last_change: below.map_or(LastChange::Unknown, |(_, last)| last),
                    // All locks of the transaction end with this batch.
                    is_replaceable: true,
                };
                lock_value = value.encode(commit);
                (Kind::Lock, &lock_value[..])
            }
        };
        let version = Version {
            commit,
            start,
            kind,
        };
        engine_key.clear();
        encode_key_to(&mut engine_key, write.key());
        version.put_after(&mut engine_key);
        batch.put(&core.versions, &engine_key, value)?;
    }
    let left = below_locks.count();
    invariant!(left == 0, "{left} locks lost their last change");
    Ok(batch)
}
