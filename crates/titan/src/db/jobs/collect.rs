//! Running garbage collections.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::job::Job;
use crate::db::core::family::{Family, dropped};
use crate::db::core::running_jobs::RunningJob;
use crate::db::core::shared::Shared;
use crate::db::core::state::{FamilyState, State};
use crate::db::resources::yielding::YieldsToReads;
use crate::error::{Error, ErrorKind, Result};
use crate::format::{BlobFileNumber, ColumnFamilyId, total};
use crate::gc::job::{self, Copied, GcContext};
use crate::gc::live::{LiveFile, live_files};
use crate::gc::pinned::CopiedForOlder;
use crate::gc::punch;
use crate::gc::selection::{Collection, Urgency};
use crate::number_map::NumberMap;
use crate::stats::{
    self, GarbageCollectionBeginEvent, GarbageCollectionEvent, HistogramKind, HolePunchEvent,
    Listeners, notify,
};
use crate::version::edit::{Relocation, VersionEdit};
use crate::version::state::files::PhysicalBlobFile;
use crate::version::{Version, VersionSet};

/// Outcome of a collection.
pub(crate) enum Outcome {
    /// With the bytes that the relocation freed.
    Relocated(GarbageCollectionEvent, u64),
    Punched(HolePunchEvent),
    /// These physical files had no live records.
    NothingLive(Vec<BlobFileNumber>),
    /// These files are damaged, and stay as they are. Undamaged live records in them stay readable.
    SetAside(Vec<BlobFileNumber>, Error),
}

/// A collection of garbage.
///
/// Its errors `Closed` and `Busy` and that of a dropped family mean that it was abandoned with
/// nothing changed.
pub(crate) struct CollectionJob<'a> {
    pub(crate) family: Arc<Family>,
    pub(crate) collection: Collection,
    /// For a collection that a caller waits for: called with the number of bytes before they are
    /// read or written. `None` for one that is due, which runs at the configured rate.
    pub(crate) manual_rate_limit: Option<&'a dyn Fn(u64) -> Result<()>>,
}

/// Notes on a collection that has ended.
pub(crate) struct Collected {
    family: ColumnFamilyId,
    is_urgent: bool,
    took: Duration,
    /// When it ended, by the steady clock.
    ended: Duration,
}

impl Job for CollectionJob<'_> {
    const DOING: &'static str = "collecting garbage of";
    const HISTOGRAM: Option<HistogramKind> = Some(HistogramKind::Collection);
    type Done = Outcome;
    type Claim = Collected;

    fn kind(&self) -> RunningJob {
        match self.manual_rate_limit {
            Some(_) => RunningJob::ManualCollection,
            None => RunningJob::Collection,
        }
    }

    fn family(&self) -> &Arc<Family> {
        &self.family
    }

    fn announce(&self, listeners: &Listeners) {
        let event = GarbageCollectionBeginEvent {
            column_family: self.family.id,
            inputs: self.collection.physical.clone(),
            is_manual: self.manual_rate_limit.is_some(),
        };
        notify!(listeners, garbage_collection_begun(&event));
    }

    /// Drops the collection, so that the files that were its inputs can be deleted when the job has
    /// ended.
    fn run(self, shared: &Shared) -> (Result<Outcome>, Collected) {
        let clock = &*shared.opening.clock;
        let started = clock.monotonic();
        // Discards the time that a count of pointers has added.
        shared.state.lock().collections.waited_for_rate = Duration::ZERO;
        let (family, collection) = (&*self.family, &self.collection);
        let outcome = match self.manual_rate_limit {
            Some(rate_limit) => {
                let yields = YieldsToReads::never();
                shared.collect_and_install(family, collection, rate_limit, &yields)
            }
            None => {
                let yields = YieldsToReads::of_collection(shared);
                let rate = shared.rate_limit_of(family);
                let rate_limit = |bytes| {
                    yields.yield_to_reads();
                    rate(bytes)
                };
                shared.collect_and_install(family, collection, &rate_limit, &yields)
            }
        };
        let outcome = match outcome {
            Err(e) if e.is_unreadable() && !family.is_dropped() => {
                Ok(Outcome::SetAside(collection.damaged_files(&e), e))
            }
            outcome => outcome,
        };
        let ended = clock.monotonic();
        let collected = Collected {
            family: family.id,
            is_urgent: collection.urgency == Urgency::High,
            took: ended.saturating_sub(started),
            ended,
        };
        (outcome, collected)
    }

    fn release(collected: Collected, outcome: &Result<Outcome>, state: &mut State) {
        let waited = std::mem::take(&mut state.collections.waited_for_rate);
        let freed = match outcome {
            Ok(Outcome::Relocated(_, freed)) => *freed,
            Ok(Outcome::Punched(event)) => event.bytes,
            _ => 0,
        };
        if collected.is_urgent && freed > 0 {
            // Less the waits: it may have begun while nobody wrote.
            let took = collected.took.saturating_sub(waited);
            state.collections.freeing.add(freed, took);
        }
        let Some(family) = state.families.get_mut(&collected.family) else {
            return;
        };
        // Files that have no live records after all would have none the next time.
        if let Ok(Outcome::NothingLive(files) | Outcome::SetAside(files, _)) = outcome {
            Arc::make_mut(&mut family.excluded).damaged.extend(files);
        }
        let wait = &mut family.jobs.collections_wait;
        match outcome {
            Err(error) if error.kind() == ErrorKind::NoSpace => wait.failed(collected.ended, error),
            Ok(_) => wait.succeeded(),
            Err(_) => {}
        }
        family.has_changed();
    }

    fn report(outcome: &Outcome, listeners: &Listeners) {
        match outcome {
            Outcome::Relocated(event, _) => notify!(listeners, garbage_collected(event)),
            Outcome::Punched(event) => notify!(listeners, holes_punched(event)),
            Outcome::NothingLive(_) => {}
            Outcome::SetAside(_, e) => notify!(listeners, garbage_collection_failed(e)),
        }
    }
}

impl Shared {
    fn collect_and_install(
        &self,
        family: &Family,
        collection: &Collection,
        limit_rate: &dyn Fn(u64) -> Result<()>,
        yields: &YieldsToReads<'_>,
    ) -> Result<Outcome> {
        let versions = {
            let versions = self.versions.lock();
            let known = versions.family(family.id);
            let known = known.ok_or_else(|| dropped(&family.name))?;
            if mutant!(collection_forgets_older_versions) {
                vec![Arc::clone(&known.current)]
            } else {
                known.live_versions()
            }
        };
        let context = GcContext {
            env: &self.rewriting_env(),
            family: &family.output(),
            open_files: &self.files.open,
            limit_rate,
        };
        let read = if mutant!(hole_under_an_older_version) {
            versions.get(..1).unwrap_or_default()
        } else {
            versions.as_slice()
        };
        let live = live_files(&collection.physical, read, &self.files.open)?;
        let accounts = collection.accounts(&versions);
        // Files that only older versions pin can be deleted meanwhile.
        drop(versions);
        gate!("collection: live records listed");
        if let Some(event) = self.punch_holes(collection, &live, &context)? {
            return Ok(Outcome::Punched(event));
        }
        let collected = job::run(collection, live, &context);
        // Flushes wait for what follows.
        yields.hurry();
        let mut collected = collected?;
        gate!("collection: written");
        let files = std::mem::take(&mut collected.physical);
        let relocated = self.install_collection(family, collection, collected, &accounts)?;
        Ok(
            relocated.map_or(Outcome::NothingLive(files), |(event, freed)| {
                Outcome::Relocated(event, freed)
            }),
        )
    }

    /// Punches holes where the family wants that and it is worth it; `None` if no space was given
    /// back. A caller that waits for a collection wants all garbage gone. If punching fails, the
    /// family's files are collected by copying from then on.
    fn punch_holes(
        &self,
        collection: &Collection,
        live: &NumberMap<BlobFileNumber, LiveFile>,
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
        stats::add(&self.opening.statistics.gc_hole_bytes, event.bytes);
        match outcome {
            Err(e) if matches!(e.kind(), ErrorKind::Closed | ErrorKind::Busy) => return Err(e),
            Err(e) => {
                if let Some(family) = self.state.lock().families.get_mut(&id) {
                    family.punches_holes = false;
                }
                notify!(self.opening.listeners, hole_punching_failed(id, &e));
            }
            Ok(()) => {}
        }
        Ok((!event.files.is_empty()).then_some(event))
    }

    /// Installs the output of a collection. Returns the event and the bytes freed, or `None` if
    /// there was nothing to relocate. `accounts` are the live bytes that the versions claimed when
    /// the records were copied.
    fn install_collection(
        &self,
        family: &Family,
        collection: &Collection,
        copied: Copied,
        accounts: &NumberMap<BlobFileNumber, u64>,
    ) -> Result<Option<(GarbageCollectionEvent, u64)>> {
        let outputs = copied.files();
        let contradicts = copied.contradicts(accounts);
        let prepare = |versions: &VersionSet| {
            let known = versions.family(family.id)?;
            let relocation = relocation_of(&copied, &known.current)?;
            invariant!(
                relocation
                    .logical
                    .iter()
                    .all(|file| known.current.blob_files.contains_key(file)),
                "records of a blob file that is gone are relocated: {relocation:?}"
            );
            invariant!(
                !known
                    .current
                    .blob_files
                    .physical()
                    .contains_key(&relocation.file),
                "records are relocated to blob file {}, which is there already",
                relocation.file
            );
            let inputs = emptied(collection, &relocation, &known.current);
            // Not the version that this replaces: it sees the same as the next one.
            let older: Vec<Arc<Version>> = known.older_versions().map(|(older, _)| older).collect();
            let mut pinned = CopiedForOlder::default();
            for older in &older {
                let relocated = relocation.logical.iter();
                let relocated = relocated.filter_map(|file| older.blob_files.get(file));
                // Where they will be.
                let relocated = relocated.map(|file| (relocation.file, file));
                if pinned.note(older, relocated) {
                    older.watch(&self.pins.version_watch);
                }
            }
            // The records are durable in both files. Applying the edit relocates the logical files
            // of all versions; if it fails, they stay where they are, which the next MANIFEST will
            // say.
            let edit = VersionEdit {
                column_family: family.id,
                relocations: vec![relocation.clone()],
                ..VersionEdit::default()
            };
            let on_disk = total(inputs.values().map(|file| file.bytes_on_disk()));
            let freed = on_disk.saturating_sub(relocation.total_bytes);
            // The older versions live until they are watched and the records that they pin are
            // excluded.
            Some((vec![edit], (relocation, inputs, freed, pinned, older)))
        };
        let installed = self.install(&[family], &outputs, prepare, |family, prepared| {
            let (relocation, _, freed, pinned, _) = prepared;
            let excluded = Arc::make_mut(&mut family.excluded);
            excluded.pinned.append(pinned);
            excluded.pinned.retain(&family.version);
            if *freed == 0 && contradicts {
                // Or it would be collected again and again.
                excluded.damaged.insert(relocation.file);
            }
        })?;
        let Some((relocation, inputs, freed, ..)) = installed else {
            return Ok(None);
        };
        let event = GarbageCollectionEvent {
            column_family: family.id,
            input_bytes: total(inputs.values().map(|file| file.total_bytes)),
            inputs: inputs.keys().copied().collect(),
            output: relocation.file,
            bytes_read: copied.bytes_read,
            bytes_written: copied.bytes_written,
        };
        stats::add(&self.opening.statistics.garbage_collections, 1);
        stats::add(&self.opening.statistics.gc_read_bytes, event.bytes_read);
        stats::add(&self.opening.statistics.gc_blob_bytes, event.bytes_written);
        Ok(Some((event, freed)))
    }
}

/// The relocation of the copied records, without logical files that left the version meanwhile.
fn relocation_of(copied: &Copied, version: &Version) -> Option<Relocation> {
    let mut relocation = copied.relocation.clone()?;
    let logical = &mut relocation.logical;
    logical.retain(|file| version.blob_files.contains_key(file));
    (!relocation.logical.is_empty()).then_some(relocation)
}

/// The physical files of a collection that the relocation leaves without logical files. Files with
/// another compression than the first one are not relocated.
fn emptied(
    collection: &Collection,
    relocation: &Relocation,
    version: &Version,
) -> NumberMap<BlobFileNumber, Arc<PhysicalBlobFile>> {
    let relocated: BTreeSet<&BlobFileNumber> = relocation.logical.iter().collect();
    let mut emptied = collection.places();
    for (number, file) in version.blob_files.iter() {
        if !relocated.contains(number) {
            emptied.remove(&file.shared.physical().number);
        }
    }
    emptied
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::format::ColumnFamilyId;
    use crate::gc::report::CollectionStatus;
    use crate::gc::selection::{GarbageEvaluation, select};
    use crate::version::edit::BlobFileGarbage;
    use crate::{ColumnFamilyOptions, CompressionType, Db, Options};

    /// Makes the accounts say that half of each blob file is garbage.
    fn claim_garbage(shared: &Shared) {
        let id = ColumnFamilyId::DEFAULT;
        let versions = shared.versions.lock();
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
        // Or it would pin the files that it sees for a moment.
        drop(current);
        drop(versions);
        let family = shared.family(id).unwrap();
        let prepare = |_: &VersionSet| Some((vec![edit], ()));
        shared
            .install(&[&family], &[], prepare, |_, ()| {})
            .unwrap();
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
            let options = &family.family.options();
            let walked = select(&family.version, options, &family.excluded).files;
            let sound = || {
                walked
                    .iter()
                    .filter(|f| f.status != CollectionStatus::Damaged)
            };
            assert_eq!(walked.len() - sound().count(), damaged);
            let evaluated = GarbageEvaluation::of(&family.version, options, &family.excluded);
            assert_eq!(
                family.evaluation.garbage,
                Some(evaluated),
                "what is kept is up to date"
            );
            let on_disk = total(sound().map(|f| f.file.bytes_on_disk()));
            assert_eq!(evaluated.space.blob_files, on_disk);
            assert_eq!(evaluated.space.blob_live, total(sound().map(|f| f.live)));
            let garbage = total(sound().map(|f| f.garbage));
            assert_eq!(on_disk - evaluated.space.blob_live, garbage);
            let tables = family.version.tables();
            let tables = total(tables.map(|(_, table)| table.size()));
            assert_eq!(evaluated.space.tables, tables);
            evaluated.urgency
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
