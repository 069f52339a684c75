//! Recovers the state of a database from its MANIFEST.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::builder::VersionBuilder;
use super::counters::Counters;
use super::database_record::DatabaseRecord;
use super::family_versions::FamilyVersions;
use super::manifest::read_current;
use super::manifest_reader::ManifestReader;
use super::manifest_writer::ManifestWriter;
use super::version_set::VersionSet;
use crate::error::{Error, ErrorKind, Result};
use crate::format::comparator::{self, Comparator};
use crate::format::file_name::{FileKind, MAX_FILE_NUMBER};
use crate::format::internal_key::InternalKeyComparator;
use crate::format::{BytewiseComparator, ColumnFamilyId, FileNumber, SequenceNumber};
use crate::number_map::NumberMap;
use crate::options::Options;
use crate::options::SettingTexts;
use crate::options::kept::Kept;
use crate::stats::Statistics;
use crate::version::edit::VersionEdit;
use crate::version::state::files::ObsoleteFiles;
use crate::version::state::version::Version;
use crate::vfs::{Access, Vfs};

/// A family while the MANIFEST is read.
struct Replayed {
    name: String,
    comparator: Option<InternalKeyComparator>,
    /// Why the family cannot be read, if there is no comparator of the recorded name.
    unusable: Option<Error>,
    log_number: FileNumber,
    builder: Option<VersionBuilder>,
}

/// The state that a MANIFEST describes.
pub struct RecoveredState {
    families: NumberMap<ColumnFamilyId, Replayed>,
    record: DatabaseRecord,
    next_file: FileNumber,
    last_sequence: SequenceNumber,
    /// Whether an edit named them. A complete state does.
    names_log: bool,
    names_sequence: bool,
    /// Whether an edit relocated records of blob files, even of files that are gone by now.
    moves_values: bool,
    /// Options of families, and of the database.
    settings: BTreeMap<Option<ColumnFamilyId>, SettingTexts>,
    obsolete: Arc<ObsoleteFiles>,
    manifest: FileNumber,
    path: PathBuf,
}

impl RecoveredState {
    /// Reads the MANIFEST that CURRENT names.
    ///
    /// # Errors
    /// `NotFound` without CURRENT; `Corruption` with file and offset for damage; `Unsupported` for
    /// features this version does not know. An unknown comparator is an error of
    /// [`into_set`](Self::into_set).
    pub fn read(vfs: &dyn Vfs, dir: &Path, options: &Options) -> Result<Self> {
        let (manifest, path) = read_current(vfs, dir)?;
        let file = vfs.open(&path, Access::Sequential).map_err(|e| {
            if e.is_not_found() {
                return Error::corruption("CURRENT names a MANIFEST that is missing")
                    .in_file(&path)
                    .with_source(e);
            }
            e
        })?;
        let mut state = RecoveredState {
            families: NumberMap::new(),
            record: DatabaseRecord::default(),
            next_file: FileNumber(0),
            last_sequence: SequenceNumber::ZERO,
            names_log: false,
            names_sequence: false,
            moves_values: false,
            settings: BTreeMap::new(),
            obsolete: Arc::new(ObsoleteFiles::default()),
            manifest,
            path: path.clone(),
        };
        state.families.insert(
            ColumnFamilyId::DEFAULT,
            Replayed {
                name: ColumnFamilyId::DEFAULT_NAME.to_owned(),
                comparator: None,
                unusable: None,
                log_number: FileNumber(0),
                builder: None,
            },
        );
        let mut reader = ManifestReader::new(file, &path, manifest);
        let mut group: Vec<(u64, VersionEdit)> = Vec::new();
        while let Some(record) = reader.next()? {
            let at = |e: Error| e.at(&path, record.offset);
            let edit = record.edit?;
            state.moves_values |= !edit.relocations.is_empty();
            match edit.atomic_group_remaining {
                Some(_) if mutant!(group_in_half) => {
                    state.apply(edit, options).map_err(at)?;
                }
                Some(remaining) => {
                    group.push((record.offset, edit));
                    if remaining == 0 {
                        for (offset, edit) in group.drain(..) {
                            state
                                .apply(edit, options)
                                .map_err(|e| e.at(&path, offset))?;
                        }
                    }
                }
                None if group.is_empty() => state.apply(edit, options).map_err(at)?,
                None => {
                    return Err(at(Error::corruption(
                        "an edit appears inside an atomic group",
                    )));
                }
            }
        }
        // An atomic group that is cut off has no effect.
        for (is_named, what) in [
            (state.next_file > FileNumber(0), "next file number"),
            (state.names_log, "log number"),
            (state.names_sequence, "last sequence number"),
        ] {
            if !is_named {
                let text = format!("the MANIFEST names no {what}: it is cut off, or damaged");
                return Err(Error::corruption(text).in_file(&path));
            }
        }
        Ok(state)
    }

    fn apply(&mut self, edit: VersionEdit, options: &Options) -> Result<()> {
        let id = edit.column_family;
        if let Some(name) = &edit.added_column_family {
            let family = Replayed {
                name: name.clone(),
                comparator: None,
                unusable: None,
                log_number: FileNumber(0),
                builder: None,
            };
            let is_default = name == ColumnFamilyId::DEFAULT_NAME;
            let taken = self.families.values().any(|known| known.name == *name);
            if is_default != (id == ColumnFamilyId::DEFAULT) || (taken && !is_default) {
                let text = format!("column family {id} cannot be named {name:?}");
                return Err(Error::corruption(text));
            }
            let known = self.families.insert(id, family);
            // The default family exists before an edit adds it.
            if known.is_some_and(|known| !is_default || known.builder.is_some()) {
                return Err(Error::corruption(format!(
                    "column family {id} is added twice"
                )));
            }
        }
        if edit.dropped_column_family && self.families.remove(&id).is_none() {
            return Err(Error::corruption(format!(
                "column family {id} is dropped but unknown"
            )));
        }
        for kept in &edit.kept_settings {
            self.settings.insert(kept.family, kept.settings.clone());
        }
        if let Some(family) = self.families.get_mut(&id) {
            family.apply(id, &edit, options, &self.obsolete)?;
        } else if !edit.new_files.is_empty() || !edit.deleted_files.is_empty() {
            // RocksDB may write edits of a family after the edit that dropped it.
            if id > self.record.max_column_family {
                return Err(Error::corruption(format!(
                    "an edit of unknown column family {id}"
                )));
            }
        }
        self.record.apply(&edit);
        if let Some(next) = edit.next_file_number {
            if next.0 >= MAX_FILE_NUMBER {
                return Err(Error::corruption(format!(
                    "file number {next} is out of range"
                )));
            }
            self.next_file = self.next_file.max(next);
        }
        self.names_log |= edit.log_number.is_some();
        self.names_sequence |= edit.last_sequence.is_some();
        if let Some(last) = edit.last_sequence {
            self.last_sequence = self.last_sequence.max(last);
        }
        Ok(())
    }

    /// The names of the families, default first.
    pub fn family_names(&self) -> Vec<String> {
        self.families.values().map(|f| f.name.clone()).collect()
    }

    /// The options that the MANIFEST and the newest OPTIONS file of `dir` keep.
    pub fn kept_options(&self, vfs: &dyn Vfs, dir: &Path) -> Result<Kept> {
        let families = self.families.iter().map(|(&id, f)| (id, f.name.as_str()));
        Kept::read(vfs, dir, self.manifest, &self.settings, families)
    }

    /// Whether the MANIFEST has an edit that RocksDB refuses.
    pub fn moves_values(&self) -> bool {
        self.moves_values
    }

    /// The versions at the end of the MANIFEST. No MANIFEST is open for writing yet.
    pub fn into_set(
        mut self,
        vfs: Arc<dyn Vfs>,
        dir: &Path,
        options: &Options,
        statistics: Arc<Statistics>,
    ) -> Result<VersionSet> {
        let mut families = NumberMap::new();
        let mut taken = BTreeMap::new();
        for (id, mut replayed) in self.families {
            if id == ColumnFamilyId::DEFAULT && replayed.comparator.is_none() {
                replayed.start_default(options, &self.obsolete);
            }
            if let Some(unusable) = replayed.unusable {
                return Err(unusable.in_file(&self.path));
            }
            let (comparator, builder) = match (replayed.comparator, replayed.builder) {
                (Some(comparator), Some(builder)) => (comparator, builder),
                _ => {
                    return Err(Error::corruption(format!(
                        "the MANIFEST names no comparator for column family {}",
                        replayed.name
                    ))
                    .in_file(&self.path));
                }
            };
            let (name, log_number) = (replayed.name, replayed.log_number);
            let builder = builder.with_levels(options.family(&name).num_levels);
            let built = builder.build().map_err(|e| e.in_file(&self.path))?;
            let current = built.install();
            refuse_shared_files(&current, &mut taken).map_err(|e| e.in_file(&self.path))?;
            let mut family = FamilyVersions::new(name, comparator, log_number, current);
            family.settings = self.settings.remove(&Some(id)).unwrap_or_default();
            families.insert(id, family);
        }
        self.record.settings = self.settings.remove(&None).unwrap_or_default();
        let counters = Arc::new(Counters::default());
        counters.mark_file_number_used(FileNumber(self.next_file.0.saturating_sub(1)));
        counters.mark_file_number_used(self.manifest);
        counters.publish_sequence(self.last_sequence);
        Ok(VersionSet {
            vfs,
            dir: dir.to_owned(),
            families,
            record: self.record,
            counters,
            obsolete: self.obsolete,
            statistics,
            manifest: ManifestWriter::new(options.db.max_manifest_file_size, Some(self.manifest)),
            clock: Arc::clone(&options.db.clock),
            newest_in_tables: SequenceNumber::ZERO,
        })
    }
}

/// Refuses a file that families before this one have `taken`: one of them would delete it while the
/// other reads it.
///
/// # Errors
/// `Corruption` naming both families.
fn refuse_shared_files(
    version: &Version,
    taken: &mut BTreeMap<FileKind, ColumnFamilyId>,
) -> Result<()> {
    let id = version.column_family;
    let tables = version
        .tables()
        .map(|(_, table)| FileKind::Table(table.number()));
    let blob_files = version.blob_files.values();
    let blob_files = blob_files.flat_map(|file| file.shared.physical().files());
    for file in tables.chain(blob_files) {
        match taken.insert(file, id) {
            Some(other) if other != id => {
                return Err(Error::corruption(format!(
                    "column families {other} and {id} both have the file {}",
                    file.name()
                )));
            }
            _ => {}
        }
    }
    Ok(())
}

impl Replayed {
    /// RocksDB creates a database with a MANIFEST that does not name the comparator of the default
    /// family. If it is killed then, the next opening chooses the comparator. So it does if RocksDB
    /// has gone on with that MANIFEST (`reuse_manifest_on_open`); the tables name the comparator by
    /// which they are sorted.
    fn start_default(&mut self, options: &Options, obsolete: &Arc<ObsoleteFiles>) {
        let given = Arc::clone(&options.family(&self.name).comparator);
        let comparator = InternalKeyComparator::new(given);
        self.start(ColumnFamilyId::DEFAULT, comparator, obsolete);
    }

    fn start(
        &mut self,
        id: ColumnFamilyId,
        comparator: InternalKeyComparator,
        obsolete: &Arc<ObsoleteFiles>,
    ) {
        if self.builder.is_none() {
            let base = Version::empty(id, comparator.clone(), 1);
            self.builder = Some(VersionBuilder::new(Arc::new(base), Arc::clone(obsolete)));
        }
        self.comparator = Some(comparator);
    }

    fn apply(
        &mut self,
        id: ColumnFamilyId,
        edit: &VersionEdit,
        options: &Options,
        obsolete: &Arc<ObsoleteFiles>,
    ) -> Result<()> {
        if let Some(recorded) = &edit.comparator {
            let user = choose_comparator(&self.name, recorded, options).unwrap_or_else(|e| {
                // Nothing is compared yet.
                self.unusable = Some(e);
                Arc::new(BytewiseComparator)
            });
            self.start(id, InternalKeyComparator::new(user), obsolete);
        }
        if let Some(log_number) = edit.log_number {
            self.log_number = self.log_number.max(log_number);
        }
        let adds_files = !edit.new_files.is_empty() || !edit.blob_additions.is_empty();
        if id == ColumnFamilyId::DEFAULT && self.builder.is_none() && adds_files {
            self.start_default(options, obsolete);
        }
        match &mut self.builder {
            Some(builder) => builder.apply(edit),
            None if !adds_files => Ok(()),
            None => Err(Error::corruption(format!(
                "an edit adds files to column family {} before its comparator is named",
                self.name
            ))),
        }
    }
}

/// The comparator to read a family with: the given one if its name is the recorded one, or if none
/// was chosen, a built-in one, by its own name or an alias of it.
pub fn choose_comparator(
    family: &str,
    recorded: &str,
    options: &Options,
) -> Result<Arc<dyn Comparator>> {
    let given = &options.family(family).comparator;
    if given.name() == recorded {
        return Ok(Arc::clone(given));
    }
    if given.name() != BytewiseComparator.name() {
        return Err(Error::new(
            ErrorKind::InvalidArgument,
            format!(
                "column family {family} is ordered by '{recorded}', not by '{}'",
                given.name()
            ),
        ));
    }
    match options.db.comparator_aliases.get(recorded) {
        Some(order) => Ok(order.with_name(recorded)),
        None => comparator::by_name(recorded)
            .map_err(|e| e.context(format!("opening column family {family}"))),
    }
}

/// Content of a MANIFEST, reconstructed by other means.
pub struct Rebuilt {
    pub families: NumberMap<ColumnFamilyId, FamilyVersions>,
    pub record: DatabaseRecord,
    pub counters: Arc<Counters>,
}

impl VersionSet {
    /// The set of a database whose MANIFEST is being rebuilt. Nothing is written.
    pub fn rebuild(vfs: Arc<dyn Vfs>, dir: &Path, options: &Options, rebuilt: Rebuilt) -> Self {
        let mut set = VersionSet::create(vfs, dir, options, Arc::new(Statistics::default()));
        set.families = rebuilt.families;
        set.record = rebuilt.record;
        set.counters = rebuilt.counters;
        set
    }

    /// The set of a database that does not exist yet. Nothing is written.
    pub(crate) fn create(
        vfs: Arc<dyn Vfs>,
        dir: &Path,
        options: &Options,
        statistics: Arc<Statistics>,
    ) -> Self {
        let default = options.family(ColumnFamilyId::DEFAULT_NAME);
        let comparator = InternalKeyComparator::new(Arc::clone(&default.comparator));
        let current = Arc::new(Version::empty(
            ColumnFamilyId::DEFAULT,
            comparator.clone(),
            default.num_levels,
        ));
        let counters = Arc::new(Counters::default());
        counters.mark_file_number_used(FileNumber(0));
        let family = FamilyVersions::new(
            ColumnFamilyId::DEFAULT_NAME.to_owned(),
            comparator,
            FileNumber(0),
            current,
        );
        VersionSet {
            vfs,
            dir: dir.to_owned(),
            families: NumberMap::from([(ColumnFamilyId::DEFAULT, family)]),
            record: DatabaseRecord {
                max_column_family_is_exact: true,
                ..DatabaseRecord::default()
            },
            counters,
            obsolete: Arc::new(ObsoleteFiles::default()),
            statistics,
            manifest: ManifestWriter::new(options.db.max_manifest_file_size, None),
            clock: Arc::clone(&options.db.clock),
            newest_in_tables: SequenceNumber::ZERO,
        }
    }
}
