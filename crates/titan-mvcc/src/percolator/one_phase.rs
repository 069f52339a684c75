//! Commits in one phase: a prewrite that writes versions and leaves no locks.

use titan::{WriteBatch, invariant};

use super::commit::put_version;
use super::mutation::Mutation;
use crate::core::Core;
use crate::error::Result;
use crate::format::lock::Lock;
use crate::locks::Taken;
use crate::order::InFlight;
use crate::timestamp::Timestamp;

/// Commits the writes of a transaction, each with its pessimistic lock, in one batch. Reads of the
/// present see the commit when this returns.
///
/// # Errors
/// `BeforeSafePoint` if the transaction may have been rolled back without a record; those of the
/// engine.
pub(super) fn commit_in_one_phase(
    core: &Core,
    mut latches: Taken<'_>,
    writes: &[(&Mutation<'_>, Option<Lock>)],
    start: Timestamp,
    in_flight: InFlight<'_>,
) -> Result<Timestamp> {
    let commit = in_flight.timestamp();
    invariant!(durable: start < commit, "{start} commits at {commit}")?;
    // No record of a rollback has been dropped while this succeeds.
    let hold = core
        .safe_point
        .hold_before("commit in one phase".into(), start)?;
    let mut batch = WriteBatch::new();
    batch.set_ticket(commit.0);
    for (mutation, replaced) in writes {
        let key = mutation.key();
        if let Some(lock) = replaced {
            let bound = lock.min_commit;
            invariant!(bound <= commit, "{commit} is before the bound {bound}");
            core.locks.batch_delete(&mut batch, key, lock)?;
        }
        let write = (key, mutation.kind(), mutation.value().unwrap_or_default());
        put_version(core, &mut batch, write, start, commit)?;
    }
    if !mutant!(one_phase_unnoted) {
        latches.note(commit);
    }
    core.db.write(batch, &core.config.write)?;
    let unlocked = writes.iter().filter(|(_, replaced)| replaced.is_some());
    // ORDER: after the versions are published, so that a reader without a lock finds them.
    core.locks
        .remove(unlocked.map(|(mutation, _)| mutation.key()));
    drop(hold);
    // ORDER: before the wait for older commits: one of them may wait for a latch.
    drop(latches);
    Ok(in_flight.published())
}
