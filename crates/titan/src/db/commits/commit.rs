//! Committing batches: the actions of the database at the stages of the
//! [pipeline](crate::write::pipeline), and the switch of memtables.

use std::sync::Arc;

use crate::batch::WriteBatch;
use crate::db::core::family::Family;
use crate::db::core::shared::Shared;
use crate::db::core::state::{FamilyState, Immutable, LiveWal};
use crate::env::Sealer;
use crate::error::{Error, Result};
use crate::format::internal_key::ValueType;
use crate::format::{ColumnFamilyId, SequenceNumber};
use crate::memtable::Memtable;
use crate::stats::{HistogramKind, MemtableSealedEvent, notify};
use crate::write::WriteOptions;
use crate::write::conditions::{Checked, Condition};
use crate::write::pipeline::{CommitEnv, Target};
use crate::write::queue::{Group, Lead};

impl CommitEnv for Shared {
    type Family = Arc<Family>;

    /// Fails with `Closed` once the database is closing, with `WritesStopped` after a failure.
    fn check_writable(&self) -> Result<()> {
        self.lifecycle.check_accepts_batches()?;
        self.check_not_stopped()
    }

    fn admit(&self, lead: &Lead<'_>, group: &Group) -> Result<()> {
        self.make_room(lead)?;
        self.wait_out_stall(lead, group)
    }

    fn target(&self, id: ColumnFamilyId) -> Result<Target<Arc<Family>>> {
        let family = self.existing_family(id)?;
        Ok(Target {
            id,
            memtable: Arc::clone(&family.super_version.load().memtable),
            family,
        })
    }

    fn check_merges(&self, family: &Arc<Family>) -> Result<()> {
        family.merge_operator().map(drop)
    }

    fn validate(
        &self,
        condition: &Condition,
        checked_to: SequenceNumber,
        is_newer: bool,
    ) -> Result<()> {
        self.validate_condition(condition, checked_to, is_newer)
    }

    fn conflict(&self, condition: &Condition) -> Error {
        self.conflict_in_group(condition)
    }

    fn stop(&self, error: Error) -> Error {
        self.failure.set(error)
    }

    fn stop_after_panic(&self) {
        let message = "a thread panicked while it committed a batch";
        self.failure.set_after_panic(message);
    }

    fn inserted(&self, targets: &[Target<Arc<Family>>], group: &Group, last: SequenceNumber) {
        if group.options.disable_wal {
            self.note_unlogged(targets);
        }
        for target in targets {
            let keys = || valued_keys(group, target.id);
            target.family.dead.write(last, keys);
            let memtable = &target.memtable;
            if memtable.has_many_tombstones() && memtable.tombstone_alarm().ring() {
                // The thread that cleans up may not wait for the database to be idle.
                self.signals.collector.raise();
            }
        }
        self.note_filled(targets.iter().map(|t| (t.id, &*t.memtable)));
        self.charge(targets);
    }

    fn published(&self, targets: &[Target<Arc<Family>>]) {
        self.signals.wrote();
        self.note_write_times(targets);
        self.request_estimates(targets);
    }
}

/// The keys to which a group gives values in a family.
fn valued_keys(group: &Group, family: ColumnFamilyId) -> impl Iterator<Item = &[u8]> {
    let operations = group.batches.iter().flat_map(|batch| batch.iter());
    let entries = operations.flatten().filter_map(move |op| {
        let entry = op.entry().ok()??;
        (op.column_family() == Some(family)).then_some(entry)
    });
    let valued = entries.filter(|(value_type, ..)| {
        !value_type.is_point_deletion() && *value_type != ValueType::RangeDeletion
    });
    valued.map(|(_, key, _)| key)
}

impl Shared {
    /// Notes that the entries published in the memtables of `targets` were written by now.
    fn note_write_times(&self, targets: &[Target<Arc<Family>>]) {
        let clock = &self.files.env.clock;
        let last = self.counters.last_sequence();
        let Some(now) = self.opening.write_times.note(last, || clock.latest()) else {
            return;
        };
        let revisited = targets.iter().filter(|t| t.family.revisit.is_some());
        // Each is noted.
        let new = revisited.filter(|target| target.memtable.note_oldest_time(now));
        if new.count() > 0 {
            // A thread has to wake up when the memtable is old.
            self.signals.work.raise();
        }
    }

    /// Requests estimates of the data shadowed by the memtables to which entries were added.
    fn request_estimates(&self, targets: &[Target<Arc<Family>>]) {
        let asks = |target: &&Target<Arc<Family>>| {
            let memtable = &target.memtable;
            memtable.wants_estimate()
                && target.family.collects_by_itself()
                && memtable.request_estimate()
        };
        // Each is asked.
        if targets.iter().filter(asks).count() > 0 {
            self.signals.work.raise();
        }
    }

    /// Commits a batch; see [`WriteOptions`] for the guarantees on return.
    pub(crate) fn write(&self, batch: &mut WriteBatch, options: &WriteOptions) -> Result<()> {
        self.submit(batch, None, options)
    }

    /// Commits a batch if conditions that the caller has checked still hold.
    pub(super) fn submit(
        &self,
        batch: &mut WriteBatch,
        conditions: Option<Box<Checked>>,
        options: &WriteOptions,
    ) -> Result<()> {
        self.check_writable()?;
        batch.check_opening(self.opening.id)?;
        if options.no_slowdown {
            // The leader of the queue may be waiting already.
            self.check_not_stalled()?;
        }
        if batch.is_empty() && conditions.is_none() {
            return Ok(());
        }
        options.validate()?;
        let _watch = self.opening.statistics.sample(HistogramKind::Write);
        self.pipeline.write(self, batch, conditions, *options)
    }

    /// Runs `f` while no batch is being committed, unless the database has been closed by then.
    pub(crate) fn alone<T>(&self, f: impl FnOnce(&Lead<'_>) -> Result<T>) -> Result<T> {
        // Before the queue, whose leader may be a thread that is not in this process.
        self.lifecycle.check_not_inherited()?;
        self.check_open()?;
        self.pipeline.exclusive(|lead| {
            self.check_open()?;
            f(lead)
        })
    }

    /// Makes every logged write durable.
    pub(crate) fn sync_wal(&self, lead: &Lead<'_>) -> Result<()> {
        self.pipeline.sync(lead, self)
    }

    /// Notes full memtables; the next commit switches them.
    pub(crate) fn note_filled<'m>(
        &self,
        memtables: impl Iterator<Item = (ColumnFamilyId, &'m Memtable)>,
    ) {
        let mut full = memtables.filter(|(_, m)| m.should_flush()).peekable();
        if full.peek().is_some() {
            self.admission.add_filled(full.map(|(id, _)| id));
        }
    }

    /// Counts the growth of memtables, if their memory is bounded, and has the largest one sealed
    /// if the bound is exceeded.
    fn charge(&self, targets: &[Target<Arc<Family>>]) {
        let account = &self.opening.env.write_buffers;
        if !account.is_bounded() {
            return;
        }
        for target in targets {
            target.memtable.charge(account);
        }
        match account.sealer() {
            None => {}
            Some(Sealer::Other(id)) => self.opening.env.wake(id),
            Some(Sealer::Own) => {
                let families = self.families.load();
                let current = families.values().map(|family| {
                    let memtable = Arc::clone(&family.super_version.load().memtable);
                    (family.id, memtable)
                });
                let size = |(_, memtable): &(_, Arc<Memtable>)| memtable.bytes_to_flush();
                if let Some((id, largest)) = current.max_by_key(size) {
                    // The next commit switches it.
                    largest.request_flush();
                    self.note_filled([(id, &*largest)].into_iter());
                }
            }
        }
    }

    fn note_unlogged(&self, targets: &[Target<Arc<Family>>]) {
        let mut state = self.state.lock();
        for target in targets {
            if let Some(family) = state.families.get_mut(&target.id) {
                family.unlogged = true;
            }
        }
    }

    /// Switches full memtables. Cost: independent of the number of families, unless there is
    /// something to switch.
    pub(crate) fn make_room(&self, lead: &Lead<'_>) -> Result<()> {
        let mut full = self.admission.take_filled();
        if !full.is_empty() {
            let families = self.families.load();
            full.retain(|id| {
                // A flush may have switched it meanwhile.
                let family = families.get(id);
                family.is_some_and(|f| f.super_version.load().memtable.should_flush())
            });
            let state = self.state.lock();
            // Where a flush lacks room, deletions go on in the memtable that there is.
            full.retain(|id| !state.families.get(id).is_some_and(FamilyState::is_held_up));
        }
        if full.is_empty()
            && self
                .admission
                .wal_limit
                .is_exceeded(self.pipeline.current_wal_size())
        {
            full = self.families_of_oldest_wal();
        }
        if full.is_empty() {
            return Ok(());
        }
        self.switch_memtables(lead, &full).inspect_err(|e| {
            if e.is_out_of_descriptors() {
                // The next commit tries again.
                self.admission.add_filled(full.iter().copied());
            }
        })
    }

    fn families_of_oldest_wal(&self) -> Vec<ColumnFamilyId> {
        let state = self.state.lock();
        let oldest = state.oldest_log_needed(None);
        state
            .families
            .values()
            .filter(|f| f.immutables.is_empty() && f.oldest_log_needed() == oldest)
            .map(|f| f.family.id)
            .collect()
    }

    /// Makes the memtables of `ids` immutable and gives the families new ones, if any of them has
    /// entries.
    pub(crate) fn switch_memtables(&self, lead: &Lead<'_>, ids: &[ColumnFamilyId]) -> Result<()> {
        let needed = {
            let state = self.state.lock();
            ids.iter().any(|id| {
                state
                    .families
                    .get(id)
                    .is_some_and(|f| !f.memtable.is_empty())
            })
        };
        match needed {
            true => self.start_wal(lead, ids),
            false => Ok(()),
        }
    }

    /// Starts a new WAL file; the memtables of `ids` that have entries become immutable.
    pub(crate) fn start_wal(&self, lead: &Lead<'_>, ids: &[ColumnFamilyId]) -> Result<()> {
        let number = self.counters.new_file_number();
        let closed_size = self.pipeline.start_wal(lead, self, number)?;
        gate!("switch: WAL file started");
        let mut state = self.state.lock();
        invariant!(
            state.current_wal() < number,
            "WAL file {number} follows {}",
            state.current_wal()
        );
        if let Some(last) = state.wals.back_mut() {
            last.size = closed_size;
        }
        state.wals.push_back(LiveWal { number, size: 0 });
        let mut sealed = Vec::new();
        for (id, family) in state.families.iter_mut() {
            if family.memtable.is_empty() {
                // Its future entries are in no WAL file before this one.
                family.memtable_log = number;
                continue;
            }
            if !ids.contains(id) {
                continue;
            }
            let fresh = family.fresh_memtable();
            let full = std::mem::replace(&mut family.memtable, fresh);
            full.seal();
            let log_number = std::mem::replace(&mut family.memtable_log, number);
            sealed.push(MemtableSealedEvent {
                column_family: *id,
                entries: full.num_entries(),
                bytes: full.approximate_memory_usage(),
            });
            family.immutables.push_back(Immutable {
                memtable: full,
                log_number,
            });
            family.has_changed();
            // It cannot be the last holder: the new one has the same version.
            drop(family.publish());
        }
        invariant!(
            state.oldest_log_needed(None) <= number,
            "no WAL file is needed, not even {number}"
        );
        self.admission
            .wal_limit
            .set(&state, &self.opening.options.load());
        gate!("switch: memtables switched");
        self.signals.work.raise();
        self.update_stalls(state);
        for event in &sealed {
            notify!(self.opening.listeners, memtable_sealed(event));
        }
        Ok(())
    }

    /// Families whose memtables have operations that are in no WAL.
    pub(crate) fn families_with_unlogged_writes(&self) -> Vec<ColumnFamilyId> {
        let state = self.state.lock();
        let unlogged = state.families.values().filter(|f| f.unlogged);
        unlogged.map(|f| f.family.id).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use crate::{Db, Options};

    #[test]
    fn a_put_does_not_wait_for_the_state_where_no_write_is_stalled() {
        let dir = tempfile::tempdir().unwrap();
        let mut options = Options::default();
        // No thread waits to be woken by a write.
        options.default.disable_auto_compactions = true;
        let db = Db::open(dir.path(), &options).unwrap();
        for name in ["a", "b"] {
            db.create_column_family(name, options.default.clone())
                .unwrap();
        }
        db.wait_idle().unwrap();
        let state = db.core.shared.state.lock();
        let (tell, told) = mpsc::channel();
        let writer = db.clone();
        let writing = thread::spawn(move || tell.send(writer.put(b"k", b"v")));
        let put = told.recv_timeout(Duration::from_secs(60));
        drop(state);
        put.expect("it waits for the state").unwrap();
        writing.join().unwrap().unwrap();
    }
}
