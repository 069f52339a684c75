//! Signals of a database: for callers and jobs that wait, and for the threads of its `Env`.
//!
//! Callers and jobs wait for a [`Signal`], which counts how often it was raised. A thread reads the
//! count first, then looks at the state for which it waits, and waits only while the count is still
//! the same. The threads of the `Env` wait for no database, but in the pool that they share; a
//! [`Desk`] tells it that this one may have a job of a kind. Either way, nothing that is raised
//! after a thread looked is lost. So raising needs no lock of the engine but that of the signal or
//! of the pool, which are held for moments and under which no other is taken. A destructor may do
//! it wherever it runs: under the state lock, or while a thread unwinds.
//!
//! Destructors take no other lock, but that of an account of the memory of memtables, which is like
//! these. One that must report more sets a flag here, which the next evaluation of families takes.

use std::time::Duration;

use crate::env::{Desk, Membership, Threads};
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Condvar, Mutex};

/// Events for which threads wait.
pub(crate) struct Signals {
    /// There may be a flush, an estimate or a compaction for a background thread.
    pub(crate) work: Desk,
    /// Something has changed that a caller or a job may wait for.
    pub(crate) progress: Signal,
    /// There may be something to do for the thread that collects garbage.
    pub(crate) collector: Desk,
    /// The cache may be warmed up by now.
    pub(crate) warm_up: Desk,
    /// A version has ended that pinned garbage.
    version_ended: AtomicBool,
    /// Whether a table of the last level has entries that only snapshots see.
    kept_for_snapshots: AtomicBool,
    /// Whether the thread that collects garbage is to be woken by a write.
    awaits_write: AtomicBool,
}

impl Signals {
    /// Those of a database in its `Env`.
    pub(crate) fn of(env: &Membership) -> Self {
        Signals {
            work: env.desk(Threads::Workers),
            progress: Signal::default(),
            collector: env.desk(Threads::Collector),
            warm_up: env.desk(Threads::WarmUp),
            version_ended: AtomicBool::new(false),
            kept_for_snapshots: AtomicBool::new(false),
            awaits_write: AtomicBool::new(false),
        }
    }

    /// Wakes all threads: the database closes, or stops or accepts writes, or jobs that were
    /// postponed may begin.
    pub(crate) fn raise_all(&self) {
        self.work.raise();
        self.progress.raise();
        self.collector.raise();
        self.warm_up.raise();
    }

    /// Posted by the last holder of a watched version: records that it pinned are garbage from now
    /// on. The thread that collects garbage evaluates it and notifies listeners.
    pub(crate) fn version_ended(&self) {
        self.version_ended.store(true, Ordering::Release);
        self.progress.raise();
        self.collector.raise();
    }

    /// Whether the end of a version has not been evaluated yet.
    pub(crate) fn has_ended_version(&self) -> bool {
        self.version_ended.load(Ordering::Acquire)
    }

    /// The same, and takes it: the caller evaluates it.
    pub(crate) fn take_ended_version(&self) -> bool {
        self.version_ended.swap(false, Ordering::AcqRel)
    }

    /// Says whether a table of the last level has entries that only snapshots see.
    pub(crate) fn set_kept_for_snapshots(&self, kept: bool) {
        self.kept_for_snapshots.store(kept, Ordering::Release);
    }

    /// Posted at the end of the oldest snapshot: compactions may now drop entries that it kept.
    pub(crate) fn snapshot_released(&self) {
        if self.kept_for_snapshots.load(Ordering::Acquire) {
            self.work.raise();
            self.collector.raise();
        }
    }

    /// Posted after a write has become visible: the database is not idle.
    pub(crate) fn wrote(&self) {
        // Not just read: then either this sees the flag, or the thread that sets it sees the write.
        if self.awaits_write.swap(false, Ordering::AcqRel) {
            self.collector.raise();
        }
    }

    /// The thread that collects garbage has nothing to do before a write. It must look for one
    /// after this.
    pub(crate) fn await_write(&self) {
        self.awaits_write.swap(true, Ordering::AcqRel);
    }

    /// Whether the thread that collects garbage is to be woken by a write, so without a timeout.
    pub(crate) fn is_write_awaited(&self) -> bool {
        self.awaits_write.load(Ordering::Acquire)
    }
}

/// An event that threads wait for.
#[derive(Default)]
pub(crate) struct Signal {
    /// Number of times that it was raised.
    raised: Mutex<u64>,
    changed: Condvar,
}

/// Number of times that a signal had been raised when a thread began to look.
#[derive(Clone, Copy)]
#[must_use = "read it before looking at what to wait for"]
pub(crate) struct Seen(u64);

impl Signal {
    /// To be called before the thread looks at the state for which it waits.
    pub(crate) fn seen(&self) -> Seen {
        Seen(*self.raised.lock())
    }

    /// Whether it has been raised since.
    #[cfg(test)]
    pub(crate) fn is_raised_since(&self, seen: Seen) -> bool {
        *self.raised.lock() != seen.0
    }

    /// Wakes all threads that wait.
    pub(crate) fn raise(&self) {
        *self.raised.lock() += 1;
        self.changed.notify_all();
    }

    /// Waits until the signal is raised, unless it has been since `seen`. The caller must not have
    /// the state lock.
    pub(crate) fn wait(&self, seen: Seen) {
        let mut raised = self.raised.lock();
        while *raised == seen.0 {
            self.changed.wait(&mut raised);
        }
    }

    /// The same, but no longer than `timeout`. May return early.
    pub(crate) fn wait_for(&self, seen: Seen, timeout: Duration) {
        let mut raised = self.raised.lock();
        if *raised == seen.0 {
            self.changed.wait_for(&mut raised, timeout);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc};
    use std::thread;

    use super::*;
    use crate::{Db, Options};

    #[test]
    fn what_is_raised_after_a_thread_looked_is_not_lost() {
        let signal = Arc::new(Signal::default());
        let seen = signal.seen();
        signal.raise();
        // Returns at once.
        signal.wait(seen);
        signal.wait_for(seen, Duration::from_secs(3600));

        let seen = signal.seen();
        let waiting = Arc::clone(&signal);
        let waits = thread::spawn(move || waiting.wait(seen));
        signal.raise();
        waits.join().unwrap();
    }

    #[test]
    fn a_version_and_a_snapshot_may_end_under_the_state_lock() {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path(), &Options::default()).unwrap();
        let shared = Arc::clone(&db.core.shared);
        let older = Arc::clone(&db.family.super_version.load().version);
        older.watch(&shared.pins.version_watch);
        let snapshot = db.snapshot();
        db.put(b"k", b"v").unwrap();
        db.flush().unwrap();
        shared.signals.set_kept_for_snapshots(true);
        let (tell, told) = mpsc::channel();
        let ending = thread::spawn(move || {
            let state = shared.state.lock();
            drop((older, snapshot));
            drop(state);
            tell.send(()).unwrap();
        });
        let ended = told.recv_timeout(Duration::from_secs(60));
        ended.expect("a destructor waits for the state");
        ending.join().unwrap();
        db.wait_idle().unwrap();
        assert!(!db.core.shared.signals.has_ended_version());
    }
}
