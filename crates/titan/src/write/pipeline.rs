//! The commit pipeline: how batches become part of the database.
//!
//! Owns the commit queue, the WAL files being written, and the publication of sequence numbers. The
//! leader of the queue takes a group of batches through these stages, one group at a time:
//!
//! | stage | work |
//! |---|---|
//! | admit | make room in memtables; wait while writes are stalled |
//! | resolve | find the memtables; refuse batches that cannot be applied |
//! | validate | refuse batches with a condition that does not hold any more |
//! | number | give each operation its sequence number, in the order of arrival |
//! | log | append the group to the WAL as one record; sync it if a writer asks for that |
//! | insert | add the operations to the memtables |
//! | hook | show them to the [commit hook](super::hook), if there is one |
//! | publish | show them to readers, and tell the hook |
//!
//! Promises: a batch is visible to readers whole or not at all, and in the order of the WAL. After
//! a failure from the log stage on, writes have stopped, and nothing of the group is ever visible.
//!
//! Assumes that the database, a [`CommitEnv`], switches memtables only as the leader. Functions
//! that only the leader may call take its [`Lead`], which the queue gives out.

use std::cmp::Ordering as KeyOrdering;
use std::iter;
use std::sync::Arc;

use crate::batch::{BatchOp, WriteBatch, group_header};
use crate::error::{Error, Result};
use crate::format::{ColumnFamilyId, FileNumber, SequenceNumber};
use crate::memtable::Memtable;
use crate::stats::{self, HistogramKind, Statistics, perf_context};
use crate::version::Counters;
use crate::write::WriteOptions;
use crate::write::conditions::{Checked, Condition};
use crate::write::hook::Hook;
use crate::write::predecessor::Predecessor;
use crate::write::queue::{CommitQueue, Group, Lead};
use crate::write::sync_record::WalPosition;
use crate::write::validate::{Validator, validate};
use crate::write::wal_set::WalSet;

/// Environment of the pipeline.
pub(crate) trait CommitEnv {
    /// State of a family that is written to.
    type Family;

    /// Fails if no write may be accepted.
    fn check_writable(&self) -> Result<()>;

    /// Makes room in memtables for the group, and waits while writes are stalled.
    fn admit(&self, lead: &Lead<'_>, group: &Group) -> Result<()>;

    /// Fails if the family takes no merge operands.
    fn check_merges(&self, family: &Self::Family) -> Result<()>;

    /// The memtable that takes writes of a family until the group is published. Fails if there is
    /// no such family.
    fn target(&self, id: ColumnFamilyId) -> Result<Target<Self::Family>>;

    /// Fails with `Conflict` if the key of `condition` has a published write that is newer than
    /// `checked_to`, and with `InvalidArgument` if the family does not exist. `is_newer` says
    /// whether anything was published since.
    fn validate(
        &self,
        condition: &Condition,
        checked_to: SequenceNumber,
        is_newer: bool,
    ) -> Result<()>;

    /// The error for a condition that does not hold.
    fn conflict(&self, condition: &Condition) -> Error;

    /// Stops writes because of `error`, and returns it.
    fn stop(&self, error: Error) -> Error;

    /// Stops writes because a commit panicked. Called while the thread unwinds.
    fn stop_after_panic(&self);

    /// The group, whose last operation is `last`, is in the memtables, and not visible yet.
    fn inserted(&self, targets: &[Target<Self::Family>], group: &Group, last: SequenceNumber);

    /// The group is visible.
    fn published(&self, targets: &[Target<Self::Family>]);
}

/// A family that a group writes to.
pub(crate) struct Target<F> {
    pub(crate) id: ColumnFamilyId,
    pub(crate) family: F,
    pub(crate) memtable: Arc<Memtable>,
}

/// See the module.
pub(crate) struct CommitPipeline {
    queue: CommitQueue,
    wal: WalSet,
    counters: Arc<Counters>,
    statistics: Arc<Statistics>,
    hook: Option<Hook>,
}

/// Stops writes because of `error`, unless no file descriptor was left: then nothing was written,
/// synced or created. Returns the error.
fn stop_unless_nothing_was_done(env: &impl CommitEnv, error: Error) -> Error {
    match error.is_out_of_descriptors() {
        true => error,
        false => env.stop(error),
    }
}

impl CommitPipeline {
    /// Without a current WAL file: call [`CommitPipeline::start_first_wal`] before the first write.
    pub(crate) fn new(
        wal: WalSet,
        counters: Arc<Counters>,
        statistics: Arc<Statistics>,
        hook: Option<Hook>,
    ) -> Self {
        CommitPipeline {
            queue: CommitQueue::default(),
            wal,
            counters,
            statistics,
            hook,
        }
    }

    /// The first WAL file continues one of an earlier opening.
    pub(crate) fn continue_after(&mut self, predecessor: Predecessor, end: WalPosition) {
        self.wal.continue_after(predecessor, end);
    }

    /// Starts the first WAL file, before any thread can write.
    pub(crate) fn start_first_wal(&mut self, number: FileNumber) -> Result<()> {
        self.start_next(number)
    }

    /// Commits a batch, alone or in a group, if its conditions hold. It is as before then: see
    /// [`CommitQueue::submit`].
    pub(crate) fn write(
        &self,
        env: &impl CommitEnv,
        batch: &mut WriteBatch,
        conditions: Option<Box<Checked>>,
        options: WriteOptions,
    ) -> Result<()> {
        let commit = |lead: &Lead<'_>, group: &mut Group| self.commit(env, lead, group);
        self.queue.submit(batch, conditions, options, commit)
    }

    /// The hook that sees every group.
    pub(crate) fn hook(&self) -> Option<&Hook> {
        self.hook.as_ref()
    }

    /// Fails with `InvalidArgument` if this thread leads the queue, in a hook or a barrier.
    pub(crate) fn check_may_wait(&self) -> Result<()> {
        self.queue.check_may_wait()
    }

    /// Runs `f` while no batch is being committed.
    pub(crate) fn exclusive<T>(&self, f: impl FnOnce(&Lead<'_>) -> Result<T>) -> Result<T> {
        self.queue.exclusive(f)
    }

    /// The same, unless the caller would have to wait for that: then returns `None` at once.
    pub(crate) fn try_exclusive<T>(&self, f: impl FnOnce(&Lead<'_>) -> T) -> Option<T> {
        self.queue.try_exclusive(f)
    }

    fn commit(&self, env: &impl CommitEnv, lead: &Lead<'_>, group: &mut Group) -> Result<()> {
        env.check_writable()?;
        let mut unfinished = StopOnPanic { env, over: false };
        let outcome = self.commit_group(env, lead, group);
        unfinished.over = true;
        outcome
    }

    fn commit_group(&self, env: &impl CommitEnv, lead: &Lead<'_>, group: &mut Group) -> Result<()> {
        env.admit(lead, group)?;
        let targets = resolve(env, group);
        if !group.conditions.is_empty() {
            let published = self.counters.last_sequence();
            let validator = GroupValidator {
                env,
                targets: &targets,
                published,
            };
            validate(group, &validator);
            gate!("commit: validated");
        }
        if group.batches.iter().all(WriteBatch::is_empty) {
            return Ok(());
        }
        let (first, last) = self.number(group)?;
        let logged = !group.options.disable_wal;
        if logged {
            // ORDER: the WAL before the memtables, and durable before the acknowledgement (WAL-1).
            if group.options.sync {
                // Here, and not with the record: for want of a file descriptor only this may fail,
                // and then nothing was written.
                let named = self.wal.sync_names_before_contents();
                named
                    .map_err(|e| stop_unless_nothing_was_done(env, e.context("writing the WAL")))?;
            }
            self.log(group, first, last).map_err(|e| {
                let e = e.context("writing the WAL");
                if mutant!(writes_go_on_after_a_failure) {
                    return e;
                }
                env.stop(e)
            })?;
        }
        gate!("commit: logged");
        if mutant!(sequence_published_early) {
            self.counters.publish_sequence(last);
        }
        let unpublished = Unpublished {
            targets,
            published: self.counters.last_sequence(),
        };
        let insert = || insert(group, &unpublished.targets);
        let inserted = perf_context::timed(|running| &running.write_memtable_time, insert);
        let user_bytes = inserted.map_err(|e| env.stop(e.context("inserting into a memtable")))?;
        env.inserted(&unpublished.targets, group, last);
        gate!("commit: inserted");
        if mutant!(hook_after_publish) {
            self.counters.publish_sequence(last);
        }
        if let Some(hook) = &self.hook
            && first <= last
        {
            // ORDER: before the group is visible, so that data that the hook maintains is never
            // older than the data that a reader sees.
            hook.before_publish(lead, first, &group.batches);
            if mutant!(tickets_before_publish) {
                hook.after_publish(lead, &group.batches);
            }
        }
        let targets = unpublished.publish(&self.counters, last);
        gate!("commit: published");
        if let Some(hook) = &self.hook {
            // ORDER: after the group is visible, and before any of its writers returns.
            hook.after_publish(lead, &group.batches);
        }
        env.published(&targets);
        stats::add(&self.statistics.write_groups, 1);
        stats::add(&self.statistics.keys_written, last.0 + 1 - first.0);
        stats::add(&self.statistics.user_bytes_written, user_bytes);
        if let Some(detailed) = self.statistics.detailed() {
            detailed.record(HistogramKind::BytesPerWrite, user_bytes);
        }
        Ok(())
    }

    /// Gives the operations of the group their sequence numbers. Returns the first and the last;
    /// the last is one less than the first if there are none.
    fn number(&self, group: &mut Group) -> Result<(SequenceNumber, SequenceNumber)> {
        let counts = group.batches.iter().map(|batch| u64::from(batch.count()));
        let (first, last) = self.counters.next_sequences(counts.sum())?;
        let mut next = first;
        for batch in &mut group.batches {
            batch.set_sequence(next);
            next = next.plus(u64::from(batch.count()));
        }
        invariant!(
            group
                .batches
                .windows(2)
                .all(|pair| pair[0].sequence() <= pair[1].sequence()),
            "batches of a group are numbered out of order"
        );
        Ok((first, last))
    }

    /// Appends the group to the WAL as one record, and syncs it if asked to.
    fn log(&self, group: &Group, first: SequenceNumber, last: SequenceNumber) -> Result<()> {
        let count: u64 = group.batches.iter().map(|b| u64::from(b.count())).sum();
        let count = u32::try_from(count)
            .map_err(|_| Error::invalid_argument("a group of batches has too many operations"))?;
        // Recovery numbers the operations of a record from the first one on.
        invariant!(
            durable: first.0 + u64::from(count) == last.0 + 1,
            "a record of {count} operations has the numbers {first} to {last}"
        )?;
        let published = self.counters.last_sequence();
        invariant!(
            durable: first == published.plus(1),
            "a record begins with operation {first}, and {published} is the last one published"
        )?;
        let header = group_header(first, count);
        let operations = group.batches.iter().map(WriteBatch::operations);
        let parts: Vec<&[u8]> = iter::once(&header[..]).chain(operations).collect();
        // Log data alone takes no sequence number.
        self.wal
            .append(&parts, first, (count > 0).then_some(last))?;
        let left_out = mutant!(wal_sync_left_out);
        if group.options.sync && !left_out {
            self.wal.sync()?;
        }
        Ok(())
    }

    /// Makes every logged write durable. Called also before families change: after a crash,
    /// everything up to some moment is there, and never a later change without an earlier write.
    pub(crate) fn sync(&self, _: &Lead<'_>, env: &impl CommitEnv) -> Result<()> {
        let synced = self.wal.sync();
        synced.map_err(|e| stop_unless_nothing_was_done(env, e.context("syncing the WAL")))
    }

    /// Starts the WAL file `number`. Returns the bytes of the one that this closes.
    pub(crate) fn start_wal(
        &self,
        _: &Lead<'_>,
        env: &impl CommitEnv,
        number: FileNumber,
    ) -> Result<u64> {
        let closed_size = self.wal.current_size();
        let started = self.start_next(number);
        started.map_err(|e| stop_unless_nothing_was_done(env, e.context("starting a WAL")))?;
        Ok(closed_size)
    }

    fn start_next(&self, number: FileNumber) -> Result<()> {
        let next = self.counters.last_sequence().plus(1);
        self.wal.start(number, next)
    }

    /// Ends the current WAL file after a failed append; see [`WalSet::end_after_failed_append`].
    pub(crate) fn end_wal_after_failed_append(&self, _: &Lead<'_>) -> Result<()> {
        let published = self.counters.last_sequence();
        self.wal.end_after_failed_append(published)
    }

    /// Forgets all WAL files, whose operations are durable elsewhere or about to be.
    pub(crate) fn abandon_wal(&self, _: &Lead<'_>) {
        self.wal.abandon();
    }

    /// The operations of WAL files that were abandoned are durable elsewhere.
    pub(crate) fn wal_replaced(&self, _: &Lead<'_>) {
        self.wal.replaced();
    }

    /// Closes the current WAL file, after the last write.
    pub(crate) fn close_wal(&self) {
        self.wal.close(self.counters.last_sequence().plus(1));
    }

    /// Makes the closed WAL files durable. Commits go on meanwhile.
    pub(crate) fn sync_closed_wals(&self) -> Result<()> {
        self.wal.sync_closed()
    }

    /// Makes the names of all WAL files durable. Commits go on meanwhile.
    pub(crate) fn sync_wal_names(&self) -> Result<()> {
        self.wal.sync_names()
    }

    /// Drops closed WAL files that are no longer needed, synced or not.
    pub(crate) fn forget_wals_before(&self, number: FileNumber) {
        self.wal.forget_before(number);
    }

    /// Number of writers that wait.
    #[cfg(all(test, not(any(loom, shuttle))))]
    pub(super) fn writers_in_line(&self) -> usize {
        self.queue.waiting()
    }

    /// Bytes appended to the current WAL file.
    pub(crate) fn current_wal_size(&self) -> u64 {
        self.wal.current_size()
    }
}

/// Stops writes if a commit panics half way: the WAL may have sequence numbers already that the
/// next group would use again.
struct StopOnPanic<'a, E: CommitEnv> {
    env: &'a E,
    /// The commit has ended. `thread::panicking` does not tell: a destructor may commit while its
    /// thread unwinds from something else.
    over: bool,
}

impl<E: CommitEnv> Drop for StopOnPanic<'_, E> {
    fn drop(&mut self) {
        let confused = mutant!(unwinding_taken_for_a_panic_of_the_commit);
        if !self.over || (confused && std::thread::panicking()) {
            self.env.stop_after_panic();
        }
    }
}

/// The memtables that a group is inserted into. If this ends without the group being published, by
/// an error or a panic, nothing of the group ever becomes part of the database.
struct Unpublished<F> {
    targets: Vec<Target<F>>,
    /// Newest visible sequence number of the memtables.
    published: SequenceNumber,
}

impl<F> Unpublished<F> {
    /// Publishes the group, whose last operation is `last`.
    fn publish(mut self, counters: &Counters, last: SequenceNumber) -> Vec<Target<F>> {
        // A group of log data alone publishes nothing new.
        invariant!(
            last >= self.published,
            "operations up to {last} are published after {}",
            self.published
        );
        counters.publish_sequence(last);
        invariant!(
            counters.last_sequence() == last,
            "operations after {last} are visible, up to {}",
            counters.last_sequence()
        );
        std::mem::take(&mut self.targets)
    }
}

impl<F> Drop for Unpublished<F> {
    fn drop(&mut self) {
        for target in &self.targets {
            if !mutant!(failed_commit_half_visible) {
                target.memtable.refuse_after(self.published);
            }
        }
    }
}

/// Validates conditions while `published` is the newest sequence number that is published, or that
/// any operation has.
struct GroupValidator<'a, E: CommitEnv> {
    env: &'a E,
    targets: &'a [Target<E::Family>],
    published: SequenceNumber,
}

impl<E: CommitEnv> Validator for GroupValidator<'_, E> {
    fn validate(&self, condition: &Condition, checked_to: SequenceNumber) -> Result<()> {
        let overlooked = mutant!(published_since_the_check_overlooked);
        let is_newer = self.published > checked_to && !overlooked;
        self.env.validate(condition, checked_to, is_newer)
    }

    fn conflict(&self, condition: &Condition) -> Error {
        self.env.conflict(condition)
    }

    fn compare(&self, family: ColumnFamilyId, a: &[u8], b: &[u8]) -> KeyOrdering {
        match self.targets.iter().find(|target| target.id == family) {
            Some(target) => target.memtable.comparator().compare_user(a, b),
            None => a.cmp(b),
        }
    }
}

/// The families that the group writes to. Batches that cannot be applied are refused here, before
/// anything is changed: the WAL must be replayable.
fn resolve<E: CommitEnv>(env: &E, group: &mut Group) -> Vec<Target<E::Family>> {
    let mut targets = Vec::new();
    for index in 0..group.batches.len() {
        let Some(batch) = group.batches.get(index) else {
            break;
        };
        if let Err(e) = resolve_batch(env, batch, &mut targets) {
            group.refuse(index, e);
        }
    }
    targets
}

/// Adds the families that a batch writes to.
fn resolve_batch<E: CommitEnv>(
    env: &E,
    batch: &WriteBatch,
    targets: &mut Vec<Target<E::Family>>,
) -> Result<()> {
    for op in batch.iter() {
        let op = op?;
        op.entry()?;
        let Some(id) = op.column_family() else {
            continue;
        };
        // Most batches write to one family, again and again.
        let target = match targets.iter().position(|target| target.id == id) {
            Some(index) => &targets[index],
            None => {
                targets.push(env.target(id)?);
                &targets[targets.len() - 1]
            }
        };
        if let BatchOp::Merge { .. } = op {
            env.check_merges(&target.family)?;
        }
        if let BatchOp::DeleteRange { begin, end, .. } = op
            && target
                .memtable
                .comparator()
                .compare_user(begin, end)
                .is_gt()
        {
            // RocksDB could not replay it, and would not open the database (FMT-1).
            return Err(Error::invalid_argument(
                "a range to be deleted ends before it begins",
            ));
        }
    }
    Ok(())
}

/// Inserts all operations; returns the bytes of their keys and values.
fn insert<F>(group: &Group, targets: &[Target<F>]) -> Result<u64> {
    let mut bytes = 0;
    for batch in &group.batches {
        let mut sequence = batch.sequence();
        for op in batch.iter() {
            let op = op?;
            let Some((value_type, key, value)) = op.entry()? else {
                continue;
            };
            let id = op.column_family();
            let Some(target) = targets.iter().find(|target| Some(target.id) == id) else {
                return Err(Error::internal(
                    "a batch names a family it did not name before",
                ));
            };
            invariant!(
                sequence < batch.sequence().plus(u64::from(batch.count())),
                "an operation gets number {sequence}, which its batch does not have"
            );
            target.memtable.add(sequence, value_type, key, value)?;
            gate!("commit: entry inserted");
            sequence = sequence.plus(1);
            bytes += (key.len() + value.len()) as u64;
        }
    }
    Ok(bytes)
}
