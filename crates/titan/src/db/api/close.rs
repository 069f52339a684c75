//! Closing the database, at the latest when the last handle is dropped.
//!
//! Closing waits for jobs. So where the last handle is dropped in a job, on a thread of the `Env`
//! or in a compaction filter, the database is closed by a thread of its own.

use std::sync::Arc;

use crate::db::core::shared::{Core, Shared};
use crate::error::{Error, ErrorKind, Result};
use crate::filter::check_may_wait_for_jobs;
use crate::gates;
use crate::stats::notify;
use crate::sync::{Mutex, thread};

impl Shared {
    /// Ends the waits of transactions, now that the database is closed: the locks that they wait
    /// for may never be released.
    fn end_waits_for_locks(&self) {
        if let Err(closed) = self.check_open() {
            self.admission.locks.close(closed);
        }
    }
}

impl Core {
    /// Closes the database for a caller that has a handle. See [`Core::end`].
    ///
    /// # Errors
    /// Those of [`Core::end`]; `InvalidArgument` in a job of the database.
    pub(crate) fn close(&self) -> Result<()> {
        // Before any lock, which a thread that is not in this process may have had.
        self.shared.lifecycle.check_not_inherited()?;
        // Before the lock, whose holder may wait for that job.
        self.shared.opening.env.check_not_in_a_job()?;
        self.end()
    }

    /// Stops background jobs and releases the directory. Logged writes that are only in memtables
    /// are replayed at the next opening; unlogged ones are flushed first.
    fn end(&self) -> Result<()> {
        // Before the lock, whose holder may wait for the hook or barrier that this is called in.
        self.shared.pipeline.check_may_wait()?;
        check_may_wait_for_jobs()?;
        let _closing = self.closing.lock();
        if self.shared.lifecycle.is_closed() {
            return Ok(());
        }
        // So that nothing unlogged comes after the flush.
        self.shared.lifecycle.refuse_batches();
        let pipeline = &self.shared.pipeline;
        let unlogged = pipeline.exclusive(|_| Ok(self.shared.families_with_unlogged_writes()))?;
        let flushed = if unlogged.is_empty() {
            Ok(())
        } else {
            self.shared.flush(&unlogged)
        };
        // The queue empties first, so that no commit meets a closed database half way.
        let synced = pipeline.exclusive(|lead| {
            // After a failure nothing more can be promised, and the caller must know.
            let synced = self.shared.failure.check();
            let synced = synced.and_then(|()| self.shared.sync_wal(lead));
            self.shared.lifecycle.close();
            synced
        });
        self.shared.signals.raise_all();
        self.shared.end_waits_for_locks();
        gate!("close: threads to be waited for");
        self.shared.opening.env.leave();
        // Jobs on threads of users must not outlive the lock either.
        if !mutant!(close_forgets_jobs_of_users) {
            self.shared.wait_for_running_jobs();
        }
        gate!("close: jobs have ended");
        // Nor a checkpoint, which ends early now: the next opening deletes files that it may yet
        // link.
        drop(self.shared.lifecycle.checkpoint());
        self.shared.purge();
        // The WAL's file is closed while the directory is still ours: closing cuts the zeros at its
        // end.
        pipeline.close_wal();
        self.shared.files.release();
        flushed.and(synced)
    }
}

/// Closes the database on a thread of its own, which nobody waits for. If that cannot be started,
/// the directory stays locked until the process ends, and unlogged writes are not flushed: nothing
/// else is lost.
fn end_elsewhere(shared: &Arc<Shared>) {
    let ending = Arc::clone(shared);
    let end = move || {
        drop(Core {
            shared: ending,
            closing: Mutex::default(),
        });
    };
    let thread = thread::Builder::new().name("titan-close".to_owned());
    if let Err(e) = thread.spawn(gates::inherit(end)) {
        let error = Error::new(ErrorKind::Io, format!("cannot start a thread: {e}"));
        let error = error.context("closing the database");
        notify!(shared.opening.listeners, writes_stopped(&error));
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        if self.shared.lifecycle.is_inherited() {
            // The parent goes on with its files and locks, and with the threads. They are not here,
            // so none of them can be waited for.
            std::mem::forget(Arc::clone(&self.shared));
            return;
        }
        if self.shared.lifecycle.is_closed() {
            return;
        }
        let in_a_filter = check_may_wait_for_jobs().is_err();
        if in_a_filter || self.shared.opening.env.is_on_its_thread() {
            return end_elsewhere(&self.shared);
        }
        if let Err(e) = self.end() {
            notify!(self.shared.opening.listeners, writes_stopped(&e));
        }
    }
}
