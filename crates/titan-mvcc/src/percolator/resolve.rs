//! Ending the locks of a transaction whose end is known.

use super::commit::commit_locked;
use super::rollback::roll_back;
use crate::error::Result;
use crate::store::Core;
use crate::timestamp::Timestamp;

/// How many keys are ended in one batch at most.
const MOST_KEYS: usize = 256;

/// Ends those locks of a transaction that are on these keys: commits them at `commit`, or rolls them back if there
/// is none. What it writes follows from what the primary key says, so it need not be synced. Its batches have about
/// [`one_batch_bytes`](crate::TransactionOptions::one_batch_bytes). Returns how many locks there were.
///
/// # Errors
/// Those of [`commit_locked`] and [`roll_back`].
pub(crate) fn resolve(
    core: &Core,
    keys: &[&[u8]],
    start: Timestamp,
    commit: Option<Timestamp>,
) -> Result<usize> {
    let is_locked = |key: &&[u8]| core.locks.of(key, start).is_some();
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

/// How many of the keys are ended in one batch: one at least. Cost: a lookup of each value that is to be written, which
/// reads none from a blob file.
fn piece_len(core: &Core, keys: &[&[u8]], with_values: bool) -> Result<usize> {
    let mut size = 0;
    for (len, key) in keys.iter().enumerate().take(MOST_KEYS) {
        let value = match with_values {
            true => core.locks.value(key)?.map_or(0, |value| value.stored_len()),
            false => 0,
        };
        size += key.len() as u64 + value;
        if len > 0 && size > core.transactions.one_batch_bytes as u64 {
            return Ok(len);
        }
    }
    Ok(keys.len().min(MOST_KEYS))
}
