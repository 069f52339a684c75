//! A database's part in an `Env`.

use std::sync::Arc;

use super::member::{Member, Threads};
use super::order::Priority;
use super::pool::Desk;
use super::write_buffers::Account;
use super::{Env, EnvId, Parts};
use crate::error::{Error, Result};
use crate::format::OpeningId;
use crate::stats::Statistics;

/// See the module. It counts from the beginning until [`leave`](Membership::leave), and from
/// [`join`](Membership::join) on threads serve it.
pub(crate) struct Membership {
    id: OpeningId,
    parts: Arc<Parts>,
    /// The memory of its memtables.
    pub(crate) write_buffers: Arc<Account>,
}

impl Membership {
    /// A database is being opened, perhaps to be read only; `statistics` count the operations of
    /// its users. Nothing serves it yet.
    pub(crate) fn in_env(env: &Env, id: OpeningId, statistics: &Arc<Statistics>) -> Self {
        let parts = Arc::clone(&env.parts);
        parts.activity.add(id, statistics);
        parts.data_sizes.add(id);
        Membership {
            id,
            write_buffers: parts.write_buffers.open(id),
            parts,
        }
    }

    /// The `Env`, if other databases may have it, too.
    pub(crate) fn shared(&self) -> Option<EnvId> {
        self.parts.is_shared.then_some(self.parts.id)
    }

    /// The databases of the `Env`, and its threads.
    pub(crate) fn counts(&self) -> (usize, usize) {
        self.parts.pool.counts()
    }

    /// Bytes of the memtables of the whole `Env`, and their bound, if there is one.
    pub(crate) fn write_buffer_use(&self) -> Option<(u64, u64)> {
        let buffers = &self.parts.write_buffers;
        buffers.bound().map(|bound| (buffers.usage(), bound))
    }

    /// The id of the opening.
    pub(crate) fn id(&self) -> OpeningId {
        self.id
    }

    /// The parts that it shares with others.
    pub(crate) fn parts(&self) -> &Parts {
        &self.parts
    }

    /// Its work for the threads of one kind.
    pub(crate) fn desk(&self, threads: Threads) -> Desk {
        Desk::new(&self.parts.pool, self.id, threads)
    }

    /// The threads serve `member` from now on, up to `max_jobs` workers at once.
    ///
    /// # Errors
    /// `Io` if a thread cannot be started; the caller must leave all the same.
    pub(crate) fn join(
        &self,
        member: Arc<dyn Member>,
        max_jobs: usize,
        warms_up: bool,
    ) -> Result<()> {
        let pool = &self.parts.pool;
        pool.attach(self.id, member, max_jobs, warms_up)
    }

    /// Changes how many workers there are, if that is given, and how many may serve it at once.
    /// `numbers` are asked for when no other change is under way, so the last change counts.
    ///
    /// # Errors
    /// `Io` if a thread cannot be started.
    pub(crate) fn resize(&self, numbers: impl FnOnce() -> (Option<usize>, usize)) -> Result<()> {
        self.parts.pool.resize(self.id, numbers)
    }

    /// Fails with `InvalidArgument` in a job of the database, which the caller would wait for.
    pub(crate) fn check_not_in_a_job(&self) -> Result<()> {
        match self.parts.pool.is_served_here(self.id) {
            true => Err(Error::invalid_argument(
                "called in a background job of the database, this would wait for that job",
            )),
            false => Ok(()),
        }
    }

    /// Whether this is a thread of the `Env`, in a job of some database.
    pub(crate) fn is_on_its_thread(&self) -> bool {
        self.parts.pool.is_of_this_thread()
    }

    /// No thread serves it any more. Waits for its jobs, so the caller must not be in one.
    pub(crate) fn leave(&self) {
        self.count_no_more();
        self.parts.pool.detach(self.id);
    }

    fn count_no_more(&self) {
        self.parts.activity.remove(self.id);
        self.parts.write_buffers.close(self.id);
        self.parts.data_sizes.remove(self.id);
    }

    /// Says how urgent its jobs are, and whether its writes are stalled or soon will be.
    pub(crate) fn set_priority(&self, priority: Priority, is_urgent: bool) {
        self.parts.pool.set_priority(self.id, priority, is_urgent);
    }

    /// Whether the writes of any database are stalled, or soon will be.
    pub(crate) fn is_any_urgent(&self) -> bool {
        self.parts.pool.is_urgent()
    }

    /// Whether another database waits for the thread that collects garbage, and its writes are
    /// delayed for the space that it takes.
    pub(crate) fn is_collector_awaited_by_another(&self) -> bool {
        self.parts.pool.is_collector_awaited_beside(self.id)
    }

    /// The files of this database have so many bytes. Returns those of the files of all.
    pub(crate) fn note_data(&self, bytes: u64) -> u64 {
        self.parts.data_sizes.set(self.id, bytes)
    }

    /// Numbers of the workers that there are.
    #[cfg(test)]
    pub(crate) fn workers(&self) -> std::collections::BTreeSet<usize> {
        self.parts.pool.workers()
    }

    /// Asks another database to look for a memtable to seal.
    pub(crate) fn wake(&self, other: OpeningId) {
        Desk::new(&self.parts.pool, other, Threads::Workers).raise();
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        // It may never have joined.
        self.count_no_more();
    }
}
