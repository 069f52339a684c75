//! What all parts of an open database share.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::failure::BackgroundFailure;
use super::family::Family;
use super::stall_news::StallNews;
use super::state::State;
use super::wal_limit::WalLimit;
use crate::blob::ValueFetcher;
use crate::compaction::factory::FileFactory;
use crate::error::{Error, ErrorKind, Result};
use crate::format::ColumnFamilyId;
use crate::gc::pace::Pace;
use crate::open_files::OpenFiles;
use crate::options::{DbOptions, TakenOptions};
use crate::read::{IteratorList, SnapshotList};
use crate::stats::{Listeners, Statistics};
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::thread::JoinHandle;
use crate::sync::{ArcSwap, Condvar, Mutex};
use crate::version::{Counters, Moment, ObsoleteFiles, VersionSet, Watch};
use crate::vfs::{FileLock, Vfs};
use crate::write::batch::OpeningId;
use crate::write::queue::CommitQueue;
use crate::write::wal_set::WalSet;

/// The families by id; replaced whole when one is created or dropped. In order, so that whoever
/// goes through them does so in the same order in every run.
pub(crate) type FamilyMap = BTreeMap<ColumnFamilyId, Arc<Family>>;

/// An open database, seen from inside. Handles, jobs and threads share it.
pub(crate) struct Shared {
    pub(super) opening: OpeningId,
    pub(super) dir: PathBuf,
    pub(super) options: DbOptions,
    /// Options that were taken over.
    pub(super) taken: Vec<TakenOptions>,
    pub(super) vfs: Arc<dyn Vfs>,
    /// The same, without what is only in memory where the database is open for reading.
    pub(super) device: Arc<dyn Vfs>,
    /// What is shown, where that is not what is there now.
    pub(super) moment: Option<Moment>,
    pub(super) statistics: Arc<Statistics>,
    pub(super) listeners: Listeners,
    pub(super) counters: Arc<Counters>,
    pub(super) open_files: Arc<OpenFiles>,
    pub(super) fetcher: ValueFetcher,
    pub(super) obsolete: Arc<ObsoleteFiles>,
    /// Told when a version ends that a collection copied something for.
    pub(super) version_watch: Arc<Watch>,
    /// The lock on the directory until it is given free. Obsolete files are deleted with this
    /// held: whoever waits for it finds them gone, and none goes once the directory is another's.
    pub(super) directory: Mutex<Option<Box<dyn FileLock>>>,
    pub(super) pace: Pace,
    pub(super) factory: FileFactory,
    pub(super) snapshots: Arc<SnapshotList>,
    pub(super) iterators: Arc<IteratorList>,
    pub(super) families: ArcSwap<FamilyMap>,
    pub(super) commits: CommitQueue,
    pub(super) wal: WalSet,
    pub(super) versions: Mutex<VersionSet>,
    pub(super) state: Mutex<State>,
    /// Signalled when there may be a flush or a compaction for a background thread.
    pub(super) work: Condvar,
    /// Signalled when something has changed that someone may wait for.
    pub(super) progress: Condvar,
    /// Signalled when there may be something to do for the thread that collects garbage.
    pub(super) collector: Condvar,
    /// Whether writes are held back; then the state says how.
    pub(super) held_back: AtomicBool,
    /// Whether background work no longer gives way to readers: writes are held back, or soon will be.
    pub(super) urgent: AtomicBool,
    /// Families of which a commit has filled the memtable; the next one switches it.
    pub(super) filled: Mutex<Vec<ColumnFamilyId>>,
    pub(super) wal_limit: WalLimit,
    pub(super) stall_news: StallNews,
    /// Whether a table of the last level has what only snapshots see.
    pub(super) kept_for_snapshots: AtomicBool,
    /// Whether the thread that collects garbage waits for somebody to write.
    pub(super) tell_of_write: AtomicBool,
    pub(super) failure: BackgroundFailure,
    /// Set when the database begins to close: no more batches are taken.
    pub(super) stopping: AtomicBool,
    /// Set once, when the database closes; running compactions give up.
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

/// What ends when the last handle goes: the threads, then the lock on the directory.
pub(crate) struct Core {
    pub(super) shared: Arc<Shared>,
    pub(super) threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Core {
    /// Stops background work and gives the directory free. What is in memtables and was logged is
    /// replayed at the next opening; what was not logged is flushed first.
    pub(super) fn close(&self) -> Result<()> {
        let mut threads = self.threads.lock();
        if self.shared.closing.load(Ordering::Acquire) {
            return Ok(());
        }
        // Batches that wait in the queue by now are committed, later ones are refused: so nothing
        // unlogged comes after the flush.
        self.shared.stopping.store(true, Ordering::Release);
        let unlogged = self
            .shared
            .commits
            .exclusive(|| Ok(self.shared.families_with_unlogged_writes()))?;
        let flushed = if unlogged.is_empty() {
            Ok(())
        } else {
            self.shared.flush(&unlogged)
        };
        // The queue empties first, so that no commit meets a closed database half way.
        let synced = self.shared.commits.exclusive(|| {
            // After a failure nothing more can be promised, and the caller must know.
            let synced = match self.shared.failure.read_only {
                true => Ok(()),
                false => self.shared.failure.check(),
            };
            let synced = synced.and_then(|()| self.shared.sync_wal());
            self.shared.closing.store(true, Ordering::Release);
            synced
        });
        {
            // Under the lock, or a thread that is about to wait would miss the signal.
            let _state = self.shared.state.lock();
            self.shared.work.notify_all();
            self.shared.progress.notify_all();
            self.shared.collector.notify_all();
        }
        for thread in threads.drain(..) {
            // A thread that panicked has nothing more to say.
            let _ = thread.join();
        }
        // Those that users run on threads of their own must not outlive the lock either.
        self.shared.wait_for_running_jobs();
        // Nor a checkpoint, which gives up now: the next opening deletes what it may yet link.
        drop(self.shared.checkpoints.lock());
        self.shared.purge();
        // The WAL's file is closed while the directory is still ours: closing cuts its zeros.
        self.shared.wal.abandon();
        *self.shared.directory.lock() = None;
        flushed.and(synced)
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        if let Err(e) = self.close() {
            self.shared.listeners.tell(|l| l.writes_stopped(&e));
        }
    }
}
