//! Looking at what memtables hide in older tables, before they are flushed: while somebody writes,
//! so that one that hides much is flushed before it is full, and what lives is not taken for more
//! than it is; and once nobody does, so that a database that is left alone gives space back.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::core::Shared;
use super::family::Family;
use super::flush::hidden_by_memtables;
use super::running::{Running, RunningJob};
use super::state::{FamilyState, State};
use crate::compaction::shadows::OlderTables;
use crate::memtable::{Memtable, MemtableLook};

/// How many times more than the average the values may measure that a memtable is not yet looked
/// at for.
const SKEW: u64 = 16;

/// A memtable that is to be looked at.
pub(super) struct Look {
    family: Arc<Family>,
    memtable: Arc<Memtable>,
    held: MemtableLook,
}

impl Look {
    /// At the current memtable of a family. To be called under the state lock.
    pub(super) fn at(family: &FamilyState) -> Self {
        Look {
            family: Arc::clone(&family.family),
            memtable: Arc::clone(&family.memtable),
            held: family.memtable.look(),
        }
    }
}

/// Whether somebody is to look at what the current memtable of a family hides.
pub(super) fn is_to_be_looked_at(family: &FamilyState) -> bool {
    family.family.settles() && family.memtable.wants_look()
}

/// Takes on the look that somebody asked for, counted as running. One at a time: what is left of the
/// threads is for flushes.
pub(super) fn claim_look(state: &mut State) -> Option<Look> {
    if state.running.looks > 0 {
        return None;
    }
    let mut families = state.families.values_mut();
    let family = families.find(|f| is_to_be_looked_at(f))?;
    RunningJob::Look.count(family, &mut state.running);
    Some(Look::at(family))
}

impl Shared {
    /// To be called after memtables were added to.
    pub(super) fn ask_for_looks(&self, families: &[Arc<Family>]) {
        let asks = |f: &Arc<Family>| f.settles() && f.super_version.load().memtable.ask_for_look();
        if families.iter().filter(|f| asks(f)).count() > 0 {
            let _state = self.state.lock();
            self.work.notify_one();
        }
    }

    /// Runs a look that the caller has counted as running.
    pub(super) fn run_look(&self, look: Look) {
        let _running = Running::counted(self, look.family.id, RunningJob::Look);
        self.look(&look);
        self.note_filled(&[(look.family.id, Arc::clone(&look.memtable))]);
        self.update_stalls(self.state.lock());
    }

    /// Estimates and notes the bytes of values in blob files that a memtable hides.
    pub(super) fn look(&self, look: &Look) -> u64 {
        let Look {
            family,
            memtable,
            held,
        } = look;
        let version = Arc::clone(&family.super_version.load().version);
        let older = OlderTables {
            version: &version,
            open_files: &self.open_files,
        };
        let memtables = [Arc::clone(memtable)];
        let hidden = hidden_by_memtables(&memtables, family, older).unwrap_or(0);
        let blobs = &version.blob_files;
        let average = blobs.live_bytes() / blobs.live_count().max(1);
        let lives = blobs.live_bytes().saturating_sub(hidden);
        let enough = enough_to_flush(lives, family.options.write_buffer_size);
        let next = next_look(held.entries, hidden, average, enough);
        memtable.note_hidden(hidden, enough, *held, next);
        hidden
    }

    /// Looks at the memtables of all families that have something in blob files.
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

    /// [`Shared::look`], where a panic in code of the user's is nobody's failure.
    pub(super) fn try_look(&self, look: &Look) -> u64 {
        catch_unwind(AssertUnwindSafe(|| self.look(look))).unwrap_or_else(|_| {
            // It stays due, though not at once.
            let (memtable, entries) = (&look.memtable, look.held.entries);
            let hidden = memtable.hidden_bytes();
            memtable.note_hidden(hidden, u64::MAX, look.held, entries.saturating_mul(2));
            0
        })
    }
}

/// Whether the memtable of a family may hide something in blob files.
pub(super) fn may_hide(family: &FamilyState) -> bool {
    !family.memtable.is_empty() && family.version.blob_files.live_bytes() > 0
}

/// How many hidden bytes are worth a flush: as many as live beside them, since from then on files
/// measure twice what lives; no more than a full memtable of large values hides, and no less than a
/// quarter of that, or a small database would be flushed again and again.
fn enough_to_flush(lives: u64, write_buffer_size: u64) -> u64 {
    lives.clamp(write_buffer_size / 4, write_buffer_size).max(1)
}

/// How many entries there will be when to look again, if so many hide so much: before it is `most`,
/// if it goes on like this, or if what is hidden from now on is much larger than the average.
fn next_look(entries: u64, hidden: u64, average: u64, most: u64) -> u64 {
    let full = u128::from(entries) * u128::from(most) / u128::from(hidden.max(1));
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
        // Marks of a few bytes over values of 4 KiB, in a buffer of 64 MiB.
        let most = 64 << 20;
        let (mut entries, mut looks) = (64, Vec::new());
        while entries * 4096 < most {
            looks.push(entries);
            entries = next_look(entries, entries * 4096, 4096, most);
        }
        assert_eq!((entries, looks.len()), (most / 4096, 3), "{looks:?}");
        // Where nothing is hidden they get rarer and rarer.
        assert_eq!(next_look(1 << 20, 0, 4096, most), 4 << 20);
        // Nothing in blob files: only what ranges hide would count.
        assert!(next_look(64, 0, 0, most) >= most);
    }
}
