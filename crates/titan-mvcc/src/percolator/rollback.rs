//! Rollbacks and their records.
//!
//! A record is a version of the kind rollback at the transaction's start timestamp. A late prewrite
//! finds it and fails. A new record replaces the one before it on the same key, so that records do
//! not add up: a late prewrite of the older transaction finds the newer record, which conflicts.
//! *Protected* records stay, because they decide on a transaction: those of primary keys, and those
//! that a status check wrote for a transaction without a trace. Those of pessimistic transactions,
//! which ignore newer versions, must also stay.
//!
//! A record differs from every other version of the key in its timestamp or its kind. So it
//! replaces no other version, and no other version replaces it.

use bytes::Bytes;
use titan::WriteBatch;

use crate::core::Core;
use crate::error::{Error, Result};
use crate::format::lock::Lock;
use crate::format::version::{newest_at, split};
use crate::format::{Kind, Version, encode_key};
use crate::lookup::{Outcome, outcome};
use crate::timestamp::Timestamp;

/// The most locks that one batch removes.
pub(super) const RELEASED_AT_ONCE: usize = 256;
/// The value of a protected record; others are empty.
const PROTECTED: &[u8] = b"p";

/// Rolls a transaction back on keys.
///
/// # Errors
/// See [`Percolator::batch_rollback`](super::Percolator::batch_rollback).
pub(super) fn roll_back(
    core: &Core,
    keys: &[&[u8]],
    start: Timestamp,
    protect: bool,
) -> Result<()> {
    core.order.check_handed_out(start)?;
    let _latches = core.latches.take(keys.iter().copied());
    roll_back_latched(core, keys, start, protect)
}

/// Rolls a transaction back. The caller has taken the latches of the keys.
pub(super) fn roll_back_latched(
    core: &Core,
    keys: &[&[u8]],
    start: Timestamp,
    protect: bool,
) -> Result<()> {
    let mut batch = WriteBatch::new();
    let mut own = Vec::new();
    for key in keys {
        let active = core.locks.owned_by(key, start);
        let protect = protect
            || active
                .as_ref()
                .is_some_and(|active| decides(key, &active.lock));
        match active {
            Some(active) => {
                core.locks.batch_delete(&mut batch, key, &active.lock)?;
                own.push(*key);
            }
            None => match outcome(&core.versions, key, start)? {
                Outcome::Unknown => {}
                Outcome::RolledBack => continue,
                Outcome::Committed(committed) => {
                    return Err(Error::AlreadyCommitted {
                        key: Bytes::copy_from_slice(key),
                        start,
                        committed,
                    });
                }
            },
        }
        write_record(core, &mut batch, key, start, protect)?;
    }
    if batch.is_empty() {
        return Ok(());
    }
    core.db.write(batch, &core.config.write)?;
    // ORDER: after the records are published.
    core.locks.remove(own.into_iter());
    Ok(())
}

/// Releases locks of a transaction that has ended without a commit. The caller is its owner and
/// makes no late call, so no record is needed. Skips keys that the transaction has not locked.
fn release_batch(core: &Core, keys: &[&[u8]], start: Timestamp) -> Result<()> {
    let _latches = core.latches.take(keys.iter().copied());
    release_latched(core, keys, start, |_| true)
}

/// Releases any number of locks, in batches.
pub(crate) fn release_locks(core: &Core, keys: &[&[u8]], start: Timestamp) -> Result<()> {
    for piece in keys.chunks(RELEASED_AT_ONCE) {
        release_batch(core, piece, start)?;
    }
    Ok(())
}

/// Releases the `wanted` locks of a transaction without records. The caller has taken the latches.
pub(super) fn release_latched(
    core: &Core,
    keys: &[&[u8]],
    start: Timestamp,
    wanted: impl Fn(&Lock) -> bool,
) -> Result<()> {
    let mut batch = WriteBatch::new();
    let mut removed = Vec::new();
    for key in keys {
        if let Some(active) = core.locks.owned_by(key, start)
            && wanted(&active.lock)
        {
            core.locks.batch_delete(&mut batch, key, &active.lock)?;
            removed.push(*key);
        }
    }
    if !removed.is_empty() {
        core.db.write(batch, &core.config.unsynced)?;
        core.locks.remove(removed.into_iter());
    }
    Ok(())
}

/// See [`Percolator::cleanup`](super::Percolator::cleanup).
pub(super) fn cleanup(core: &Core, key: &[u8], start: Timestamp, now: Timestamp) -> Result<()> {
    core.order.check_handed_out(start)?;
    let _latches = core.latches.take(std::iter::once(key));
    if let Some(active) = core.locks.owned_by(key, start)
        && !has_expired(&active.lock, now)
    {
        return Err(active.key_is_locked(key));
    }
    roll_back_latched(core, &[key], start, true)
}

/// Returns true if a lock has expired at a timestamp. Its time to live counts from the start
/// timestamp.
pub(super) fn has_expired(lock: &Lock, now: Timestamp) -> bool {
    now == Timestamp::MAX || lock.start.unix_time().saturating_add(lock.ttl) < now.unix_time()
}

/// Returns true if the rollback record of a lock must be protected: for the primary key of a
/// pessimistic transaction.
fn decides(key: &[u8], lock: &Lock) -> bool {
    lock.for_update != Timestamp::ZERO && lock.primary == key
}

fn write_record(
    core: &Core,
    batch: &mut WriteBatch,
    key: &[u8],
    start: Timestamp,
    protect: bool,
) -> Result<()> {
    if start <= core.safe_point.get() {
        // Late calls are refused, and a compaction would drop the record.
        return Ok(());
    }
    let mut encoded = encode_key(key);
    let from = newest_at(&encoded, start);
    if let Some((before, value)) = core.versions.first_in_prefix(&from, &encoded)?
        && split(&before)?.1.kind == Kind::Rollback
    {
        let is_protected = *value.fetch()? == *PROTECTED && !mutant!(protected_rollback_replaced);
        if !is_protected {
            batch.delete(&core.versions, before)?;
        }
    }
    let record = Version {
        commit: start,
        start,
        kind: Kind::Rollback,
    };
    let value = match protect {
        true => PROTECTED,
        false => b"",
    };
    record.put_after(&mut encoded);
    batch.put(&core.versions, encoded, value)?;
    Ok(())
}
