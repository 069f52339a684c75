//! After a failed write or sync: writes are refused with the reason, reads go on, until
//! [`Db::resume`](crate::Db::resume) has made everything durable some other way.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::core::Shared;
use crate::error::{Error, ErrorKind, Result};
use crate::format::ColumnFamilyId;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, Ordering};

/// The failure that stopped writes, if one did. The first one is kept.
#[derive(Default)]
pub(crate) struct BackgroundFailure {
    failed: AtomicBool,
    reason: Mutex<Option<Error>>,
    /// The database never accepts a write.
    pub(super) read_only: bool,
}

impl BackgroundFailure {
    /// Fails with `WritesStopped` after a failure, with `ReadOnly` where nothing is ever written.
    pub(super) fn check(&self) -> Result<()> {
        if self.read_only {
            let why = "the database was opened for reading only";
            return Err(Error::new(ErrorKind::ReadOnly, why));
        }
        if !self.failed.load(Ordering::Acquire) {
            return Ok(());
        }
        match self.get() {
            Some(reason) => Err(Error::new(
                ErrorKind::WritesStopped,
                "an earlier failure stopped writes; resume() after its cause is gone",
            )
            .with_source(reason)),
            None => Ok(()),
        }
    }

    /// The failure in force.
    pub(super) fn get(&self) -> Option<Error> {
        self.reason.lock().clone()
    }

    /// Stops writes because of `error`, and returns it.
    pub(super) fn set(&self, shared: &Shared, error: Error) -> Error {
        let first = {
            let mut reason = self.reason.lock();
            let first = reason.is_none();
            reason.get_or_insert_with(|| error.clone());
            self.failed.store(true, Ordering::Release);
            first
        };
        // Writers that wait for background jobs now wait in vain. The lock makes sure that none is
        // between its check and its wait; the caller must not have the state lock. This comes
        // before listeners are notified, since one may panic.
        let state = shared.state.lock();
        shared.progress.notify_all();
        shared.work.notify_all();
        drop(state);
        if first {
            shared.listeners.notify(|l| l.writes_stopped(&error));
        }
        error
    }

    /// Stops writes if the thread panics; to be called while it unwinds. A listener that panics
    /// when it is notified of that does not end the process.
    pub(super) fn set_if_panicking(&self, shared: &Shared, message: &str) {
        if std::thread::panicking() {
            let bug = Error::internal(message);
            let _ = catch_unwind(AssertUnwindSafe(|| self.set(shared, bug)));
        }
    }

    fn clear(&self) {
        let mut reason = self.reason.lock();
        *reason = None;
        self.failed.store(false, Ordering::Release);
    }
}

impl Shared {
    /// Makes durable, in new files, whatever the failure left undone, and accepts writes again. On
    /// an error nothing has changed for the user: writes stay refused, and `resume` can be tried
    /// again.
    pub(super) fn resume(&self) -> Result<()> {
        self.alone(|| {
            if self.failure.get().is_none() {
                return self.failure.check();
            }
            let trying = |e: Error| e.context("resuming");
            self.wait_for_running_jobs();
            {
                let mut versions = self.versions.lock();
                if versions.manifest_number().is_none() {
                    versions.start_manifest().map_err(trying)?;
                }
            }
            // The acknowledged operations of the failed WAL are also in memtables. Once those are
            // flushed, no replay needs that WAL any more, whatever its last bytes are.
            let ids: Vec<ColumnFamilyId> = self.families.load().keys().copied().collect();
            self.wal.abandon();
            self.start_wal(&ids).map_err(trying)?;
            // MUTANT: resuming forgets the memtables whose flush failed.
            if mutant!(
                "failed-flush-drops-its-memtable",
                "-p titan --test it faults::"
            ) {
                let mut replaced = Vec::new();
                for family in self.state.lock().families.values_mut() {
                    family.immutables.clear();
                    replaced.push(family.publish());
                }
            } else {
                self.flush_all_as_one().map_err(trying)?;
            }
            self.failure.clear();
            self.update_stalls(self.state.lock());
            self.work.notify_all();
            self.collector.notify_all();
            Ok(())
        })?;
        self.purge();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::format::internal_key::ValueType;
    use crate::{Db, Options};

    #[test]
    fn readers_have_what_a_resume_records_that_has_nothing_to_flush() {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path(), &Options::default()).unwrap();
        let shared = &db.core.shared;
        shared
            .failure
            .set(shared, Error::new(ErrorKind::Io, "none"));
        db.resume().unwrap();
        let versions = shared.versions.lock();
        for (id, family) in &shared.state.lock().families {
            let current = versions.current(*id).unwrap();
            assert!(Arc::ptr_eq(&family.version, &current));
            let read = family.family.super_version.load_full();
            assert!(Arc::ptr_eq(&read.version, &current));
        }
    }

    /// A reader that took its memtables before a commit failed, and its sequence number after other
    /// writes had been given the same numbers.
    #[test]
    fn a_slow_reader_sees_nothing_of_a_failed_commit() {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path(), &Options::default()).unwrap();
        db.put(b"k", b"old").unwrap();
        let shared = &db.core.shared;
        let taken = db.family.super_version.load_full();
        // Like a commit that ends half way.
        let last = shared.counters.last_sequence();
        let half = taken
            .memtable
            .add(last.plus(1), ValueType::Value, b"k", b"refused");
        half.unwrap();
        taken.memtable.refuse_after(last);
        shared
            .failure
            .set(shared, Error::new(ErrorKind::Io, "none"));
        db.resume().unwrap();
        db.put(b"other", b"new").unwrap();

        assert!(shared.counters.last_sequence() > last);
        let sequence = taken.readable_to(shared.counters.last_sequence());
        let entry = taken.memtable.get(b"k", sequence).unwrap();
        assert_eq!(entry.value, b"old");
        assert_eq!(db.get(b"k").unwrap().as_deref(), Some(&b"old"[..]));
    }
}
