//! Ending the locks of a transaction whose status is final.

use bytes::Bytes;
use titan::invariant;

use super::commit::commit_locked;
use super::rollback::roll_back;
use crate::core::Core;
use crate::error::Result;
use crate::format::lock::Lock;
use crate::timestamp::Timestamp;

/// The most keys of a batch.
const MOST_KEYS: usize = 256;

/// Ends the locks of a transaction on these keys: commits them at `commit`, or rolls them back if
/// it is `None`. The primary key implies the result, so the writes need no sync. Batches have about
/// [`one_batch_bytes`](crate::TransactionOptions::one_batch_bytes). Returns the number of locks.
///
/// # Errors
/// Those of [`commit_locked`] and [`roll_back`].
pub(crate) fn end_locks(
    core: &Core,
    keys: &[&[u8]],
    start: Timestamp,
    commit: Option<Timestamp>,
) -> Result<usize> {
    invariant!(
        keys.is_empty() || commit.is_none_or(|commit| start < commit),
        "locks of {start} are ended at {commit:?}"
    );
    let is_locked = |key: &&[u8]| core.locks.owned_by(key, start).is_some();
    let locked: Vec<&[u8]> = keys.iter().copied().filter(is_locked).collect();
    let mut left = &locked[..];
    while !left.is_empty() {
        let (piece, rest) = left.split_at(piece_len(core, left, commit.is_some())?);
        left = rest;
        match commit {
            Some(commit) => commit_locked(core, piece, start, commit)?,
            None => roll_back(core, piece, start, false)?,
        }
    }
    Ok(locked.len())
}

/// The number of keys for the next batch, at least one. Cost: a lookup of each value, which reads
/// no blob file.
fn piece_len(core: &Core, keys: &[&[u8]], with_values: bool) -> Result<usize> {
    let mut size = 0;
    for (len, key) in keys.iter().enumerate().take(MOST_KEYS) {
        let value = match with_values {
            true => core
                .locks
                .prewritten_value(key)?
                .map_or(0, |value| value.stored_len()),
            false => 0,
        };
        size += key.len() as u64 + value;
        if len > 0 && size > core.config.transactions.one_batch_bytes as u64 {
            return Ok(len);
        }
    }
    Ok(keys.len().min(MOST_KEYS))
}

/// The keys of all locks of the transaction that have the same primary key as `lock`.
pub(super) fn keys_with_primary(core: &Core, lock: &Lock) -> Vec<Bytes> {
    let is_like = |other: &Lock| other.primary == lock.primary;
    core.locks.keys_of(lock.start, is_like)
}

/// Ends all locks of a transaction that have the same primary key as `lock`. Goes on after a lock
/// that cannot be ended.
///
/// # Errors
/// Those of the engine, and `Corruption`: the first one.
pub(super) fn end_transaction(core: &Core, lock: &Lock, commit: Option<Timestamp>) -> Result<()> {
    let keys = keys_with_primary(core, lock);
    let keys: Vec<&[u8]> = keys.iter().map(|key| &**key).collect();
    match end_locks(core, &keys, lock.start, commit) {
        Ok(_) => Ok(()),
        // Perhaps only one value is damaged.
        Err(e) if e.is_corruption() => {
            let each = keys.iter().map(|key| end_lock(core, key, lock, commit));
            each.fold(Ok(()), Result::and)
        }
        Err(e) => Err(e),
    }
}

/// Ends the same locks for a caller that waits for `key`. Succeeds if the lock of that key has
/// ended.
pub(super) fn end_for_waiter(
    core: &Core,
    key: &[u8],
    lock: &Lock,
    commit: Option<Timestamp>,
) -> Result<()> {
    let ended = end_transaction(core, lock, commit);
    match core.locks.owned_by(key, lock.start) {
        None => Ok(()),
        Some(_) => ended,
    }
}

/// Ends one lock of a transaction.
pub(super) fn end_lock(
    core: &Core,
    key: &[u8],
    lock: &Lock,
    commit: Option<Timestamp>,
) -> Result<()> {
    end_locks(core, &[key], lock.start, commit)?;
    Ok(())
}
