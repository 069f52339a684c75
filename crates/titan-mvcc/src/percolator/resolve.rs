//! Ending the locks of a transaction whose end is known.

use super::commit::commit_at;
use super::rollback::roll_back;
use crate::error::Result;
use crate::store::Core;
use crate::timestamp::Timestamp;

/// How many keys are ended in one batch.
const PIECE: usize = 256;

/// All keys of which a transaction has locks. Cost: a look at all locks.
pub(super) fn keys_of(core: &Core, start: Timestamp) -> Vec<bytes::Bytes> {
    let locks = core.locks.list(b"", usize::MAX, |lock| lock.start == start);
    locks.into_iter().map(|(key, _)| key.into()).collect()
}

/// Ends those locks of a transaction that are on these keys: commits them at `commit`, or rolls them back if there
/// is none. What it writes follows from what the primary key says, so it need not be synced. Returns how many there
/// were.
///
/// # Errors
/// Those of [`commit_at`] and [`roll_back`].
pub(crate) fn resolve(
    core: &Core,
    keys: &[&[u8]],
    start: Timestamp,
    commit: Option<Timestamp>,
) -> Result<usize> {
    let is_locked = |key: &&[u8]| core.locks.of(key, start).is_some();
    let locked: Vec<&[u8]> = keys.iter().copied().filter(is_locked).collect();
    for piece in locked.chunks(PIECE) {
        match commit {
            Some(commit) => commit_at(core, piece, start, commit, &core.unsynced)?,
            None => roll_back(core, piece, start, false)?,
        }
    }
    Ok(locked.len())
}
