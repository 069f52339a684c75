//! Creating and dropping families while the database is open.

use std::sync::Arc;

use crate::commit_hook::BypassedRange;
use crate::db::core::family::{Family, dropped};
use crate::db::core::new_family::{empty_family, family_state};
use crate::db::core::shared::{FamilyMap, Shared};
use crate::error::{Error, ErrorKind, Result};
use crate::format::ColumnFamilyId;
use crate::memtable::Memtable;
use crate::options::ColumnFamilyOptions;
use crate::read::SuperVersion;
use crate::stats::StallEvent;
use crate::sync::atomic::Ordering;
use crate::version::Version;
use crate::write::queue::Lead;

impl Shared {
    /// See [`Db::create_column_family`](crate::Db::create_column_family).
    pub(super) fn create_family(
        &self,
        name: &str,
        options: ColumnFamilyOptions,
    ) -> Result<Arc<Family>> {
        options.validate()?;
        let options = options.with_named_objects()?;
        self.alone_between_checkpoints(|lead| {
            self.check_not_stopped()?;
            self.sync_wal(lead)?;
            let mut versions = self.versions.lock();
            if versions.families().values().any(|f| f.name == name) {
                let exists = format!("column family {name} exists already");
                return Err(Error::new(ErrorKind::AlreadyExists, exists));
            }
            let id = versions.next_column_family();
            let wal = self.state.lock().current_wal();
            let mut recorded = empty_family(id, name, &options, wal);
            recorded.settings = options.kept_texts();
            let state = family_state(id, &recorded, Arc::new(options), wal, None);
            if let Err(e) = versions.create_family(id, recorded) {
                drop(versions);
                return Err(self.failure.set(e));
            }
            gate!("create: edit durable");
            let family = Arc::clone(&state.family);
            let mut families = FamilyMap::clone(&self.families.load());
            families.insert(id, Arc::clone(&family));
            self.families.store(Arc::new(families));
            let mut locked = self.state.lock();
            let other = locked.families.insert(id, state);
            invariant!(other.is_none(), "two families have the id {id}");
            self.admission
                .wal_limit
                .set(&locked, &self.opening.options.load());
            Ok(family)
        })
        .inspect(|family| {
            family.report_loosened_bound(&self.opening.listeners);
            self.opening.write_times.record_for(family.revisit);
            self.heed_dead_ranges_of(family);
            // It may be the first with idle cleanup.
            self.signals.collector.raise();
        })
    }

    /// Runs `change` while no batch is being committed, but not after the moment of a checkpoint
    /// and before its versions are captured: the checkpoint would have the change, and not the
    /// writes before it.
    pub(super) fn alone_between_checkpoints<T>(
        &self,
        change: impl FnOnce(&Lead<'_>) -> Result<T>,
    ) -> Result<T> {
        let mut change = Some(change);
        loop {
            let seen = self.signals.progress.seen();
            let changed = self.alone(|lead| {
                // Only a leader sets a barrier.
                let barrier = self.state.lock().flush_barrier.is_some();
                let waits = barrier && !mutant!(families_change_within_a_checkpoint);
                match change.take_if(|_| !waits) {
                    Some(change) => change(lead).map(Some),
                    None => Ok(None),
                }
            })?;
            if let Some(changed) = changed {
                return Ok(changed);
            }
            gate!("families: checkpoint waited for");
            self.signals.progress.wait(seen);
        }
    }

    /// See [`Db::drop_column_family`](crate::Db::drop_column_family).
    pub(super) fn drop_family(&self, family: &Family) -> Result<()> {
        let id = family.id;
        if id == ColumnFamilyId::DEFAULT {
            return Err(Error::invalid_argument(
                "the default column family cannot be dropped",
            ));
        }
        self.alone_between_checkpoints(|lead| {
            self.check_not_stopped()?;
            if !mutant!(family_drop_before_wal_sync) {
                self.sync_wal(lead)?;
            }
            let mut versions = self.versions.lock();
            if versions.family(id).is_none() {
                return Err(dropped(&family.name));
            }
            let needed = self.state.lock().oldest_log_needed(Some(id));
            if let Err(e) = versions.drop_family(id, needed) {
                drop(versions);
                return Err(self.failure.set(e));
            }
            gate!("drop: edit durable");
            if let Some(hook) = self.pipeline.hook() {
                // ORDER: before readers miss the family, as for a batch.
                let everything = BypassedRange::all_of(id);
                hook.on_bypass(lead, &everything, self.counters.last_sequence());
            }
            if mutant!(dropped_family_takes_files_from_readers) {
                let read = family.super_version.load();
                let blob_files = read.version.blob_files.values();
                let files = blob_files.flat_map(|file| file.shared.physical().files());
                files.for_each(|file| self.files.obsolete.push(file));
            }
            let mut families = FamilyMap::clone(&self.families.load());
            if let Some(removed) = families.remove(&id) {
                // ORDER: before writers miss it, so that their error has its name.
                self.pins.dropped.add(&removed);
            }
            family.dropped.store(true, Ordering::Release);
            self.families.store(Arc::new(families));
            let mut state = self.state.lock();
            let removed = state.families.remove(&id);
            self.admission
                .wal_limit
                .set(&state, &self.opening.options.load());
            if removed
                .as_ref()
                .is_some_and(|r| r.stall != StallEvent::Normal)
                && !mutant!(stall_of_a_dropped_family_stays)
            {
                self.admission.notifier.push(id, StallEvent::Normal);
            }
            invariant!(
                !state.families.contains_key(&id) && !self.families.load().contains_key(&id),
                "family {id} is dropped, and can be found"
            );
            drop(state);
            if let Some(removed) = removed {
                // Readers may keep it, but it takes nothing more.
                removed.memtable.seal();
                // The shared part stays alive in handles; the memtables and files that it pins need
                // not.
                let family = removed.family;
                let (comparator, levels) = (&family.comparator, removed.version.num_levels());
                let empty = Version::empty(id, comparator.clone(), levels);
                let buffer = family.options().write_buffer_size;
                family.super_version.store(Arc::new(SuperVersion {
                    memtable: Memtable::new(comparator.clone(), buffer),
                    immutables: Vec::new(),
                    version: Arc::new(empty),
                    generation: 0,
                }));
            }
            gate!("drop: family emptied");
            // ORDER: the edit that says which WAL files are still needed is durable; only now may
            // others be deleted.
            if !mutant!(dropped_family_leaves_its_wal) {
                self.retire_wals(needed);
            }
            drop(versions);
            self.update_stalls(self.state.lock());
            Ok(())
        })?;
        self.purge();
        Ok(())
    }
}
