//! Jobs and writes that lack room on the device.
//!
//! A job that lacks room stops nothing. It is not begun, or its output is removed, and it waits
//! until there is room; readers and writers go on. Writers get `NoSpace` only where they would have
//! to wait for such a job, and not before a flush that may be tried again has been. How much is
//! left is asked before each search for a job, without the state lock, and the answer is kept in
//! the state.

use std::path::Path;

use crate::compaction::choosing::budget::Budget;
use crate::db::core::room::{FlushWait, LOOK_EACH, Room, RoomWait};
use crate::db::core::shared::Shared;
use crate::db::core::state::{FamilyState, FlushBarrier, Immutable, State};
use crate::error::{Error, Result};
use crate::format::{ColumnFamilyId, total};
use crate::stats::{StallCause, StallEvent};
use crate::sync::MutexGuard;

/// The least that a flush is taken to write beside its entries.
const TABLE_OVERHEAD: u64 = 4 << 10;

impl FamilyState {
    /// Whether its immutable memtables may be flushed, so many of them.
    pub(crate) fn may_flush(&self, memtables: usize, room: &Room) -> bool {
        let wait = self.jobs.flush_wait.as_ref();
        memtables > 0 && wait.is_none_or(|wait| wait.is_over(memtables, room))
    }

    /// Whether it has as many immutable memtables as it may have, and no room to flush them.
    pub(crate) fn is_held_up(&self) -> bool {
        let limit = self.family.options().max_write_buffer_number;
        self.jobs.flush_wait.is_some() && self.immutables.len() >= limit
    }

    /// Whether a job of it waits for room.
    fn lacks_room(&self) -> bool {
        self.jobs.flush_wait.is_some()
            || self.jobs.compactions_wait.is_waiting()
            || self.jobs.collections_wait.is_waiting()
    }

    /// Tries again at once the jobs that wait for room.
    fn try_again(&mut self) {
        self.jobs.flush_wait = None;
        self.jobs.compactions_wait = RoomWait::default();
        self.jobs.collections_wait = RoomWait::default();
        self.has_changed();
    }

    /// Whether a flush that lacked room is being tried again, or may be.
    fn retries_flush(&self, barrier: Option<&FlushBarrier>, room: &Room) -> bool {
        let jobs = &self.jobs;
        let may = || jobs.flushing || self.may_flush(self.flushable(barrier), room);
        jobs.flush_wait.is_some() && may()
    }

    /// The error of a writer that would have to wait for a job of the family that lacks room.
    fn no_room_for_writes(&self, dir: &Path, budget: &Budget) -> Option<Error> {
        match self.stall {
            StallEvent::Stopped(StallCause::Memtables) => {
                self.jobs.flush_wait.as_ref().map(|wait| wait.error.clone())
            }
            StallEvent::Stopped(_) => {
                let wait = &self.jobs.compactions_wait;
                let lacks = wait.lack().map(|lack| {
                    let doing = format!("compacting column family {}", self.family.name);
                    no_room(dir, &doing, lack.bytes(), budget.available)
                });
                // A quota may end before the room that the device reports.
                lacks.or_else(|| wait.error().cloned())
            }
            _ => None,
        }
    }

    /// Whether a deletion may still be added: the memtable has room although it should be flushed.
    fn takes_deletions(&self) -> bool {
        let buffer = self.family.options().write_buffer_size;
        self.memtable.approximate_memory_usage() < buffer.saturating_mul(2)
    }
}

impl State {
    /// Whether any job waits for room.
    pub(crate) fn lacks_room(&self) -> bool {
        self.families.values().any(FamilyState::lacks_room)
    }

    /// Whether a flush waits for room.
    pub(crate) fn waits_to_flush(&self) -> bool {
        let mut families = self.families.values();
        families.any(|family| family.jobs.flush_wait.is_some())
    }

    /// Why writes that are stopped cannot go on until there is room, if that is so. Deletions,
    /// which give room back, may go on for as long as memtables can take them.
    pub(crate) fn no_room_for_writes(&self, dir: &Path, are_deletions: bool) -> Option<NoRoom> {
        let mut families = self.families.values();
        let error = families.find_map(|f| f.no_room_for_writes(dir, &self.room.budget))?;
        let takes = || self.families.values().all(FamilyState::takes_deletions);
        Some(match are_deletions && takes() {
            true => NoRoom::ButForDeletions,
            false => NoRoom::AtAll(error),
        })
    }
}

/// Writes are stopped by a job that waits for room.
pub(crate) enum NoRoom {
    AtAll(Error),
    ButForDeletions,
}

impl Shared {
    /// Locks the state, which knows the room that there is now. Cost: asks the device; O(families).
    pub(crate) fn state_with_room(&self) -> MutexGuard<'_, State> {
        // Not under the lock: a device may not answer.
        let space = self.files.vfs.device_space(&self.files.dir).ok().flatten();
        let now = self.opening.clock.monotonic();
        let mut state = self.state.lock();
        state.room.now = now;
        state.room.budget = space.map_or(Budget::UNLIMITED, |space| {
            let families = || state.families.values();
            let buffers = families().map(|f| f.family.options().write_buffer_size);
            Budget::new(
                space.total,
                space.available,
                state.room.promised,
                total(families().map(FamilyState::memtable_bytes)),
                buffers.max().unwrap_or(0),
            )
        });
        state
    }

    /// Whether a flush that lacked room is being tried again, or is from now on, since there may be
    /// room by now: nobody may have looked since. Cost: asks the device; O(families).
    pub(crate) fn retries_flush(&self) -> bool {
        let state = self.state_with_room();
        let barrier = state.flush_barrier.as_ref();
        let mut families = state.families.values();
        let retries = families.any(|f| f.retries_flush(barrier, &state.room));
        drop(state);
        if retries {
            self.signals.work.raise();
        }
        retries
    }

    /// Lets the jobs that wait for room be tried again at once.
    pub(crate) fn try_again(&self, ids: impl Iterator<Item = ColumnFamilyId>) {
        let mut state = self.state.lock();
        for id in ids {
            if let Some(family) = state.families.get_mut(&id) {
                family.try_again();
            }
        }
    }

    /// Whether there is room to flush these memtables. Cost: a walk through all of their entries if
    /// it is not obvious.
    ///
    /// # Errors
    /// `NoSpace`, with the bytes that are needed.
    pub(crate) fn check_room_for_flush(
        &self,
        name: &str,
        memtables: &[Immutable],
        written: impl FnOnce() -> Result<u64>,
    ) -> Result<(), (Error, u64)> {
        let space = self.files.vfs.device_space(&self.files.dir).ok().flatten();
        let Some(space) = space else { return Ok(()) };
        let bound = total(
            memtables
                .iter()
                .map(|i| i.memtable.approximate_memory_usage()),
        );
        let with_overhead = |bytes: u64| bytes.saturating_add(bytes / 16 + TABLE_OVERHEAD);
        if with_overhead(bound) <= space.available {
            return Ok(());
        }
        // Further memtables may delete entries of the older ones. An error of that is found again.
        let need = with_overhead(written().unwrap_or(0));
        if need <= space.available {
            return Ok(());
        }
        let doing = format!("flushing column family {name}");
        let error = no_room(&self.files.dir, &doing, need, space.available);
        Err((error, need))
    }

    /// Whether there is room for the next bytes of a value that goes to a blob file at once. Like
    /// jobs, it leaves the room that flushes and the log need.
    ///
    /// # Errors
    /// `NoSpace`, with the bytes that are needed.
    pub(crate) fn check_room_for_value(&self, name: &str, bytes: u64) -> Result<()> {
        let doing = "putting a value from a reader into";
        self.check_room(&format!("{doing} column family {name}"), bytes)
    }

    /// Whether there is room for so many bytes beside what flushes and the log need.
    ///
    /// # Errors
    /// `NoSpace`, with the bytes that are needed.
    pub(crate) fn check_room(&self, doing: &str, bytes: u64) -> Result<()> {
        let budget = self.state_with_room().room.budget;
        if bytes <= budget.any {
            return Ok(());
        }
        let reserve = budget.available.saturating_sub(budget.any);
        let need = bytes.saturating_add(reserve);
        Err(no_room(&self.files.dir, doing, need, budget.available))
    }

    /// The room for which a flush waits that lacks some, or found none.
    pub(crate) fn flush_wait(
        &self,
        memtables: usize,
        error: &Error,
        need: Option<u64>,
    ) -> FlushWait {
        let now = self.opening.clock.monotonic();
        let not_before = match need {
            Some(_) => now,
            None => now + LOOK_EACH,
        };
        FlushWait::new(need.unwrap_or(0), memtables, not_before, error.clone())
    }

    /// Whether the MANIFEST can be written: no edit has failed, so that a failed job is as if it
    /// had not begun.
    pub(crate) fn is_manifest_intact(&self) -> bool {
        self.versions.lock().manifest_number().is_some()
    }
}

/// The error of a job that lacks room.
fn no_room(dir: &Path, doing: &str, need: u64, available: u64) -> Error {
    let kib = |bytes: u64| bytes.div_ceil(1 << 10);
    let what = format!(
        "{doing} needs {} KiB on the device, which has {} KiB left",
        kib(need),
        available >> 10
    );
    Error::io(rustix::io::Errno::NOSPC.into(), &what, dir)
}
