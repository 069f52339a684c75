//! Resuming after a failure that stopped writes: everything that it left undone is made durable in
//! new files. If the device was full, that could need more room than there is; then the WAL files
//! are relied on, if they can be.

use crate::db::core::shared::Shared;
use crate::error::{Error, ErrorKind, Result};
use crate::format::ColumnFamilyId;

impl Shared {
    /// Makes durable, in new files, all data that is not durable because of the failure, and
    /// accepts writes again. On an error nothing has changed for the user: writes stay refused, and
    /// `resume` can be tried again.
    pub(super) fn resume(&self) -> Result<()> {
        self.alone(|lead| {
            let ids: Vec<ColumnFamilyId> = self.families.load().keys().copied().collect();
            self.try_again(ids.iter().copied());
            self.signals.work.raise();
            self.signals.collector.raise();
            let Some(failure) = self.failure.get() else {
                return self.check_not_stopped();
            };
            let trying = |e: Error| e.context("resuming");
            self.wait_for_running_jobs();
            // One that failed meanwhile may wait for room, too.
            self.try_again(ids.iter().copied());
            // A job that panicked has not given back the room that it was promised.
            self.state.lock().room.promised = 0;
            {
                let mut versions = self.versions.lock();
                if versions.manifest_number().is_none() {
                    versions.start_manifest().map_err(trying)?;
                }
            }
            // On a full device the memtables stay in memory with their WAL files, since their flush
            // could need more room than there is: deletions must be possible first.
            let ended = || self.pipeline.end_wal_after_failed_append(lead);
            let keeps_wal = failure.kind() == ErrorKind::NoSpace && ended().is_ok();
            if !keeps_wal {
                // The acknowledged operations of the failed WAL are also in memtables. Once those
                // are flushed, no replay needs that WAL any more, even if its end is damaged.
                self.pipeline.abandon_wal(lead);
            }
            let sealed = match keeps_wal && !mutant!(resuming_seals_every_memtable) {
                // Their flush may lack room for long, and further calls may follow: writes would
                // soon be stopped by memtables that wait.
                true => self.families_with_refused_operations(),
                false => ids.clone(),
            };
            self.start_wal(lead, &sealed).map_err(trying)?;
            if mutant!(failed_flush_drops_its_memtable) {
                let mut replaced = Vec::new();
                for family in self.state.lock().families.values_mut() {
                    family.immutables.clear();
                    replaced.push(family.publish());
                }
            } else if !keeps_wal {
                self.flush_all_as_one(lead).map_err(trying)?;
                // ORDER: after the flush. Until then a further call may not rely on the new WAL
                // file alone, although nothing of it has failed.
                self.pipeline.wal_replaced(lead);
            }
            self.failure.clear();
            self.update_stalls(self.state.lock());
            self.signals.raise_all();
            Ok(())
        })?;
        self.purge();
        Ok(())
    }

    /// The families whose memtable has operations of a commit that failed: the next one uses their
    /// sequence numbers again, so it must write to another memtable.
    fn families_with_refused_operations(&self) -> Vec<ColumnFamilyId> {
        let state = self.state.lock();
        let refused = state.families.values().filter(|f| f.memtable.has_refused());
        refused.map(|f| f.family.id).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::format::internal_key::ValueType;
    use crate::{Db, Error, ErrorKind, Options};

    #[test]
    fn readers_have_what_a_resume_records_that_has_nothing_to_flush() {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path(), &Options::default()).unwrap();
        let shared = &db.core.shared;
        shared.failure.set(Error::new(ErrorKind::Io, "none"));
        db.resume().unwrap();
        let versions = shared.versions.lock();
        for (id, family) in &shared.state.lock().families {
            let current = versions.current(*id).unwrap();
            assert!(Arc::ptr_eq(&family.version, &current));
            let read = family.family.super_version.load();
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
        let taken = db.family.super_version.load();
        // Like a commit that ends half way.
        let last = shared.counters.last_sequence();
        let half = taken
            .memtable
            .add(last.plus(1), ValueType::Value, b"k", b"refused");
        half.unwrap();
        taken.memtable.refuse_after(last);
        shared.failure.set(Error::new(ErrorKind::Io, "none"));
        db.resume().unwrap();
        db.put(b"other", b"new").unwrap();

        assert!(shared.counters.last_sequence() > last);
        let sequence = taken.readable_to(shared.counters.last_sequence());
        let entry = taken.memtable.get(b"k", sequence).unwrap();
        assert_eq!(entry.value, b"old");
        assert_eq!(db.get(b"k").unwrap().as_deref(), Some(&b"old"[..]));
    }
}
