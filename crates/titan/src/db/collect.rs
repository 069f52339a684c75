//! Running garbage collections.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::core::Shared;
use super::family::{Family, dropped};
use super::running::{Running, RunningJob};
use super::state::FamilyState;
use super::yielding::YieldsToReads;
use crate::error::{Error, ErrorKind, Result};
use crate::format::{BlobFileNumber, total};
use crate::gc::job::{self, Collected, GcContext};
use crate::gc::live::{LiveFile, live_files};
use crate::gc::pinned::CopiedForOlder;
use crate::gc::punch;
use crate::gc::selection::{Collection, Urgency};
use crate::stats::{self, GarbageCollectionEvent, HolePunchEvent};
use crate::version::Version;
use crate::version::edit::VersionEdit;

/// What a collection did.
enum Done {
    /// With the bytes that the relocation freed.
    Moved(GarbageCollectionEvent, u64),
    Punched(HolePunchEvent),
    /// These physical files had no live records.
    Nothing(Vec<BlobFileNumber>),
}

/// The outcome of a collection.
pub(super) enum Outcome {
    /// `None` if nothing was relocated.
    Installed(Option<GarbageCollectionEvent>),
    /// These files are damaged, and stay as they are.
    SetAside(Vec<BlobFileNumber>, Error),
}

impl Shared {
    /// Runs a collection that is due, which the caller has counted as running, at the configured
    /// rate.
    pub(super) fn run_due_collection(
        &self,
        family: &Arc<Family>,
        collection: Collection,
    ) -> Result<Outcome> {
        let running = Running::counted(self, family.id, RunningJob::Collection);
        let yields = YieldsToReads::of_collection(self);
        let pace = self.pace_of(family);
        let pace = |bytes| {
            yields.yield_to_reads();
            pace(bytes)
        };
        self.run_collection(family, collection, &pace, running, &yields)
    }

    /// Runs a collection and installs it.
    ///
    /// # Errors
    /// `Closed`, `Busy` and the error of a dropped family mean that the collection was abandoned
    /// with nothing changed; every other failure has stopped writes.
    pub(super) fn run_collection(
        &self,
        family: &Arc<Family>,
        collection: Collection,
        keep_pace: &dyn Fn(u64) -> Result<()>,
        _running: Running<'_>,
        yields: &YieldsToReads<'_>,
    ) -> Result<Outcome> {
        let started = self.options.clock.monotonic();
        // Discards what a count of pointers has added.
        self.state.lock().waited_for_pace = Duration::ZERO;
        let outcome = self.collect_and_install(family, &collection, keep_pace, yields);
        // Other threads wait for what follows.
        yields.hurry();
        let took = self.options.clock.monotonic().saturating_sub(started);
        let set_aside = match &outcome {
            // They have no live records after all: collecting them again would find no more.
            Ok(Done::Nothing(files)) => files.clone(),
            Err(e) if e.is_corruption() => collection.damaged_files(e),
            _ => Vec::new(),
        };
        let freed = match &outcome {
            Ok(Done::Moved(_, freed)) => *freed,
            Ok(Done::Punched(event)) => event.bytes,
            Ok(Done::Nothing(_)) | Err(_) => 0,
        };
        let urgent = collection.urgency == Urgency::High;
        // Release the inputs before the job counts as done, so that their files can be deleted
        // then.
        drop(collection);
        let mut state = self.state.lock();
        let waited = std::mem::take(&mut state.waited_for_pace);
        if urgent && freed > 0 {
            // Less the waits: it may have begun while nobody wrote.
            state.freeing.add(freed, took.saturating_sub(waited));
        }
        if let Some(family) = state.families.get_mut(&family.id) {
            Arc::make_mut(&mut family.excluded)
                .damaged
                .extend(&set_aside);
            family.has_changed();
        }
        self.update_stalls(state);
        match outcome {
            Ok(Done::Moved(event, _)) => {
                self.listeners.notify(|l| l.garbage_collected(&event));
                Ok(Outcome::Installed(Some(event)))
            }
            Ok(Done::Punched(event)) => {
                self.listeners.notify(|l| l.holes_punched(&event));
                Ok(Outcome::Installed(None))
            }
            Ok(Done::Nothing(_)) => Ok(Outcome::Installed(None)),
            Err(e) if matches!(e.kind(), ErrorKind::Closed | ErrorKind::Busy) => Err(e),
            Err(e) if family.is_dropped() => Err(e),
            Err(e) if e.is_corruption() => {
                // Undamaged live records in them stay readable.
                self.listeners.notify(|l| l.garbage_collection_failed(&e));
                Ok(Outcome::SetAside(set_aside, e))
            }
            Err(e) => {
                let doing = format!("collecting garbage of column family {}", family.name);
                Err(self.failure.set(self, e.context(doing)))
            }
        }
    }

    fn collect_and_install(
        &self,
        family: &Family,
        collection: &Collection,
        keep_pace: &dyn Fn(u64) -> Result<()>,
        yields: &YieldsToReads<'_>,
    ) -> Result<Done> {
        let versions = {
            let versions = self.versions.lock();
            let known = versions.family(family.id);
            let known = known.ok_or_else(|| dropped(&family.name))?;
            // MUTANT: a collection copies only the records to which the current version points.
            if mutant!(
                "collection-forgets-older-versions",
                "-p titan --test it gc::"
            ) {
                vec![Arc::clone(&known.current)]
            } else {
                known.live_versions()
            }
        };
        let context = GcContext {
            env: &self.rewriting_env(),
            family: &family.output(),
            open_files: &self.open_files,
            keep_pace,
        };
        // MUTANT: holes are punched into records that older versions still read.
        let read = if mutant!(
            "hole-under-an-older-version",
            "-p titan --test it gc::punch::what_anybody_reads"
        ) {
            versions.get(..1).unwrap_or_default()
        } else {
            versions.as_slice()
        };
        let live = live_files(&collection.physical, read, &self.open_files)?;
        let accounts = collection.accounts(&versions);
        // What only older versions pin can be deleted meanwhile.
        drop(versions);
        if let Some(event) = self.punch_holes(collection, &live, &context)? {
            return Ok(Done::Punched(event));
        }
        let collected = job::run(collection, live, &context);
        // Flushes wait for what follows.
        yields.hurry();
        let mut collected = collected?;
        let files = std::mem::take(&mut collected.physical);
        let moved = self.install_collection(family, collection, collected, &accounts)?;
        Ok(moved.map_or(Done::Nothing(files), |(event, freed)| {
            Done::Moved(event, freed)
        }))
    }

    /// Punches holes where the family wants that and it is worth it; `None` if no space was given
    /// back. A caller that waits for a collection wants all garbage gone. If punching fails, the
    /// family's files are collected by copying from then on.
    fn punch_holes(
        &self,
        collection: &Collection,
        live: &BTreeMap<BlobFileNumber, LiveFile>,
        context: &GcContext<'_>,
    ) -> Result<Option<HolePunchEvent>> {
        let id = context.family.id;
        let wanted = |family: &FamilyState| family.punches_holes;
        let wanted = self.state.lock().families.get(&id).is_some_and(wanted);
        if !wanted || collection.urgency == Urgency::Asked {
            return Ok(None);
        }
        let plans = punch::plan(collection, live, context)?;
        if plans.is_empty() {
            return Ok(None);
        }
        // Delete obsolete tables first: a repair without the MANIFEST would trust them.
        self.purge();
        let (event, outcome) = punch::run(plans, context);
        stats::add(&self.statistics.gc_hole_bytes, event.bytes);
        match outcome {
            Err(e) if matches!(e.kind(), ErrorKind::Closed | ErrorKind::Busy) => return Err(e),
            Err(e) => {
                if let Some(family) = self.state.lock().families.get_mut(&id) {
                    family.punches_holes = false;
                }
                self.listeners.notify(|l| l.hole_punching_failed(id, &e));
            }
            Ok(()) => {}
        }
        Ok((!event.files.is_empty()).then_some(event))
    }

    /// Installs what a collection copied. Returns the event and the bytes freed, or `None` if there
    /// was nothing to relocate. `accounts` are the live bytes that the versions claimed when the
    /// records were copied.
    fn install_collection(
        &self,
        family: &Family,
        collection: &Collection,
        mut collected: Collected,
        accounts: &BTreeMap<BlobFileNumber, u64>,
    ) -> Result<Option<(GarbageCollectionEvent, u64)>> {
        let files = collected.files();
        let contradicts = collected.contradicts(accounts);
        let mut versions = self.versions.lock();
        let Some(known) = versions.family(family.id) else {
            self.env.discard(&files);
            return Err(dropped(&family.name));
        };
        // Logical files that left the version meanwhile are not relocated.
        let there = &known.current.blob_files;
        let relocation = collected.relocation.take().and_then(|mut relocation| {
            relocation
                .logical
                .retain(|logical| there.contains_key(logical));
            (!relocation.logical.is_empty()).then_some(relocation)
        });
        let Some(relocation) = relocation else {
            self.env.discard(&files);
            return Ok(None);
        };
        // Not the version that this replaces: it sees the same as the next one.
        let older: Vec<Arc<Version>> = known.older_versions().map(|(older, _)| older).collect();
        let mut inputs = collection.places();
        let edit = VersionEdit {
            column_family: family.id,
            relocations: vec![relocation.clone()],
            ..VersionEdit::default()
        };
        // The records are durable in both files. Applying the edit moves the logical files of all
        // versions; if it fails, they stay where they are, which the next MANIFEST will say.
        versions.apply(edit)?;
        let mut freed = 0;
        if let Some(version) = versions.current(family.id) {
            // Files with another compression than the first one were not relocated.
            let left = version.blob_files.physical();
            inputs.retain(|file, _| !left.contains_key(file));
            let before = total(inputs.values().map(|file| file.bytes_on_disk()));
            freed = before.saturating_sub(relocation.total_bytes);
            let mut pinned = CopiedForOlder::default();
            for older in &older {
                let moved = relocation.logical.iter();
                let moved = moved.filter_map(|file| older.blob_files.get(file));
                if pinned.note(older, moved) {
                    older.watch(&self.version_watch);
                }
            }
            self.install(&versions, &[family.id], |family| {
                let excluded = Arc::make_mut(&mut family.excluded);
                excluded.pinned.append(&mut pinned);
                excluded.pinned.retain(&version);
                if freed == 0 && contradicts {
                    // Or it would be collected again and again.
                    excluded.damaged.insert(relocation.file);
                }
            });
        }
        drop(versions);
        let event = GarbageCollectionEvent {
            column_family: family.id,
            input_bytes: total(inputs.values().map(|file| file.total_bytes)),
            inputs: inputs.into_keys().collect(),
            output: relocation.file,
            bytes_read: collected.bytes_read,
            bytes_written: collected.bytes_written,
        };
        stats::add(&self.statistics.garbage_collections, 1);
        stats::add(&self.statistics.gc_read_bytes, event.bytes_read);
        stats::add(&self.statistics.gc_blob_bytes, event.bytes_written);
        Ok(Some((event, freed)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::format::ColumnFamilyId;
    use crate::gc::report::CollectionStatus;
    use crate::gc::selection::{Outlook, select};
    use crate::version::edit::BlobFileGarbage;
    use crate::{ColumnFamilyOptions, CompressionType, Db, Options};

    /// Makes the accounts say that half of each blob file is garbage.
    fn claim_garbage(shared: &Shared) {
        let id = ColumnFamilyId::DEFAULT;
        let mut versions = shared.versions.lock();
        let current = versions.current(id).unwrap();
        let claim = |number: &BlobFileNumber| BlobFileGarbage {
            number: *number,
            count: current.blob_files.get(number).unwrap().live_count() / 2,
            bytes: current.live_bytes_of(*number) / 2,
            unknown: Vec::new(),
        };
        let edit = VersionEdit {
            column_family: id,
            blob_garbage: current.blob_files.keys().map(claim).collect(),
            ..VersionEdit::default()
        };
        // Or it would pin what it sees for a moment.
        drop(current);
        versions.apply(edit).unwrap();
        shared.install(&versions, &[id], |_| {});
        drop(versions);
        shared.update_stalls(shared.state.lock());
    }

    #[test]
    fn sums_say_what_a_walk_over_all_files_says() {
        let dir = tempfile::tempdir().unwrap();
        let mut options = Options::default();
        options.default.disable_auto_compactions = true;
        options.default.min_blob_size = 100;
        let db = Db::open(dir.path(), &options).unwrap();
        // Nothing is collected during this test.
        let _pause = db.pause_garbage_collection().unwrap();
        let shared = &db.core.shared;
        let same = |damaged: usize| {
            let state = shared.state.lock();
            let family = &state.families[&ColumnFamilyId::DEFAULT];
            let options = &family.family.options;
            let walked = select(&family.version, options, &family.excluded).files;
            let sound = || {
                walked
                    .iter()
                    .filter(|f| f.status != CollectionStatus::Damaged)
            };
            assert_eq!(walked.len() - sound().count(), damaged);
            let outlook = Outlook::of(&family.version, options, &family.excluded);
            assert_eq!(family.outlook, Some(outlook), "what is kept is up to date");
            let on_disk = total(sound().map(|f| f.file.bytes_on_disk()));
            assert_eq!(outlook.space.blob_files, on_disk);
            assert_eq!(outlook.space.blob_live, total(sound().map(|f| f.live)));
            let garbage = total(sound().map(|f| f.garbage));
            assert_eq!(on_disk - outlook.space.blob_live, garbage);
            let tables = family.version.tables();
            let tables = total(tables.map(|(_, table)| table.size()));
            assert_eq!(outlook.space.tables, tables);
            outlook.urgency
        };
        assert_eq!(same(0), None);
        for n in 0..5_u8 {
            db.put(&[n], &[n; 1000]).unwrap();
            db.flush().unwrap();
            assert_eq!(same(0), None);
        }
        for n in 0..4 {
            db.delete(&[n]).unwrap();
        }
        db.compact_range(None, None, &Default::default()).unwrap();
        assert_eq!(same(0), None, "files without any live value are gone");
        for n in 0..50_u8 {
            db.put(&[n], &[n; 1000]).unwrap();
        }
        db.flush().unwrap();
        claim_garbage(shared);
        assert_eq!(same(0), Some(Urgency::High));
        {
            let mut state = shared.state.lock();
            let family = state.families.get_mut(&ColumnFamilyId::DEFAULT).unwrap();
            let newest = *family.version.blob_files.keys().last().unwrap();
            Arc::make_mut(&mut family.excluded).damaged.insert(newest);
            family.has_changed();
            shared.update_stalls(state);
        }
        same(1);
    }

    #[test]
    fn garbage_that_there_is_not_is_not_sought_for_ever() {
        let dir = tempfile::tempdir().unwrap();
        let options = Options {
            default: ColumnFamilyOptions {
                min_blob_size: 100,
                compression: CompressionType::None,
                disable_auto_compactions: true,
                ..ColumnFamilyOptions::default()
            },
            ..Options::default()
        };
        let db = Db::open(dir.path(), &options).unwrap();
        let keys = || (0..100_u8).map(|n| [n]);
        keys().for_each(|key| db.put(&key, &[7; 1000]).unwrap());
        db.flush().unwrap();
        claim_garbage(&db.core.shared);

        let (tell, told) = mpsc::channel();
        let waiting = db.clone();
        thread::spawn(move || tell.send(waiting.wait_idle()));
        let idle = told.recv_timeout(Duration::from_secs(60));
        idle.expect("it is collected again and again").unwrap();
        assert_eq!(db.statistics().garbage_collections(), 1);
        let report = db.space_report().unwrap();
        let statuses = report.families[0].blob_files.iter().map(|f| f.status);
        assert_eq!(statuses.collect::<Vec<_>>(), [CollectionStatus::Damaged]);
        for key in keys() {
            assert_eq!(db.get(&key).unwrap().as_deref(), Some(&[7; 1000][..]));
        }
    }
}
