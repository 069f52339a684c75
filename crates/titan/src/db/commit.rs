//! Committing a group of batches, and switching memtables.
//!
//! Runs on the leader of the commit queue, so on one thread at a time: sequence numbers are
//! assigned, the WAL is appended to, and memtables are filled and switched in one order.

use std::sync::Arc;
use std::time::Duration;

use super::core::{FamilyMap, Shared};
use super::family::{Family, dropped};
use super::state::{FamilyState, Immutable, LiveWal, State};
use crate::error::{Error, ErrorKind, Result};
use crate::format::{ColumnFamilyId, SequenceNumber};
use crate::memtable::Memtable;
use crate::stats::{self, StallCause, StallEvent};
use crate::sync::MutexGuard;
use crate::sync::atomic::Ordering;
use crate::version::Counters;
use crate::write::WriteOptions;
use crate::write::batch::{BatchOp, WriteBatch, group_header};
use crate::write::queue::Group;

/// The longest single sleep of a delayed write, so that it notices when the delay is over.
const MAX_DELAY: Duration = Duration::from_millis(10);

impl Shared {
    /// Commits a batch; see [`WriteOptions`] for what holds when it returns.
    pub(super) fn write(&self, batch: WriteBatch, options: &WriteOptions) -> Result<()> {
        self.check_writable()?;
        batch.check_opening(self.opening)?;
        if options.no_slowdown {
            // The leader of the queue may be waiting already.
            self.check_not_stalled()?;
        }
        if batch.is_empty() {
            return Ok(());
        }
        if options.sync && options.disable_wal {
            return Err(Error::invalid_argument(
                "a write without WAL cannot be synced",
            ));
        }
        self.commits
            .submit(batch, *options, |group| self.commit(group))
    }

    fn commit(&self, group: &mut Group) -> Result<()> {
        self.check_writable()?;
        let _unfinished = FailOnPanic(self);
        self.make_room(group)?;
        let families = self.resolve(group);
        if group.batches.iter().all(WriteBatch::is_empty) {
            return Ok(());
        }
        let first = self.counters.last_sequence().plus(1);
        let mut next = first;
        for batch in &mut group.batches {
            batch.set_sequence(next);
            next = next.plus(u64::from(batch.count()));
        }
        let last = SequenceNumber(next.0 - 1);
        if last > SequenceNumber::MAX {
            return Err(Error::unsupported(
                "the database has used up its sequence numbers",
            ));
        }
        if !group.options.disable_wal {
            // ORDER: the WAL before the memtables, and durable before the acknowledgement (WAL-1).
            let logged = self.log(group, first, last);
            logged.map_err(|e| {
                let e = e.context("writing the WAL");
                // MUTANT: a failed write of the WAL does not stop later writes.
                if mutant!(
                    "writes-go-on-after-a-failure",
                    "-p titan --test it faults::"
                ) {
                    return e;
                }
                self.failure.set(self, e)
            })?;
        }
        // MUTANT: writes become visible before they are in the memtable.
        if mutant!(
            "sequence-published-early",
            "-p titan --test it concurrency::batches::a_large_batch"
        ) {
            self.counters.publish_sequence(last);
        }
        let unpublished = Unpublished::of(&families, self.counters.last_sequence());
        let user_bytes = insert(group, &unpublished.memtables).map_err(|e| {
            self.failure
                .set(self, e.context("inserting into a memtable"))
        })?;
        if group.options.disable_wal {
            self.note_unlogged(&families);
        }
        self.note_filled(&unpublished.memtables);
        unpublished.publish(&self.counters, last);
        self.end_idle();
        self.ask_for_looks(&families);
        stats::add(&self.statistics.write_groups, 1);
        stats::add(&self.statistics.keys_written, next.0 - first.0);
        stats::add(&self.statistics.user_bytes_written, user_bytes);
        Ok(())
    }

    /// Fails with `Closed` once the database is closing, with `WritesStopped` after a failure.
    fn check_writable(&self) -> Result<()> {
        if self.stopping.load(Ordering::Acquire) {
            return Err(Error::new(ErrorKind::Closed, "the database is closed").in_file(&self.dir));
        }
        self.check_open()?;
        self.failure.check()
    }

    fn check_not_stalled(&self) -> Result<()> {
        match self.stall() {
            StallEvent::Normal => Ok(()),
            // The delay depends on what is in the batch.
            StallEvent::Delayed(StallCause::SpaceAmplification) => Ok(()),
            StallEvent::Delayed(cause) | StallEvent::Stopped(cause) => Err(stalled(cause)),
        }
    }

    /// How writes are stalled. Takes no lock if they are not.
    fn stall(&self) -> StallEvent {
        match self.writes_stalled.load(Ordering::Acquire) {
            true => self.state.lock().stall,
            false => StallEvent::Normal,
        }
    }

    /// Runs `f` while no batch is being committed, unless the database has been closed by then.
    pub(super) fn alone<T>(&self, f: impl FnOnce() -> Result<T>) -> Result<T> {
        self.check_open()?;
        self.commits.exclusive(|| {
            self.check_open()?;
            f()
        })
    }

    /// Makes every logged write durable. The caller must lead the commit queue. Called also before
    /// families change: after a crash, everything up to some moment is there, and never a later
    /// change without an earlier write.
    pub(super) fn sync_wal(&self) -> Result<()> {
        let synced = self.wal.sync();
        synced.map_err(|e| self.failure.set(self, e.context("syncing the WAL")))
    }

    /// The families that the group writes to. Batches that cannot be applied are refused here,
    /// before anything is changed: the WAL must be replayable.
    fn resolve(&self, group: &mut Group) -> Vec<Arc<Family>> {
        let all = self.families.load();
        let mut used: Vec<Arc<Family>> = Vec::new();
        for index in 0..group.batches.len() {
            let Some(batch) = group.batches.get(index) else {
                break;
            };
            if let Err(e) = resolve_batch(batch, &all, &mut used) {
                group.refuse(index, e);
            }
        }
        used
    }

    /// Appends the group to the WAL as one record, and syncs it if asked to.
    fn log(&self, group: &Group, first: SequenceNumber, last: SequenceNumber) -> Result<()> {
        let count: u64 = group.batches.iter().map(|b| u64::from(b.count())).sum();
        let count = u32::try_from(count)
            .map_err(|_| Error::invalid_argument("a group of batches has too many operations"))?;
        let header = group_header(first, count);
        let mut parts: Vec<&[u8]> = vec![&header];
        parts.extend(group.batches.iter().map(WriteBatch::operations));
        // Log data alone takes no sequence number.
        self.wal.append(&parts, (count > 0).then_some(last))?;
        // MUTANT: a synced write is acknowledged without a sync of the WAL.
        let left_out = mutant!("wal-sync-left-out", "-p titan-campaigns --test it crash::");
        if group.options.sync && !left_out {
            self.wal.sync()?;
        }
        Ok(())
    }

    /// Notes full memtables; the next commit switches them.
    pub(super) fn note_filled(&self, memtables: &[(ColumnFamilyId, Arc<Memtable>)]) {
        let full = || memtables.iter().filter(|(_, m)| m.should_flush());
        if full().next().is_some() {
            self.filled.lock().extend(full().map(|(id, _)| *id));
        }
    }

    fn note_unlogged(&self, families: &[Arc<Family>]) {
        let mut state = self.state.lock();
        for family in families {
            if let Some(family) = state.families.get_mut(&family.id) {
                family.unlogged = true;
            }
        }
    }

    /// Switches full memtables, then waits while writes are stalled. Cost: independent of the
    /// number of families, unless there is something to switch.
    fn make_room(&self, group: &Group) -> Result<()> {
        let mut full = std::mem::take(&mut *self.filled.lock());
        if !full.is_empty() {
            let families = self.families.load();
            full.retain(|id| {
                // A flush may have switched it meanwhile.
                let family = families.get(id);
                family.is_some_and(|f| f.super_version.load().memtable.should_flush())
            });
        }
        if full.is_empty() && self.wal_limit.is_exceeded(self.wal.current_size()) {
            full = self.families_of_oldest_wal();
        }
        if !full.is_empty() {
            self.switch_memtables(&full)?;
        }
        self.wait_out_stall(group)
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

    fn wait_out_stall(&self, group: &Group) -> Result<()> {
        if !self.writes_stalled.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut state = self.state.lock();
        let stall = state.stall;
        if stall == StallEvent::Normal {
            return Ok(());
        }
        let delay = self.delay(&state, stall, group)?;
        if delay.is_zero() && matches!(stall, StallEvent::Delayed(_)) {
            return Ok(());
        }
        let clock = &*self.options.clock;
        let started = clock.monotonic();
        let elapsed = || clock.monotonic().saturating_sub(started);
        let mut waited = false;
        let outcome = loop {
            let stall = state.stall;
            match stall {
                StallEvent::Normal => break Ok(()),
                StallEvent::Stopped(cause) | StallEvent::Delayed(cause)
                    if group.options.no_slowdown =>
                {
                    break Err(stalled(cause));
                }
                StallEvent::Delayed(_) => {
                    let left = delay.saturating_sub(elapsed());
                    if left.is_zero() {
                        break Ok(());
                    }
                    let step = clock.begin_wait(left.min(MAX_DELAY));
                    self.progress.wait_for(&mut state, step);
                }
                StallEvent::Stopped(_) => {
                    if let Err(e) = self.failure.check().and_then(|()| self.check_open()) {
                        break Err(e);
                    }
                    self.progress.wait(&mut state);
                }
            }
            waited = true;
        };
        drop(state);
        if waited {
            stats::add(&self.statistics.stall_micros, elapsed().as_micros() as u64);
        }
        outcome
    }

    /// How long a group waits while writes are delayed.
    fn delay(&self, state: &State, stall: StallEvent, group: &Group) -> Result<Duration> {
        let rate = self.options.delayed_write_rate;
        if stall != StallEvent::Delayed(StallCause::SpaceAmplification) {
            let bytes: u64 = group.batches.iter().map(|b| b.size_bytes() as u64).sum();
            return Ok(Duration::from_secs_f64(bytes as f64 / rate as f64));
        }
        // Only puts take space: deletions give it back.
        let mut bytes = 0;
        for op in group.batches.iter().flat_map(|batch| batch.iter()) {
            if let BatchOp::Put { key, value, .. } = op? {
                bytes += (key.len() + value.len()) as u64;
            }
        }
        Ok(state.freeing.delay(bytes, state.space_excess, rate))
    }

    /// Makes the memtables of `ids` immutable and gives the families new ones, if any of them has
    /// entries. The caller must lead the commit queue.
    pub(super) fn switch_memtables(&self, ids: &[ColumnFamilyId]) -> Result<()> {
        let needed = {
            let state = self.state.lock();
            ids.iter().any(|id| {
                state
                    .families
                    .get(id)
                    .is_some_and(|f| !f.memtable.is_empty())
            })
        };
        if needed { self.start_wal(ids) } else { Ok(()) }
    }

    /// Starts a new WAL file; the memtables of `ids` that have entries become immutable. The caller
    /// must lead the commit queue.
    pub(super) fn start_wal(&self, ids: &[ColumnFamilyId]) -> Result<()> {
        let closed_size = self.wal.current_size();
        let number = self.counters.new_file_number();
        let started = self
            .wal
            .start(number, self.counters.last_sequence().plus(1));
        started.map_err(|e| self.failure.set(self, e.context("starting a WAL")))?;
        let mut state = self.state.lock();
        if let Some(last) = state.wals.back_mut() {
            last.size = closed_size;
        }
        state.wals.push_back(LiveWal { number, size: 0 });
        for (id, family) in &mut state.families {
            if family.memtable.is_empty() {
                // Its future entries are in no WAL file before this one.
                family.memtable_log = number;
                continue;
            }
            if !ids.contains(id) {
                continue;
            }
            let fresh = Memtable::new(
                family.family.comparator.clone(),
                family.family.options.write_buffer_size,
            );
            let full = std::mem::replace(&mut family.memtable, fresh);
            let log_number = std::mem::replace(&mut family.memtable_log, number);
            family.immutables.push_back(Immutable {
                memtable: full,
                log_number,
            });
            family.has_changed();
            // It cannot be the last holder: the new one has the same version.
            drop(family.publish());
        }
        self.wal_limit.set(&state, &self.options);
        // Before listeners are notified, of which one may panic.
        self.work.notify_one();
        self.update_stalls(state);
        Ok(())
    }

    /// Evaluates what has changed, and how writes are stalled; releases the state lock; notifies
    /// listeners of changes. Wakes the thread that collects garbage if something is to be
    /// collected.
    pub(super) fn update_stalls(&self, mut state: MutexGuard<'_, State>) {
        if std::mem::take(&mut state.version_ended) {
            let families = state.families.values_mut();
            families.for_each(FamilyState::has_changed);
        }
        state.evaluate(&self.stall_notifier);
        let writes_stalled = state.stall != StallEvent::Normal;
        self.writes_stalled.store(writes_stalled, Ordering::Release);
        let urgent = writes_stalled || state.is_behind();
        self.urgent.store(urgent, Ordering::Release);
        let kept = state.keeps_for_snapshots();
        self.kept_for_snapshots.store(kept, Ordering::Release);
        self.progress.notify_all();
        if state.to_collect().is_some() {
            self.collector.notify_all();
        }
        drop(state);
        if self.stall_notifier.notify(&self.listeners) {
            let _state = self.state.lock();
            self.progress.notify_all();
        }
    }

    /// Families whose memtables have operations that are in no WAL.
    pub(super) fn families_with_unlogged_writes(&self) -> Vec<ColumnFamilyId> {
        let state = self.state.lock();
        let unlogged = state.families.values().filter(|f| f.unlogged);
        unlogged.map(|f| f.family.id).collect()
    }

    /// Whether the database is being closed.
    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }
}

fn stalled(cause: StallCause) -> Error {
    Error::new(ErrorKind::Busy, format!("writes are stalled: {cause}"))
}

/// Stops writes if a commit panics half way: the WAL may have sequence numbers already that the
/// next group would use again.
struct FailOnPanic<'a>(&'a Shared);

impl Drop for FailOnPanic<'_> {
    fn drop(&mut self) {
        let message = "a thread panicked while it committed a batch";
        self.0.failure.set_if_panicking(self.0, message);
    }
}

/// Memtables that a group is inserted into. If this ends without the group being published, by an
/// error or a panic, nothing of the group ever becomes part of the database.
struct Unpublished {
    memtables: Vec<(ColumnFamilyId, Arc<Memtable>)>,
    published: SequenceNumber,
}

impl Unpublished {
    /// The memtables of `families`, which are visible up to `published`.
    fn of(families: &[Arc<Family>], published: SequenceNumber) -> Self {
        let memtable = |family: &Family| Arc::clone(&family.super_version.load().memtable);
        Unpublished {
            memtables: families.iter().map(|f| (f.id, memtable(f))).collect(),
            published,
        }
    }

    /// Publishes the group, whose last operation is `last`.
    fn publish(mut self, counters: &Counters, last: SequenceNumber) {
        counters.publish_sequence(last);
        self.memtables.clear();
    }
}

impl Drop for Unpublished {
    fn drop(&mut self) {
        for (_, memtable) in &self.memtables {
            // MUTANT: entries of a commit that failed half way stay in their memtables.
            if !mutant!(
                "failed-commit-half-visible",
                "-p titan --test it refused_commit::"
            ) {
                memtable.refuse_after(self.published);
            }
        }
    }
}

/// Inserts all operations; returns the bytes of their keys and values.
fn insert(group: &Group, memtables: &[(ColumnFamilyId, Arc<Memtable>)]) -> Result<u64> {
    let mut bytes = 0;
    for batch in &group.batches {
        let mut sequence = batch.sequence();
        for op in batch.iter() {
            let op = op?;
            let Some((value_type, key, value)) = op.entry()? else {
                continue;
            };
            let id = op.column_family();
            let memtable = memtables.iter().find(|(family, _)| Some(*family) == id);
            let Some((_, memtable)) = memtable else {
                return Err(Error::internal(
                    "a batch names a family it did not name before",
                ));
            };
            memtable.add(sequence, value_type, key, value)?;
            sequence = sequence.plus(1);
            bytes += (key.len() + value.len()) as u64;
        }
    }
    Ok(bytes)
}

/// Adds the families that a batch writes to to `used`.
fn resolve_batch(batch: &WriteBatch, all: &FamilyMap, used: &mut Vec<Arc<Family>>) -> Result<()> {
    for op in batch.iter() {
        let op = op?;
        op.entry()?;
        let Some(id) = op.column_family() else {
            continue;
        };
        // Most batches write to one family, again and again.
        let family = match used.iter().position(|family| family.id == id) {
            Some(index) => &used[index],
            None => {
                let family = all.get(&id).ok_or_else(|| {
                    Error::invalid_argument(format!("column family {id} does not exist"))
                })?;
                if family.is_dropped() {
                    return Err(dropped(&family.name));
                }
                used.push(Arc::clone(family));
                family
            }
        };
        if let BatchOp::DeleteRange { begin, end, .. } = op
            && family.comparator.compare_user(begin, end).is_gt()
        {
            // RocksDB could not replay it, and would not open the database (FMT-1).
            return Err(Error::invalid_argument(
                "a range to be deleted ends before it begins",
            ));
        }
    }
    Ok(())
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
