//! The commit queue: writers wait in line, and the leader commits the batches of several.
//!
//! A writer that finds no leader becomes the leader: it takes the batches that wait after it in
//! line, has them committed as one group, hands out the results, and passes the lead to the next
//! writer in line. So at most one thread commits at a time, in the order of arrival, and one WAL
//! record and one sync serve a whole group.

use std::collections::VecDeque;
use std::hint::spin_loop;
use std::sync::Arc;

use crate::batch::WriteBatch;
use crate::error::{Error, Result};
use crate::format::SequenceNumber;
use crate::stats::perf_context;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Condvar, Mutex, thread};
use crate::write::WriteOptions;
use crate::write::conditions::Checked;
use crate::write::reentry::UserCode;

/// The most bytes of batches that are committed together.
const MAX_GROUP_BYTES: usize = 1 << 20;

/// A group whose leader has a small batch stays small, so that the small write need not wait for
/// large ones.
const SMALL_BATCH: usize = 128 << 10;

/// Number of checks for progress by a writer in line before it sleeps. A commit without a sync
/// takes a few microseconds, and waking a thread up takes ten times as long.
const SPINS: u32 = 200;
/// Number of checks after that, letting other threads run in between.
const YIELDS: u32 = 100;

/// Batches to commit together.
pub(crate) struct Group {
    pub(crate) batches: Vec<WriteBatch>,
    /// The options of all of them; `sync` if any of them asks for it.
    pub(crate) options: WriteOptions,
    /// The conditions of those batches that have any, each with the index of its batch.
    pub(crate) conditions: Vec<(usize, Box<Checked>)>,
    refused: Vec<Refused>,
}

/// A batch that was taken out of a group, by its index there.
struct Refused {
    index: usize,
    error: Error,
    batch: WriteBatch,
}

impl Group {
    /// A batch by itself.
    pub(crate) fn alone(batch: WriteBatch, options: WriteOptions) -> Self {
        Group {
            batches: vec![batch],
            options,
            conditions: Vec::new(),
            refused: Vec::new(),
        }
    }

    /// Adds a batch, the last one.
    pub(crate) fn push(&mut self, batch: WriteBatch, conditions: Option<Box<Checked>>) {
        if let Some(conditions) = conditions {
            self.conditions.push((self.batches.len(), conditions));
        }
        self.batches.push(batch);
    }

    /// Takes out a batch that cannot be committed, so that the others can be. Its writer gets
    /// `error`, and an empty batch stays in its place.
    pub(crate) fn refuse(&mut self, index: usize, error: Error) {
        invariant!(
            index < self.batches.len() && !self.is_refused(index),
            "batch {index} of {} is refused, and may have been before",
            self.batches.len()
        );
        if let Some(batch) = self.batches.get_mut(index) {
            let batch = std::mem::take(batch);
            self.refused.push(Refused {
                index,
                error,
                batch,
            });
        }
    }

    fn refused(&self, index: usize) -> Option<&Refused> {
        self.refused.iter().find(|refused| refused.index == index)
    }

    /// Whether a batch was taken out.
    pub(super) fn is_refused(&self, index: usize) -> bool {
        self.refused(index).is_some()
    }

    /// The result for a writer, if `result` holds for those that were not refused.
    pub(super) fn result_for(&self, index: usize, result: &Result<()>) -> Result<()> {
        match self.refused(index) {
            Some(refused) => Err(refused.error.clone()),
            None => result.clone(),
        }
    }

    /// The end for a writer, which gets its batch back as it gave it. To be called once for each.
    fn end_for(&mut self, index: usize, result: &Result<()>) -> End {
        let result = self.result_for(index, result);
        let refused = self.refused.iter_mut().find(|r| r.index == index);
        let batch = match refused {
            Some(refused) => Some(&mut refused.batch),
            None => self.batches.get_mut(index),
        };
        End {
            result,
            batch: batch.map(WriteBatch::lend),
        }
    }
}

/// The end of a writer's wait.
struct End {
    result: Result<()>,
    /// Its batch; lost if the thread that committed it panicked.
    batch: Option<WriteBatch>,
}

enum Progress {
    Waiting,
    /// This writer leads now.
    Lead,
    Done(End),
    /// This writer knows that it leads, or has its end.
    Over,
}

/// A batch and its conditions, if it has any.
type Submitted = (WriteBatch, Option<Box<Checked>>);

/// The bytes of the batch; 0 for a writer that wants to be alone.
fn size_of_batch(submitted: &Option<Submitted>) -> usize {
    submitted
        .as_ref()
        .map_or(0, |(batch, _)| batch.size_bytes())
}

/// A writer in line. One that finds nobody leading needs none.
struct Writer {
    /// Taken by the leader.
    submitted: Mutex<Option<Submitted>>,
    bytes: usize,
    /// `None` for a writer that wants to be alone.
    options: Option<WriteOptions>,
    progress: Mutex<Progress>,
    /// Whether `progress` is more than `Waiting`, to be read without the lock.
    has_moved_on: AtomicBool,
    moved_on: Condvar,
}

impl Writer {
    fn new(submitted: Option<Submitted>, options: Option<WriteOptions>) -> Arc<Self> {
        Arc::new(Writer {
            bytes: size_of_batch(&submitted),
            submitted: Mutex::new(submitted),
            options,
            progress: Mutex::new(Progress::Waiting),
            has_moved_on: AtomicBool::new(false),
            moved_on: Condvar::new(),
        })
    }

    /// The end of a writer whose batch no leader took.
    fn refused(&self, error: Error) -> End {
        let submitted = self.submitted.lock().take();
        End {
            result: Err(error),
            batch: submitted.map(|(batch, _)| batch),
        }
    }

    fn set(&self, progress: Progress) {
        let before = std::mem::replace(&mut *self.progress.lock(), progress);
        invariant!(
            matches!(before, Progress::Waiting),
            "a writer that leads, or has its result, gets another"
        );
        self.has_moved_on.store(true, Ordering::Release);
        self.moved_on.notify_one();
    }

    /// Waits until this writer leads, or has its end.
    fn wait(&self) -> Progress {
        self.spin();
        let mut progress = self.progress.lock();
        while matches!(*progress, Progress::Waiting) {
            self.moved_on.wait(&mut progress);
        }
        std::mem::replace(&mut *progress, Progress::Over)
    }

    /// Waits for a moment without sleeping, unless the wait is likely to be long.
    fn spin(&self) {
        // A model checker has no use for it: each look is one more step.
        let waits_for_device = self.options.is_none_or(|options| options.sync);
        if cfg!(any(loom, shuttle)) || waits_for_device {
            return;
        }
        for look in 0..SPINS + YIELDS {
            if self.has_moved_on.load(Ordering::Acquire) {
                return;
            }
            match look < SPINS {
                true => spin_loop(),
                false => thread::yield_now(),
            }
        }
    }
}

#[derive(Default)]
struct Line {
    led: bool,
    waiting: VecDeque<Arc<Writer>>,
}

impl Line {
    /// Makes the caller the leader, unless there is one.
    fn take_lead(&mut self) -> bool {
        !std::mem::replace(&mut self.led, true)
    }
}

/// See the module.
#[derive(Default)]
pub(crate) struct CommitQueue {
    line: Mutex<Line>,
}

impl CommitQueue {
    /// Commits `batch`, alone or in a group: the leader calls its own `commit`, which must do the
    /// same for every writer of a queue. Returns when the batch's group is done. The batch is as
    /// before then, also after a failure; but empty if the thread that committed it panicked.
    pub(crate) fn submit(
        &self,
        batch: &mut WriteBatch,
        conditions: Option<Box<Checked>>,
        options: WriteOptions,
        commit: impl FnOnce(&Lead<'_>, &mut Group) -> Result<()>,
    ) -> Result<()> {
        let mut lender = Lender {
            sequence: batch.sequence(),
            batch,
        };
        let submitted = Some((lender.batch.lend(), conditions));
        let submitted = match self.wait_for_lead(submitted, Some(options)) {
            Ok(submitted) => submitted,
            Err(end) => return lender.end(end),
        };
        let lead = Lead(self);
        let (mut group, followers) = self.gather(submitted, options);
        let mut followers = Followers(followers);
        let result = commit(&lead, &mut group);
        for (index, follower) in (1..).zip(followers.0.drain(..)) {
            follower.set(Progress::Done(group.end_for(index, &result)));
        }
        lender.end(group.end_for(0, &result))
    }

    /// Waits in line, then runs `f` while no batch is being committed.
    pub(crate) fn exclusive<T>(&self, f: impl FnOnce(&Lead<'_>) -> Result<T>) -> Result<T> {
        match self.wait_for_lead(None, None) {
            Ok(_) => f(&Lead(self)),
            // No leader takes a writer without options into its group.
            Err(End { result: Err(e), .. }) => Err(e),
            Err(End { result: Ok(()), .. }) => Err(Error::internal(
                "a writer left the commit queue without a result",
            )),
        }
    }

    /// Runs `f` while no batch is being committed, unless one is or another writer leads: then
    /// returns `None` at once.
    pub(crate) fn try_exclusive<T>(&self, f: impl FnOnce(&Lead<'_>) -> T) -> Option<T> {
        let leads = self.line.lock().take_lead();
        leads.then(|| f(&Lead(self)))
    }

    /// Number of writers that wait.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.line.lock().waiting.len()
    }

    /// Fails with `InvalidArgument` if this thread would wait for itself.
    pub(crate) fn check_may_wait(&self) -> Result<()> {
        match UserCode::is_under(self) {
            true => Err(Error::invalid_argument(
                "called from a commit hook or a barrier, this would wait for itself",
            )),
            false => Ok(()),
        }
    }

    /// Returns the submission of this writer when it leads, at once if nobody does, or its end if
    /// another one has led its group.
    fn wait_for_lead(
        &self,
        submitted: Option<Submitted>,
        options: Option<WriteOptions>,
    ) -> std::result::Result<Option<Submitted>, End> {
        if self.line.lock().take_lead() {
            return Ok(submitted);
        }
        // Made without the lock, which every writer wants.
        let writer = Writer::new(submitted, options);
        if let Err(e) = self.check_may_wait() {
            return Err(writer.refused(e));
        }
        {
            let mut line = self.line.lock();
            if line.take_lead() {
                return Ok(writer.submitted.lock().take());
            }
            line.waiting.push_back(Arc::clone(&writer));
        }
        gate!("queue: in line");
        let waited =
            perf_context::timed(|running| &running.write_thread_wait_nanos, || writer.wait());
        match waited {
            Progress::Done(end) => Err(end),
            _ => Ok(writer.submitted.lock().take()),
        }
    }

    /// The leader's batch and those after it in line that may join its group.
    fn gather(
        &self,
        leader: Option<Submitted>,
        options: WriteOptions,
    ) -> (Group, Vec<Arc<Writer>>) {
        let mut group = Group {
            batches: Vec::with_capacity(1),
            options,
            conditions: Vec::new(),
            refused: Vec::new(),
        };
        let of_leader = size_of_batch(&leader);
        if let Some((batch, conditions)) = leader {
            group.push(batch, conditions);
        }
        let mut followers = Vec::new();
        let mut bytes = of_leader;
        let limit = if bytes <= SMALL_BATCH {
            bytes + SMALL_BATCH
        } else {
            MAX_GROUP_BYTES
        };
        let mut line = self.line.lock();
        while let Some(next) = line.waiting.front() {
            let compatible = next.options.is_some_and(|o| {
                o.disable_wal == options.disable_wal && o.no_slowdown == options.no_slowdown
            });
            if !compatible || bytes + next.bytes > limit.max(of_leader) {
                break;
            }
            bytes += next.bytes;
            if !mutant!(follower_not_synced) {
                group.options.sync |= next.options.is_some_and(|o| o.sync);
            }
            if let Some((batch, conditions)) = next.submitted.lock().take() {
                group.push(batch, conditions);
            }
            followers.extend(line.waiting.pop_front());
        }
        invariant!(
            group.batches.len() == followers.len() + 1,
            "a group of {} batches has {} writers",
            group.batches.len(),
            followers.len() + 1
        );
        invariant!(
            group
                .conditions
                .iter()
                .all(|(at, _)| *at < group.batches.len()),
            "conditions of a batch that is not in the group"
        );
        (group, followers)
    }
}

/// The owner of a batch that was lent to the queue. If that never comes back, the owner gets an
/// empty one.
struct Lender<'b> {
    batch: &'b mut WriteBatch,
    /// The sequence number that the batch had.
    sequence: SequenceNumber,
}

impl Lender<'_> {
    fn end(&mut self, end: End) -> Result<()> {
        if let Some(batch) = end.batch {
            *self.batch = batch;
            self.batch.set_sequence(self.sequence);
        }
        end.result
    }
}

impl Drop for Lender<'_> {
    fn drop(&mut self) {
        if self.batch.is_lent() {
            *self.batch = WriteBatch::new();
        }
    }
}

/// The writers in a group besides its leader. If the leader panics, they get an error.
struct Followers(Vec<Arc<Writer>>);

impl Drop for Followers {
    fn drop(&mut self) {
        for follower in self.0.drain(..) {
            let lost = Error::internal("the thread that committed panicked");
            follower.set(Progress::Done(End {
                result: Err(lost),
                batch: None,
            }));
        }
    }
}

/// Proves that its thread leads the queue: no other commits a batch meanwhile. Passes the lead on
/// when dropped, also by a panic.
pub(crate) struct Lead<'a>(&'a CommitQueue);

impl Lead<'_> {
    /// To be held while code of the user runs with this lead: a call that would wait for the lead
    /// on this thread fails.
    pub(crate) fn user_code(&self) -> UserCode {
        UserCode::under(self.0)
    }

    /// Refuses with `error` the waiting writers whose options match.
    pub(crate) fn refuse_waiting(&self, matches: impl Fn(&WriteOptions) -> bool, error: &Error) {
        let mut line = self.0.line.lock();
        line.waiting.retain(|writer| {
            let refused = writer.options.as_ref().is_some_and(&matches);
            if refused {
                writer.set(Progress::Done(writer.refused(error.clone())));
            }
            !refused
        });
    }
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        let mut line = self.0.line.lock();
        invariant!(
            line.led || std::thread::panicking(),
            "the lead is passed on, and nobody led"
        );
        match line.waiting.pop_front() {
            Some(next) => next.set(Progress::Lead),
            None => line.led = false,
        }
    }
}

#[cfg(test)]
mod tests;
