//! The set of all versions: applies edits and keeps the MANIFEST.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use super::builder::{BuiltVersion, VersionBuilder};
use super::counters::Counters;
use super::database_record::DatabaseRecord;
use super::family_versions::FamilyVersions;
use super::logs_since::LogsSince;
use super::manifest::{Manifest, read_current};
use super::manifest_writer::ManifestWriter;
use crate::clock::SystemClock;
use crate::error::{Error, ErrorKind, Result};
use crate::format::file_name::FileKind;
use crate::format::{ColumnFamilyId, FileNumber, SequenceNumber, total};
use crate::number_map::NumberMap;
use crate::options::SettingTexts;
use crate::options::file::OptionsFile;
use crate::options::rocksdb;
use crate::stats::{self, HistogramKind, Statistics};
use crate::version::edit::{BlobFileAddition, BlobFileGarbage, KeptSettings, VersionEdit};
use crate::version::state::files::ObsoleteFiles;
use crate::version::state::version::Version;
use crate::vfs::Vfs;

/// All versions and the MANIFEST. Used under one lock, which no reader and no writer takes.
pub struct VersionSet {
    pub(super) vfs: Arc<dyn Vfs>,
    pub(super) dir: PathBuf,
    pub(super) families: NumberMap<ColumnFamilyId, FamilyVersions>,
    pub(super) record: DatabaseRecord,
    pub(super) counters: Arc<Counters>,
    pub(super) obsolete: Arc<ObsoleteFiles>,
    pub(super) statistics: Arc<Statistics>,
    pub(super) manifest: ManifestWriter,
    pub(super) clock: Arc<dyn SystemClock>,
    /// The newest sequence number of the tables that edits of this set have added. It is newer than
    /// the published one between the installation of a value that its writer has put into a table,
    /// and its publication.
    pub(super) newest_in_tables: SequenceNumber,
}

impl VersionSet {
    pub fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// The last sequence number that is in use. RocksDB continues after that of the last edit.
    pub(super) fn last_sequence(&self) -> SequenceNumber {
        self.counters.last_sequence().max(self.newest_in_tables)
    }

    pub(crate) fn obsolete(&self) -> &Arc<ObsoleteFiles> {
        &self.obsolete
    }

    pub fn db_id(&self) -> &str {
        &self.record.db_id
    }

    /// The WAL file with which recovery starts: ordinary batches in older ones are in tables
    /// already.
    pub fn oldest_log_needed(&self) -> FileNumber {
        self.logs_since().needed
    }

    /// The WAL files from which recovery reads on.
    pub fn logs_since(&self) -> LogsSince {
        let families = self.families.values().map(|f| f.log_number);
        LogsSince::new(&self.record, families)
    }

    /// Content of the MANIFEST beside families.
    pub fn record(&self) -> &DatabaseRecord {
        &self.record
    }

    /// The last operation that is known to be in tables and older than the WAL files that are
    /// needed: tables of families that need later ones may have later operations.
    pub fn last_before_logs(&self) -> SequenceNumber {
        let needed = self.oldest_log_needed();
        let families = self.families.values();
        let first = families.filter(|family| family.log_number <= needed);
        let tables = first.flat_map(|family| family.current.tables());
        let last = tables.map(|(_, table)| table.meta.largest_seq).max();
        last.unwrap_or_default()
    }

    /// The numbers that no WAL file has, next to WAL files that are needed.
    fn needed_unlogged(&self) -> impl Iterator<Item = (SequenceNumber, FileNumber)> + use<'_> {
        let needed = self.oldest_log_needed();
        let all = self.record.unlogged.iter().map(|(n, log)| (*n, *log));
        all.filter(move |(_, log)| *log >= needed)
    }

    /// The SST and blob files of all current versions.
    pub fn live_files(&self) -> BTreeSet<FileKind> {
        let mut live = BTreeSet::new();
        for family in self.families.values() {
            let tables = family.current.tables();
            live.extend(tables.map(|(_, t)| FileKind::Table(t.number())));
            let blob_files = family.current.blob_files.values();
            live.extend(blob_files.flat_map(|file| file.shared.physical().files()));
        }
        live
    }

    pub fn families(&self) -> &NumberMap<ColumnFamilyId, FamilyVersions> {
        &self.families
    }

    /// The OPTIONS file with the options that are kept for the next opening.
    pub fn options_file(&self) -> OptionsFile {
        let families = self.families.values().map(|family| {
            let comparator = family.comparator.user().name();
            (family.name.as_str(), comparator, &family.settings)
        });
        rocksdb::options_file(&self.record.settings, families)
    }

    /// Sets, only in memory, the options that are kept for the next opening: those of the database,
    /// and those of each family by its name.
    pub fn keep_settings(
        &mut self,
        of_database: SettingTexts,
        of_family: impl Fn(&str) -> SettingTexts,
    ) {
        self.record.settings = of_database;
        for family in self.families.values_mut() {
            family.settings = of_family(&family.name);
        }
    }

    /// Replaces the options that are kept for a family, for the database, or for both. The edit is
    /// durable on return.
    pub(crate) fn set_options(
        &mut self,
        id: ColumnFamilyId,
        of_family: Option<SettingTexts>,
        of_database: Option<SettingTexts>,
    ) -> Result<()> {
        let of_family = of_family.map(|settings| KeptSettings {
            family: Some(id),
            settings,
        });
        // Also if all are defaults: those that were kept before are no more.
        let of_database = of_database.map(|settings| KeptSettings {
            family: None,
            settings,
        });
        let kept: Vec<KeptSettings> = of_family.into_iter().chain(of_database).collect();
        self.log(&mut [VersionEdit {
            column_family: id,
            kept_settings: kept.clone(),
            ..VersionEdit::default()
        }])?;
        for KeptSettings { family, settings } in kept {
            match family.map(|id| self.families.get_mut(&id)) {
                Some(Some(family)) => family.settings = settings,
                Some(None) => {}
                None => self.record.settings = settings,
            }
        }
        Ok(())
    }

    /// Changes the bytes after which a new MANIFEST is started.
    pub(crate) fn set_max_manifest_file_size(&mut self, bytes: u64) {
        self.manifest.set_max_file_size(bytes);
    }

    pub fn family(&self, id: ColumnFamilyId) -> Option<&FamilyVersions> {
        self.families.get(&id)
    }

    /// A family's current version.
    pub(crate) fn current(&self, id: ColumnFamilyId) -> Option<Arc<Version>> {
        Some(Arc::clone(&self.family(id)?.current))
    }

    pub(crate) fn manifest_number(&self) -> Option<FileNumber> {
        self.manifest.number()
    }

    /// The id the next created family gets.
    pub(crate) fn next_column_family(&self) -> ColumnFamilyId {
        if mutant!(family_id_given_out_again) {
            let last = self.families.keys().next_back();
            return ColumnFamilyId(last.map_or(0, |id| id.0) + 1);
        }
        ColumnFamilyId(self.record.max_column_family.0 + 1)
    }

    /// Whether it is certain that no family ever had this id.
    pub fn never_had(&self, id: ColumnFamilyId) -> bool {
        self.record.never_had(id)
    }

    /// Applies edits of different families: builds the next versions, makes the edits durable, then
    /// releases the files that they replaced. After a crash either all of them are in effect or
    /// none. On an error the current versions stay. If the next ones cannot be built, the new files
    /// that the edits name are obsolete. Otherwise it is unknown whether the edits are in the
    /// MANIFEST, so files they name must not be deleted until [`VersionSet::start_manifest`] has
    /// succeeded.
    ///
    /// Cost: one write and one sync of the MANIFEST.
    pub(crate) fn apply(&mut self, mut edits: Vec<VersionEdit>) -> Result<()> {
        let built = self.build(&edits).inspect_err(|_| {
            // No MANIFEST will ever name them.
            for file in self.new_files_of(&edits) {
                self.obsolete.push(file);
            }
        })?;
        self.state_invariants(&edits)?;
        let added = edits.iter().flat_map(|edit| &edit.new_files);
        let added = added.filter(|(_, table)| table.knows_sequences());
        let newest = added.map(|(_, table)| table.largest_seq).max();
        let newest = newest.unwrap_or_default().max(self.last_sequence());
        let grouped = edits.len() > 1;
        let count = edits.len() as u32;
        for (edit, i) in edits.iter_mut().zip(1..) {
            edit.next_file_number = Some(self.counters.next_file_number());
            // ORDER: with the tables that have it: a later edit or batch must not use it again.
            edit.last_sequence = Some(match mutant!(sequence_of_a_table_not_recorded) {
                true => self.counters.last_sequence(),
                false => newest,
            });
            edit.atomic_group_remaining = grouped.then_some(count - i);
        }
        if mutant!(files_deleted_before_edit) {
            for edit in &edits {
                let stays = |number| edit.new_files.iter().any(|(_, file)| file.number == number);
                let gone = edit.deleted_files.iter();
                let gone = gone.filter(|(_, number)| !stays(*number));
                gone.for_each(|(_, number)| self.obsolete.push(FileKind::Table(*number)));
            }
        }
        self.log(&mut edits)?;
        self.newest_in_tables = newest;

        for min in edits.iter().filter_map(|edit| edit.min_log_number_to_keep) {
            self.record.note_min_log_number(min);
        }
        let now = self.clock.monotonic();
        for (id, log_number, built) in built {
            let Some(family) = self.families.get_mut(&id) else {
                continue;
            };
            // ORDER: the edit is durable; only now may the files that it replaced be deleted.
            family.replace(built.install(), now);
            if let Some(log_number) = log_number {
                family.log_number = log_number;
            }
            let edit = edits.iter().find(|edit| edit.column_family == id);
            invariant!(
                edit.is_none_or(|edit| family.current.has_files_of(edit)),
                "the version of family {id} lacks files of its edit, or has deleted ones: {edit:?}"
            );
        }
        let needed = self.oldest_log_needed();
        for edit in &edits {
            self.record.note_unlogged(&edit.unlogged, needed);
        }
        #[cfg(any(debug_assertions, fuzzing))]
        if crate::invariants::compares_manifests() {
            // Files that faults leave unreadable are no matter of this comparison.
            let _ = super::recorded::compare_with_manifest(self);
        }
        Ok(())
    }

    /// States the invariants of edits that are about to become durable.
    ///
    /// # Errors
    /// `Internal` if something does not; where invariants are checked it panics.
    fn state_invariants(&self, edits: &[VersionEdit]) -> Result<()> {
        let next = self.counters.next_file_number();
        let mut edited = BTreeSet::new();
        for edit in edits {
            let id = edit.column_family;
            invariant!(durable: edited.insert(id), "two edits of one group edit family {id}")?;
            if let Some(number) = edit.named_files().filter_map(|file| file.number()).max() {
                invariant!(
                    durable: number < next.0,
                    "an edit names file {number}, and the next new file would be {next}"
                )?;
            }
            invariant!(
                edit.min_log_number_to_keep
                    .is_none_or(|min| min >= self.record.min_log_number_to_keep && min <= next),
                "WAL files are kept from {:?} on, and were from {} on",
                edit.min_log_number_to_keep,
                self.record.min_log_number_to_keep
            );
            let (Some(family), Some(log_number)) = (self.families.get(&id), edit.log_number) else {
                continue;
            };
            invariant!(
                durable: log_number >= family.log_number,
                "family {id} needs WAL files from {} on, and again from {log_number} on",
                family.log_number
            )?;
        }
        Ok(())
    }

    /// The next version of each family that is edited, with its new log number.
    fn build(
        &self,
        edits: &[VersionEdit],
    ) -> Result<Vec<(ColumnFamilyId, Option<FileNumber>, BuiltVersion)>> {
        let mut built = Vec::new();
        for edit in edits {
            if let Some(family) = self.families.get(&edit.column_family) {
                let mut builder =
                    VersionBuilder::new(Arc::clone(&family.current), Arc::clone(&self.obsolete));
                builder.apply(edit)?;
                built.push((edit.column_family, edit.log_number, builder.build()?));
            }
        }
        Ok(built)
    }

    /// Files that edits name and that no current version has.
    fn new_files_of(&self, edits: &[VersionEdit]) -> Vec<FileKind> {
        let live = self.live_files();
        let named = edits.iter().flat_map(VersionEdit::named_files);
        named.filter(|file| !live.contains(file)).collect()
    }

    /// Applies an edit only to the state in memory: for recovery, which then makes everything
    /// durable at once with [`VersionSet::start_manifest`].
    pub fn apply_in_memory(&mut self, edit: &VersionEdit) -> Result<()> {
        let Some(family) = self.families.get_mut(&edit.column_family) else {
            return Ok(());
        };
        let mut builder =
            VersionBuilder::new(Arc::clone(&family.current), Arc::clone(&self.obsolete));
        builder.apply(edit)?;
        let built = builder.build()?.before_it_is_durable();
        family.replace(built, self.clock.monotonic());
        Ok(())
    }

    /// Adds a family only to the state in memory; see [`VersionSet::apply_in_memory`].
    pub(crate) fn add_family_in_memory(&mut self, id: ColumnFamilyId, family: FamilyVersions) {
        self.record.note_family(id);
        self.families.insert(id, family);
    }

    /// Notes, only in memory, that everything in WAL files before `number` is in tables.
    pub fn advance_logs_in_memory(&mut self, number: FileNumber) {
        self.record.min_log_number_to_keep = number;
        for family in self.families.values_mut() {
            family.log_number = number;
        }
    }

    /// Sets the identity of a database that has none yet.
    pub fn set_db_id(&mut self, db_id: String) {
        self.record.db_id = db_id;
    }

    /// Adds a family. The edit is durable on return.
    pub(crate) fn create_family(
        &mut self,
        id: ColumnFamilyId,
        family: FamilyVersions,
    ) -> Result<()> {
        invariant!(
            durable: id > self.record.max_column_family && !self.families.contains_key(&id),
            "a family gets id {id}, and {} was given out",
            self.record.max_column_family
        )?;
        invariant!(
            durable: self.families.values().all(|other| other.name != family.name),
            "two families are named {}",
            family.name
        )?;
        let mut edit = VersionEdit {
            column_family: id,
            added_column_family: Some(family.name.clone()),
            comparator: Some(family.comparator.user().name().to_owned()),
            log_number: Some(family.log_number),
            max_column_family: Some(id),
            kept_settings: kept(Some(id), &family.settings),
            ..VersionEdit::default()
        };
        if mutant!(created_family_without_its_options) {
            edit.kept_settings.clear();
        }
        self.log(&mut [edit])?;
        self.record.note_family(id);
        self.families.insert(id, family);
        Ok(())
    }

    /// Removes a family and marks its files obsolete; the others need no WAL file before `needed`.
    /// The edit is durable on return.
    pub(crate) fn drop_family(&mut self, id: ColumnFamilyId, needed: FileNumber) -> Result<()> {
        invariant!(
            durable: id != ColumnFamilyId::DEFAULT && self.families.contains_key(&id),
            "family {id} is dropped, which is the default one or is not there"
        )?;
        let edit = VersionEdit {
            column_family: id,
            dropped_column_family: true,
            min_log_number_to_keep: Some(needed),
            ..VersionEdit::default()
        };
        self.log(&mut [edit])?;
        self.record.note_min_log_number(needed);
        // ORDER: the edit is durable; only now may the files be deleted.
        if let Some(family) = self.families.remove(&id) {
            family.current.tables().for_each(|(_, f)| f.mark_obsolete());
            let stay = mutant!(dropped_family_leaves_its_blob_files);
            for file in family.current.blob_files.values().filter(|_| !stay) {
                file.shared.physical().mark_obsolete();
            }
        }
        Ok(())
    }

    fn log(&mut self, edits: &mut [VersionEdit]) -> Result<()> {
        self.append(edits).inspect_err(|_| {
            let files = self.new_files_of(edits);
            self.manifest.add_unrecorded(files);
        })
    }

    fn append(&mut self, edits: &mut [VersionEdit]) -> Result<()> {
        let is_new = self.manifest.is_full() && self.try_next_manifest()?;
        if is_new && mutant!(edit_lost_with_a_new_manifest) {
            return Ok(());
        }
        let detailed = self.statistics.detailed();
        let watch = detailed.map(|detailed| detailed.time(HistogramKind::ManifestSync));
        let written = self.manifest.append(edits)?;
        drop(watch);
        stats::add(&self.statistics.manifest_bytes, written);
        Ok(())
    }

    /// Starts another MANIFEST in place of a full one; false if there is no file descriptor or no
    /// room for it: then edits go on to the full one, and the next edit tries again.
    fn try_next_manifest(&mut self) -> Result<bool> {
        let is_wanting = |e: &Error| {
            let kinds = [ErrorKind::TooManyOpenFiles, ErrorKind::NoSpace];
            kinds.contains(&e.kind())
        };
        match self.start_manifest() {
            Err(e) if is_wanting(&e) && self.manifest.number().is_some() => {
                self.manifest.wait_for_growth();
                Ok(false)
            }
            started => started.map(|()| true),
        }
    }

    /// Starts a MANIFEST with the current state and makes it the current one. The previous one
    /// becomes obsolete, and so do files that only failed edits named.
    pub fn start_manifest(&mut self) -> Result<()> {
        let number = self.counters.new_file_number();
        invariant!(
            durable: self.manifest.number().is_none_or(|last| last < number),
            "MANIFEST {number} follows {:?}",
            self.manifest.number()
        )?;
        invariant!(
            durable: self.families.contains_key(&ColumnFamilyId::DEFAULT),
            "a MANIFEST would have no default family"
        )?;
        let mut state = self.state();
        let manifest = Manifest::start(&*self.vfs, &self.dir, number, &mut state)
            .map_err(|e| self.start_failed(number, e.context("starting a MANIFEST")))?;
        stats::add(&self.statistics.manifest_bytes, manifest.size());
        let versions = self.families.values().map(|family| &family.current);
        let data = total(versions.map(|v| v.table_bytes() + v.blob_files.live_bytes()));
        for file in self.manifest.replace(manifest, data) {
            self.obsolete.push(file);
        }
        Ok(())
    }

    /// Takes away the files of a MANIFEST whose start has failed. If CURRENT may name it, they stay
    /// until another one is in force, and nothing is appended to the one before.
    fn start_failed(&mut self, number: FileNumber, failure: Error) -> Error {
        let files = [FileKind::Manifest(number), FileKind::Temp(number)];
        // No descriptor: nothing was done, and CURRENT cannot be read.
        let is_unnamed = failure.is_out_of_descriptors() || {
            let current = read_current(&*self.vfs, &self.dir);
            current.is_ok_and(|(named, _)| named != number)
        };
        if is_unnamed {
            for file in files {
                let _ = self.vfs.remove(&file.path(&self.dir));
            }
        } else if !mutant!(replaced_manifest_goes_on) {
            self.manifest.retire(failure.clone());
            self.manifest.add_unrecorded(files.into());
        }
        failure
    }

    /// Bytes of the whole state in a MANIFEST, about.
    pub(crate) fn state_bytes(&self) -> u64 {
        let mut record = Vec::new();
        self.state()
            .iter()
            .for_each(|edit| edit.encode(&mut record));
        record.len() as u64
    }

    /// The whole state as edits.
    pub(super) fn state(&self) -> Vec<VersionEdit> {
        let forgets_ids = mutant!(largest_family_id_not_in_a_new_manifest);
        let forgets_logs = mutant!(kept_logs_not_in_a_new_manifest);
        let forgets_garbage = mutant!(garbage_not_in_a_new_manifest);
        let mut edits = vec![VersionEdit {
            prev_log_number: Some(FileNumber(0)),
            next_file_number: Some(self.counters.next_file_number()),
            last_sequence: Some(self.last_sequence()),
            max_column_family: (!forgets_ids).then_some(self.record.max_column_family),
            min_log_number_to_keep: (!forgets_logs).then_some(self.record.min_log_number_to_keep),
            db_id: Some(self.record.db_id.clone()),
            kept_settings: kept(None, &self.record.settings),
            unknown: self.record.unknown.clone(),
            unlogged: self.needed_unlogged().collect(),
            ..VersionEdit::default()
        }];
        for (&id, family) in &self.families {
            edits.push(VersionEdit {
                column_family: id,
                added_column_family: (id != ColumnFamilyId::DEFAULT).then(|| family.name.clone()),
                comparator: Some(family.comparator.user().name().to_owned()),
                kept_settings: kept(Some(id), &family.settings),
                ..VersionEdit::default()
            });
            let version = &family.current;
            let mut edit = VersionEdit {
                column_family: id,
                log_number: Some(family.log_number),
                ..VersionEdit::default()
            };
            for (level, file) in version.tables() {
                edit.new_files.push((level, file.meta.clone()));
                edit.table_facts.extend(file.facts().cloned());
            }
            for meta in version.blob_files.values() {
                edit.blob_additions.push(BlobFileAddition {
                    number: meta.shared.number,
                    count: meta.shared.total_count,
                    total_bytes: meta.shared.total_bytes,
                    checksum_method: meta.shared.checksum_method.clone(),
                    checksum_value: meta.shared.checksum_value.clone(),
                    unknown: Vec::new(),
                });
                if meta.garbage_count > 0 && !forgets_garbage {
                    edit.blob_garbage.push(BlobFileGarbage {
                        number: meta.shared.number,
                        count: meta.garbage_count,
                        bytes: meta.garbage_bytes,
                        unknown: Vec::new(),
                    });
                }
            }
            if !mutant!(relocation_not_in_a_new_manifest) {
                edit.relocations = version.relocations();
            }
            edits.push(edit);
        }
        edits
    }
}

fn kept(family: Option<ColumnFamilyId>, settings: &SettingTexts) -> Vec<KeptSettings> {
    match settings.is_empty() {
        true => Vec::new(),
        false => vec![KeptSettings {
            family,
            settings: settings.clone(),
        }],
    }
}
