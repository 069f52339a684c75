//! What all parts of an open database share.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::admission::Admission;
use super::failure::BackgroundFailure;
use super::family::Family;
use super::signals::Signals;
use super::state::State;
use super::wal_limit::WalLimit;
use crate::blob::ValueFetcher;
use crate::compaction::job_env::JobEnv;
use crate::error::{Error, ErrorKind, Result};
use crate::format::ColumnFamilyId;
use crate::gc::pace::Pace;
use crate::open_files::OpenFiles;
use crate::options::{DbOptions, TakenOptions};
use crate::read::{IteratorList, SnapshotList};
use crate::stats::{Listeners, Statistics};
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::thread::JoinHandle;
use crate::sync::{ArcSwap, Mutex};
use crate::version::{Counters, Moment, ObsoleteFiles, VersionSet, Watch};
use crate::vfs::{FileLock, Vfs};
use crate::write::batch::OpeningId;
use crate::write::pipeline::CommitPipeline;

/// The families by id; replaced whole when one is created or dropped. Ordered, so that every run
/// visits them in the same order.
pub(crate) type FamilyMap = BTreeMap<ColumnFamilyId, Arc<Family>>;

/// An open database, seen from inside. Handles, jobs and threads share it.
pub(crate) struct Shared {
    pub(super) opening: OpeningId,
    pub(super) dir: PathBuf,
    pub(super) options: DbOptions,
    /// Options that were taken over from the database.
    pub(super) taken: Vec<TakenOptions>,
    pub(super) vfs: Arc<dyn Vfs>,
    /// The same, without the files that a read-only database has in memory.
    pub(super) device: Arc<dyn Vfs>,
    /// The moment that is shown, if it is not the present.
    pub(super) moment: Option<Moment>,
    pub(super) statistics: Arc<Statistics>,
    pub(super) listeners: Listeners,
    pub(super) counters: Arc<Counters>,
    pub(super) open_files: Arc<OpenFiles>,
    pub(super) fetcher: ValueFetcher,
    pub(super) obsolete: Arc<ObsoleteFiles>,
    /// Called back when a version ends for which a collection copied records.
    pub(super) version_watch: Arc<Watch>,
    /// The lock on the directory until it is released. Held while obsolete files are deleted: a
    /// thread that waits for it finds them gone, and none is deleted once the directory is another
    /// process's.
    pub(super) directory: Mutex<Option<Box<dyn FileLock>>>,
    pub(super) pace: Pace,
    pub(super) env: JobEnv,
    pub(super) snapshots: Arc<SnapshotList>,
    pub(super) iterators: Arc<IteratorList>,
    pub(super) families: ArcSwap<FamilyMap>,
    pub(super) pipeline: CommitPipeline,
    pub(super) versions: Mutex<VersionSet>,
    pub(super) state: Mutex<State>,
    pub(super) signals: Arc<Signals>,
    pub(super) admission: Admission,
    /// Families whose memtable a commit has filled; the next one switches it.
    pub(super) filled: Mutex<Vec<ColumnFamilyId>>,
    pub(super) wal_limit: WalLimit,
    pub(super) failure: BackgroundFailure,
    /// Set once, when the database closes; running compactions end early.
    pub(super) closing: AtomicBool,
    /// Held while a checkpoint is made, one at a time.
    pub(super) checkpoints: Mutex<()>,
}

impl Shared {
    /// Fails with `Closed` once the database is closed.
    pub(super) fn check_open(&self) -> Result<()> {
        if self.closing.load(Ordering::Acquire) {
            return Err(Error::new(ErrorKind::Closed, "the database is closed").in_file(&self.dir));
        }
        Ok(())
    }

    pub(super) fn family(&self, id: ColumnFamilyId) -> Option<Arc<Family>> {
        self.families.load().get(&id).cloned()
    }
}

/// Ends when the last handle is dropped: first the threads, then the lock on the directory.
pub(crate) struct Core {
    pub(super) shared: Arc<Shared>,
    pub(super) threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Core {
    /// Stops background jobs and releases the directory. Logged writes that are only in memtables
    /// are replayed at the next opening; unlogged ones are flushed first.
    pub(super) fn close(&self) -> Result<()> {
        let mut threads = self.threads.lock();
        if self.shared.closing.load(Ordering::Acquire) {
            return Ok(());
        }
        // Batches that wait in the queue by now are committed and later ones are refused, so
        // nothing unlogged comes after the flush.
        let pipeline = &self.shared.pipeline;
        pipeline.close();
        let unlogged = pipeline.exclusive(|_| Ok(self.shared.families_with_unlogged_writes()))?;
        let flushed = if unlogged.is_empty() {
            Ok(())
        } else {
            self.shared.flush(&unlogged)
        };
        // The queue empties first, so that no commit meets a closed database half way.
        let synced = pipeline.exclusive(|lead| {
            // After a failure nothing more can be promised, and the caller must know.
            let synced = match self.shared.failure.read_only {
                true => Ok(()),
                false => self.shared.failure.check(),
            };
            let synced = synced.and_then(|()| self.shared.sync_wal(lead));
            self.shared.closing.store(true, Ordering::Release);
            synced
        });
        self.shared.signals.raise_all();
        gate!("close: threads to be joined");
        for thread in threads.drain(..) {
            // Nothing is left to be done about a thread that panicked.
            let _ = thread.join();
        }
        // Jobs on threads of users must not outlive the lock either.
        // MUTANT: closing does not wait for jobs on threads of users.
        if !mutant!(
            "close-forgets-jobs-of-users",
            "-p titan --lib db::races::compactions::closing_waits"
        ) {
            self.shared.wait_for_running_jobs();
        }
        gate!("close: jobs have ended");
        // Nor a checkpoint, which ends early now: the next opening deletes what it may yet link.
        drop(self.shared.checkpoints.lock());
        self.shared.purge();
        // The WAL's file is closed while the directory is still ours: closing cuts the zeros at its
        // end.
        pipeline.close_wal();
        *self.shared.directory.lock() = None;
        flushed.and(synced)
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        if let Err(e) = self.close() {
            self.shared.listeners.notify(|l| l.writes_stopped(&e));
        }
    }
}
