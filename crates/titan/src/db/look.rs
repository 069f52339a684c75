//! Estimates what memtables shadow in older tables, before they are flushed: while users write, so
//! that a memtable that shadows much is flushed before it is full, and so that live data is not
//! overestimated; and once the database is idle, so that it gives space back.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::core::Shared;
use super::family::Family;
use super::flush::shadowed_by_memtables;
use super::job::Job;
use super::running::RunningJob;
use super::state::{FamilyState, State};
use crate::compaction::shadows::OlderTables;
use crate::error::Result;
use crate::memtable::{Memtable, MemtableLook};
use crate::stats::EventListener;

/// No estimate is due before a memtable could shadow enough for a flush if the values it shadows
/// were so many times as large as the average.
const SKEW: u64 = 16;

/// A memtable to be examined.
pub(super) struct Look {
    family: Arc<Family>,
    memtable: Arc<Memtable>,
    held: MemtableLook,
}

impl Look {
    /// The current memtable of a family. To be called under the state lock.
    pub(super) fn at(family: &FamilyState) -> Self {
        Look {
            family: Arc::clone(&family.family),
            memtable: Arc::clone(&family.memtable),
            held: family.memtable.look(),
        }
    }
}

impl Job for Look {
    const DOING: &'static str = "estimating what the memtable shadows of";
    type Done = ();
    type Claim = ();

    fn kind(&self) -> RunningJob {
        RunningJob::Look
    }

    fn family(&self) -> &Arc<Family> {
        &self.family
    }

    fn run(self, shared: &Shared) -> (Result<()>, ()) {
        shared.look(&self);
        shared.note_filled([(self.family.id, &*self.memtable)].into_iter());
        (Ok(()), ())
    }

    fn release((): (), _: &Result<()>, _: &mut State) {}

    fn report((): &(), _: &dyn EventListener) {}
}

/// Whether an estimate is due of what the current memtable of a family shadows.
pub(super) fn is_to_be_looked_at(family: &FamilyState) -> bool {
    family.family.collects_by_itself() && family.memtable.wants_look()
}

/// Claims an estimate that is due, and counts it as running. One at a time: the other threads are
/// for flushes.
pub(super) fn claim_look(state: &mut State) -> Option<Look> {
    if state.running.looks > 0 {
        return None;
    }
    let mut families = state.families.values();
    let look = Look::at(families.find(|f| is_to_be_looked_at(f))?);
    state.begin(RunningJob::Look, look.family.id);
    Some(look)
}

impl Shared {
    /// Requests estimates. To be called after entries were added to memtables.
    pub(super) fn ask_for_looks<'f>(&self, families: impl Iterator<Item = &'f Family>) {
        let asks =
            |f: &&Family| f.collects_by_itself() && f.super_version.load().memtable.ask_for_look();
        // Each is asked.
        if families.filter(asks).count() > 0 {
            self.signals.work.raise_for_one();
        }
    }

    /// Estimates and records the bytes of separated values that a memtable shadows.
    pub(super) fn look(&self, look: &Look) -> u64 {
        let Look {
            family,
            memtable,
            held,
        } = look;
        let version = Arc::clone(&family.super_version.load().version);
        let older = OlderTables {
            version: &version,
            open_files: &self.files.open,
        };
        let memtables = [Arc::clone(memtable)];
        let shadowed = shadowed_by_memtables(&memtables, family, older).unwrap_or(0);
        let blobs = &version.blob_files;
        let average = blobs.live_bytes() / blobs.live_count().max(1);
        let lives = blobs.live_bytes().saturating_sub(shadowed);
        let enough = enough_to_flush(lives, family.options.write_buffer_size);
        let next = next_look(held.entries, shadowed, average, enough);
        memtable.note_shadowed(shadowed, enough, *held, next);
        shadowed
    }

    /// Estimates for the memtables of all families that have separated values.
    pub(super) fn look_at_all(&self) {
        let looks: Vec<Look> = {
            let state = self.state.lock();
            let families = state.families.values();
            families.filter(|f| may_hide(f)).map(Look::at).collect()
        };
        for look in &looks {
            self.try_look(look);
        }
    }

    /// Like [`Shared::look`], but a panic in code of the user is no failure.
    pub(super) fn try_look(&self, look: &Look) -> u64 {
        catch_unwind(AssertUnwindSafe(|| self.look(look))).unwrap_or_else(|_| {
            // An estimate stays due, though not at once.
            let (memtable, entries) = (&look.memtable, look.held.entries);
            let shadowed = memtable.shadowed_bytes();
            memtable.note_shadowed(shadowed, u64::MAX, look.held, entries.saturating_mul(2));
            0
        })
    }
}

/// Whether the memtable of a family may shadow separated values.
pub(super) fn may_hide(family: &FamilyState) -> bool {
    !family.memtable.is_empty() && family.version.blob_files.live_bytes() > 0
}

/// How many shadowed bytes are worth a flush: as many as are live beside them, since from then on
/// files take twice what is live; no more than a full memtable of large values shadows, and no less
/// than a quarter of that, or a small database would be flushed again and again.
fn enough_to_flush(lives: u64, write_buffer_size: u64) -> u64 {
    lives.clamp(write_buffer_size / 4, write_buffer_size).max(1)
}

/// How many entries there will be at the next estimate, if so many shadow so much: before it is
/// `most`, if it goes on like this, or if what is shadowed from now on is much larger than the
/// average.
fn next_look(entries: u64, shadowed: u64, average: u64, most: u64) -> u64 {
    let full = u128::from(entries) * u128::from(most) / u128::from(shadowed.max(1));
    let full = u64::try_from(full).unwrap_or(u64::MAX);
    let soonest = entries.saturating_add(entries / 4).saturating_add(1);
    let latest = entries.saturating_mul(4).max(soonest);
    let large = most / average.saturating_mul(SKEW).max(1);
    full.clamp(soonest, latest).max(large)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_few_and_the_last_is_where_it_is_full() {
        // Entries of a few bytes over values of 4 KiB, in a buffer of 64 MiB.
        let most = 64 << 20;
        let (mut entries, mut looks) = (64, Vec::new());
        while entries * 4096 < most {
            looks.push(entries);
            entries = next_look(entries, entries * 4096, 4096, most);
        }
        assert_eq!((entries, looks.len()), (most / 4096, 3), "{looks:?}");
        // Where nothing is shadowed they become rarer and rarer.
        assert_eq!(next_look(1 << 20, 0, 4096, most), 4 << 20);
        // No separated values: only what range tombstones shadow would count.
        assert!(next_look(64, 0, 0, most) >= most);
    }
}
