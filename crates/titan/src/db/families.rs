//! Creating and dropping families while the database is open, and the first state of a family.

use std::sync::Arc;

use super::core::{FamilyMap, Shared};
use super::family::{Family, dropped};
use super::state::FamilyState;
use crate::commit_hook::BypassedRange;
use crate::dead_ranges::DeadRanges;
use crate::error::{Error, ErrorKind, Result};
use crate::filter::revisit_of;
use crate::format::internal_key::InternalKeyComparator;
use crate::format::{ColumnFamilyId, Comparator, FileNumber};
use crate::gc::space::loosened_allowance;
use crate::memtable::Memtable;
use crate::options::{ColumnFamilyOptions, Options};
use crate::read::SuperVersion;
use crate::stats::{StallEvent, notify};
use crate::sync::ArcSwap;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::version::{self, Version, VersionSet};
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
        self.change_families(|lead| {
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
            locked.families.insert(id, state);
            self.admission
                .wal_limit
                .set(&locked, &self.context.options.load());
            Ok(family)
        })
        .inspect(|family| {
            self.report_loosened_bound(family);
            self.record_times_for(family);
            self.heed_dead_ranges_of(family);
            // It may be the first with idle cleanup.
            self.signals.collector.raise();
        })
    }

    /// Runs `change` while no batch is being committed, but not after the moment of a checkpoint
    /// and before its versions are captured: the checkpoint would have the change, and not the
    /// writes before it.
    fn change_families<T>(&self, change: impl FnOnce(&Lead<'_>) -> Result<T>) -> Result<T> {
        let mut change = Some(change);
        loop {
            let seen = self.signals.progress.seen();
            let changed = self.alone(|lead| {
                // Only a leader sets a barrier.
                let barrier = self.state.lock().flush_barrier.is_some();
                // MUTANT: families change between the moment of a checkpoint and its capture.
                let waits = barrier
                    && !mutant!(
                        "families-change-within-a-checkpoint",
                        "-p titan --lib db::races::checkpoints"
                    );
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

    /// Notifies listeners if a family makes the bound on space looser than promised.
    pub(super) fn report_loosened_bound(&self, family: &Family) {
        if let Some(bytes) = loosened_allowance(&family.options()) {
            let id = family.id;
            notify!(self.context.listeners, space_bound_loosened(id, bytes));
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
        self.change_families(|lead| {
            self.check_not_stopped()?;
            // MUTANT: a family is dropped while earlier writes are not durable.
            if !mutant!(
                "family-drop-before-wal-sync",
                "-p titan --test it crash_recovery::a_log_that_only"
            ) {
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
            // MUTANT: the files of a dropped family are deleted while iterators read them.
            if mutant!(
                "dropped-family-takes-files-from-readers",
                "-p titan --test it life_cycles::"
            ) {
                let read = family.super_version.load();
                let blob_files = read.version.blob_files.values();
                let files = blob_files.flat_map(|file| file.shared.physical().files());
                files.for_each(|file| self.files.obsolete.push(file));
            }
            let mut families = FamilyMap::clone(&self.families.load());
            if let Some(removed) = families.remove(&id) {
                // ORDER: before writers miss it, so that their error has its name.
                self.readers.dropped.add(&removed);
            }
            family.dropped.store(true, Ordering::Release);
            self.families.store(Arc::new(families));
            let mut state = self.state.lock();
            let removed = state.families.remove(&id);
            self.admission
                .wal_limit
                .set(&state, &self.context.options.load());
            // MUTANT: listeners never hear that the stall of a dropped family is over.
            if removed
                .as_ref()
                .is_some_and(|r| r.stall != StallEvent::Normal)
                && !mutant!(
                    "stall-of-a-dropped-family-stays",
                    "-p titan --test it concurrency::stall_causes::the_stall"
                )
            {
                self.admission.notifier.push(id, StallEvent::Normal);
            }
            drop(state);
            if let Some(removed) = removed {
                // The shared part stays alive in handles; what it pins need not.
                let family = removed.family;
                let (comparator, levels) = (&family.comparator, removed.version.num_levels());
                let empty = Version::empty(id, comparator.clone(), levels);
                let buffer = family.options().write_buffer_size;
                family.super_version.store(Arc::new(SuperVersion {
                    memtable: Memtable::new(comparator.clone(), buffer),
                    immutables: Vec::new(),
                    version: Arc::new(empty),
                }));
            }
            gate!("drop: family emptied");
            // ORDER: the edit that says which WAL files are still needed is durable; only now may
            // others be deleted.
            // MUTANT: the WAL files that only a dropped family needed stay.
            if !mutant!("dropped-family-leaves-its-wal", "-p titan --lib life_cycle") {
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

/// Creates, in memory only, the families of `options` that the database does not have.
pub(super) fn create_missing_families(versions: &mut VersionSet, options: &Options) {
    let existing: Vec<String> = versions
        .families()
        .values()
        .map(|f| f.name.clone())
        .collect();
    for (name, family_options) in &options.families {
        if !existing.contains(name) {
            let id = versions.next_column_family();
            let family = empty_family(id, name, family_options, FileNumber(0));
            versions.add_family_in_memory(id, family);
        }
    }
}

/// A family without files, as the version set knows it.
fn empty_family(
    id: ColumnFamilyId,
    name: &str,
    options: &ColumnFamilyOptions,
    log_number: FileNumber,
) -> version::FamilyVersions {
    let comparator = InternalKeyComparator::new(Arc::clone(&options.comparator));
    let current = Arc::new(Version::empty(id, comparator.clone(), options.num_levels));
    version::FamilyVersions::new(name.to_owned(), comparator, log_number, current)
}

/// The options with the comparator of the family: the recorded one, if none was given.
fn with_comparator(
    options: Arc<ColumnFamilyOptions>,
    comparator: &Arc<dyn Comparator>,
) -> Arc<ColumnFamilyOptions> {
    if options.comparator.name() == comparator.name() {
        return options;
    }
    Arc::new(ColumnFamilyOptions {
        comparator: Arc::clone(comparator),
        ..(*options).clone()
    })
}

/// The state of a family whose memtable is empty.
pub(super) fn family_state(
    id: ColumnFamilyId,
    recovered: &version::FamilyVersions,
    options: Arc<ColumnFamilyOptions>,
    wal_number: FileNumber,
    kept: Option<&(Arc<Memtable>, FileNumber)>,
) -> FamilyState {
    let options = with_comparator(options, recovered.comparator.user());
    let empty = || {
        let memtable = Memtable::new(recovered.comparator.clone(), options.write_buffer_size);
        (memtable, wal_number)
    };
    let (memtable, memtable_log) = kept.cloned().unwrap_or_else(empty);
    let version = Arc::clone(&recovered.current);
    let super_version = SuperVersion {
        memtable: Arc::clone(&memtable),
        immutables: Vec::new(),
        version: Arc::clone(&version),
    };
    let factory = options.compaction_filter.as_deref();
    let revisit = factory.and_then(revisit_of);
    let dead = match factory {
        None => DeadRanges::new(recovered.comparator.clone()),
        // The filter is fixed while the family is open.
        Some(_) => DeadRanges::unused(recovered.comparator.clone()),
    };
    let family = Arc::new(Family {
        id,
        name: recovered.name.clone(),
        merge_operator: options.merge_operator.clone(),
        prefix_extractor: options.given_prefix_extractor(),
        options: ArcSwap::new(options),
        comparator: recovered.comparator.clone(),
        super_version: ArcSwap::from_pointee(super_version),
        dropped: AtomicBool::new(false),
        revisit,
        garbage_moment: AtomicU64::new(0),
        scans: Arc::default(),
        dead: Arc::new(dead),
    });
    FamilyState::new(family, memtable, memtable_log, version)
}
