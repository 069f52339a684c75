//! Record that a MANIFEST must have of a [`VersionSet`], as plain data that tests and
//! builds with invariants compare.
//!
//! Every struct is taken apart without `..`: a new field does not compile here until it is either
//! compared or listed as not recorded.

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use super::counters::Counters;
use super::database_record::DatabaseRecord;
use super::family_versions::FamilyVersions;
use super::recovery::RecoveredState;
use super::version_set::VersionSet;
use crate::error::Result;
use crate::format::file_name::FileKind;
use crate::format::{BlobFileNumber, ColumnFamilyId, FileNumber, SequenceNumber};
use crate::invariants;
use crate::number_map::NumberMap;
use crate::options::SettingTexts;
use crate::options::{ColumnFamilyOptions, Options};
use crate::stats::Statistics;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::version::edit::{NewFile, TableFacts};
use crate::version::state::blob_set::{BlobSet, Physical};
use crate::version::state::files::{
    BlobFileMeta, Known, Lifetime, PhysicalBlobFile, SharedBlobFile, TableFile,
};
use crate::version::state::level::{Level, LevelSums, Piece};
use crate::version::state::version::Version;
use crate::vfs::Vfs;

/// A version set.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Recorded {
    pub(crate) families: NumberMap<ColumnFamilyId, RecordedFamily>,
    pub(crate) max_column_family: ColumnFamilyId,
    pub(crate) min_log_number_to_keep: FileNumber,
    pub(crate) db_id: String,
    pub(crate) settings: SettingTexts,
    pub(crate) unknown: Vec<(u32, Vec<u8>)>,
    unlogged: Vec<(SequenceNumber, FileNumber)>,
    pub(crate) next_file: FileNumber,
    pub(crate) last_sequence: SequenceNumber,
}

/// A family with its current version.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RecordedFamily {
    name: String,
    id: ColumnFamilyId,
    comparator: String,
    comparator_of_version: String,
    pub(crate) log_number: FileNumber,
    settings: SettingTexts,
    levels: Vec<RecordedLevel>,
    may_have_tombstones: bool,
    blob_files: Vec<RecordedBlobFile>,
    physical: Vec<(BlobFileNumber, Physical)>,
    links: Vec<(BlobFileNumber, u64)>,
    live_bytes: u128,
    live_count: u128,
    physical_bytes: u128,
}

/// A level: its tables in their order.
#[derive(Debug, PartialEq, Eq)]
struct RecordedLevel {
    tables: Vec<RecordedTable>,
    len: usize,
    sums: LevelSums,
    newest: Option<FileNumber>,
    may_have_tombstones: bool,
}

#[derive(Debug, PartialEq, Eq)]
struct RecordedTable {
    meta: NewFile,
    facts: Option<TableFacts>,
    referenced_blob_bytes: Option<u64>,
    files: Vec<FileKind>,
}

#[derive(Debug, PartialEq, Eq)]
struct RecordedBlobFile {
    number: BlobFileNumber,
    total_count: u64,
    total_bytes: u64,
    checksum_method: Vec<u8>,
    checksum_value: Vec<u8>,
    garbage_count: u64,
    garbage_bytes: u64,
    physical: RecordedPhysical,
}

#[derive(Debug, PartialEq, Eq)]
struct RecordedPhysical {
    number: BlobFileNumber,
    map: Option<FileNumber>,
    count: u64,
    total_bytes: u64,
    files: Vec<FileKind>,
}

impl Recorded {
    pub(crate) fn of(set: &VersionSet) -> Self {
        let VersionSet {
            families,
            record,
            counters,
            // Not recorded: the surroundings, and the state of this opening.
            vfs: _,
            dir: _,
            obsolete: _,
            statistics: _,
            manifest: _,
            clock: _,
            // In the last sequence number.
            newest_in_tables: _,
        } = set;
        let DatabaseRecord {
            max_column_family,
            // Titan's MANIFESTs always name the largest id; see [`assert_recovered`].
            max_column_family_is_exact: _,
            min_log_number_to_keep,
            db_id,
            settings,
            unknown,
            unlogged,
            // Written by other programs or earlier openings.
            synced_logs: _,
            is_titans: _,
        } = record;
        let Counters {
            next_file,
            last_sequence: _,
        } = &**counters;
        let families = families.iter();
        // Others are forgotten at some time.
        let needed = set.oldest_log_needed();
        let unlogged = unlogged.iter().filter(|(_, log)| **log >= needed);
        Recorded {
            families: families.map(|(&id, f)| (id, family(f))).collect(),
            max_column_family: *max_column_family,
            min_log_number_to_keep: *min_log_number_to_keep,
            db_id: db_id.clone(),
            settings: settings.clone(),
            unknown: unknown.clone(),
            unlogged: unlogged.map(|(n, log)| (*n, *log)).collect(),
            next_file: FileNumber(load(next_file)),
            last_sequence: set.last_sequence(),
        }
    }

    /// Every number of a file that it names, and the smallest sequence number that must be used up.
    fn named(&self) -> (Vec<u64>, SequenceNumber) {
        let tables = || {
            let levels = self.families.values().flat_map(|f| &f.levels);
            levels.flat_map(|level| &level.tables)
        };
        let blob_files = self.families.values().flat_map(|f| &f.blob_files);
        let places = blob_files.flat_map(|file| {
            let of_physical = file.physical.files.iter().filter_map(|file| file.number());
            of_physical.chain([file.number.0])
        });
        let numbers = tables().map(|t| t.meta.number.0).chain(places).collect();
        let newest = tables().map(|t| t.meta.largest_seq).max();
        (numbers, newest.unwrap_or_default())
    }
}

fn load(number: &AtomicU64) -> u64 {
    number.load(Ordering::SeqCst)
}

fn family(family: &FamilyVersions) -> RecordedFamily {
    let FamilyVersions {
        name,
        comparator,
        log_number,
        settings,
        current,
        // Not recorded: used by readers of this opening.
        older: _,
    } = family;
    let Version {
        column_family,
        comparator: comparator_of_version,
        levels,
        may_have_tombstones,
        blob_files,
        // Computed when needed; the waiters for the end of the version.
        tombstones: _,
        watch: _,
    } = &**current;
    let BlobSet {
        files,
        physical,
        links,
        live_bytes,
        live_count,
        physical_bytes,
    } = blob_files;
    RecordedFamily {
        name: name.clone(),
        id: *column_family,
        comparator: comparator.user().name().to_owned(),
        comparator_of_version: comparator_of_version.user().name().to_owned(),
        log_number: *log_number,
        settings: settings.clone(),
        levels: levels.iter().map(level).collect(),
        may_have_tombstones: *may_have_tombstones,
        blob_files: files.values().map(blob_file).collect(),
        physical: physical.iter().map(|(n, p)| (*n, p.clone())).collect(),
        links: links.iter().map(|(n, count)| (*n, *count)).collect(),
        live_bytes: *live_bytes,
        live_count: *live_count,
        physical_bytes: *physical_bytes,
    }
}

fn level(level: &Level) -> RecordedLevel {
    let Level { pieces, len, sums } = level;
    let mut recorded = RecordedLevel {
        tables: Vec::new(),
        len: *len,
        sums: *sums,
        newest: None,
        may_have_tombstones: false,
    };
    for piece in pieces {
        let Piece {
            tables,
            newest,
            may_have_tombstones,
            // How a level is cut into pieces depends on how it grew.
            smallest: _,
            last: _,
            sums: _,
        } = &**piece;
        recorded.tables.extend(tables.iter().map(table));
        recorded.newest = recorded.newest.max(Some(*newest));
        recorded.may_have_tombstones |= may_have_tombstones;
    }
    recorded
}

fn table(table: &Arc<TableFile>) -> RecordedTable {
    let TableFile {
        meta,
        facts,
        lifetime,
        // Computed when needed; whether a job of this opening uses it.
        tombstones: _,
        compacting: _,
        counts: _,
    } = &**table;
    let (mut recorded, mut bytes) = (None, None);
    if let Some(known) = facts.get() {
        let Known {
            facts,
            referenced_blob_bytes,
        } = known;
        recorded = Some(facts.clone());
        bytes = Some(*referenced_blob_bytes);
    }
    RecordedTable {
        meta: meta.clone(),
        facts: recorded,
        referenced_blob_bytes: bytes,
        files: files(lifetime),
    }
}

/// The files of something that is live.
fn files(lifetime: &Lifetime) -> Vec<FileKind> {
    let Lifetime {
        files,
        obsolete,
        queue: _,
    } = lifetime;
    let is_obsolete = obsolete.load(Ordering::SeqCst);
    assert!(!is_obsolete, "{files:?} are live and marked obsolete");
    files.clone()
}

fn blob_file(meta: &BlobFileMeta) -> RecordedBlobFile {
    let BlobFileMeta {
        shared,
        garbage_count,
        garbage_bytes,
    } = meta;
    let SharedBlobFile {
        number,
        total_count,
        total_bytes,
        checksum_method,
        checksum_value,
        physical,
    } = &**shared;
    let PhysicalBlobFile {
        number: physical_number,
        map,
        count,
        total_bytes: physical_bytes,
        lifetime,
        // Measured at each opening.
        hole_bytes: _,
        holes: _,
    } = &*physical.load();
    RecordedBlobFile {
        number: *number,
        total_count: *total_count,
        total_bytes: *total_bytes,
        checksum_method: checksum_method.clone(),
        checksum_value: checksum_value.clone(),
        garbage_count: *garbage_count,
        garbage_bytes: *garbage_bytes,
        physical: RecordedPhysical {
            number: *physical_number,
            map: *map,
            count: *count,
            total_bytes: *physical_bytes,
            files: files(lifetime),
        },
    }
}

/// Part of the counters that the MANIFEST must have.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    /// All: it was started just now.
    Exactly,
    /// At least those that it names: numbers are taken without an edit.
    AtLeastWhatIsNamed,
}

/// The set that the MANIFEST in `dir` describes.
pub(crate) fn recovered(vfs: &Arc<dyn Vfs>, dir: &Path, options: &Options) -> Result<VersionSet> {
    let state = RecoveredState::read(&**vfs, dir, options)?;
    let statistics = Arc::new(Statistics::default());
    state.into_set(Arc::clone(vfs), dir, options, statistics)
}

/// Checks that the MANIFEST of a set that runs describes this very set.
///
/// # Errors
/// Failures to read the MANIFEST, which tells nothing then.
///
/// # Panics
/// As [`assert_recovered`].
pub(crate) fn compare_with_manifest(set: &VersionSet) -> Result<()> {
    let recovered = recovered(&set.vfs, &set.dir, &options_of(set))?;
    let (runs, mut found) = (Recorded::of(set), Recorded::of(&recovered));
    take_counters(set, &runs, &mut found);
    assert_same(&runs, &found);
    Ok(())
}

/// The options of which the comparison needs to know.
fn options_of(set: &VersionSet) -> Options {
    let mut options = Options::default();
    for family in set.families.values() {
        let of_family = ColumnFamilyOptions {
            comparator: Arc::clone(family.comparator.user()),
            num_levels: family.current.num_levels(),
            ..ColumnFamilyOptions::default()
        };
        match &*family.name {
            ColumnFamilyId::DEFAULT_NAME => options.default = of_family,
            name => drop(options.families.insert(name.to_owned(), of_family)),
        }
    }
    options
}

/// Checks that the MANIFEST of a set that runs describes this very set.
///
/// # Panics
/// If a field differs; names the lines that do.
#[cfg(test)]
pub(crate) fn assert_recovered(set: &VersionSet, options: &Options, counted: Counted) {
    let recovered = recovered(&set.vfs, &set.dir, options).unwrap();
    assert!(
        recovered.record.max_column_family_is_exact,
        "no largest family id"
    );
    let (runs, mut found) = (Recorded::of(set), Recorded::of(&recovered));
    if counted == Counted::AtLeastWhatIsNamed {
        take_counters(set, &runs, &mut found);
    }
    assert_same(&runs, &found);
}

/// Takes over the counters of a set that runs, once those of its MANIFEST are large enough.
fn take_counters(set: &VersionSet, runs: &Recorded, found: &mut Recorded) {
    let (numbers, newest) = found.named();
    let manifest = set.manifest_number().map(|number| number.0);
    let used = numbers.into_iter().chain(manifest).max();
    assert!(
        Some(found.next_file.0) > used,
        "{} is taken",
        found.next_file
    );
    assert!(found.next_file <= runs.next_file);
    assert!(found.last_sequence >= newest, "{newest} is in use");
    assert!(found.last_sequence <= runs.last_sequence);
    found.next_file = runs.next_file;
    found.last_sequence = runs.last_sequence;
}

/// Compares two sets, and names the lines of their text that differ.
pub(crate) fn assert_same(runs: &Recorded, found: &Recorded) {
    if runs == found {
        return;
    }
    let (runs, found) = (format!("{runs:#?}"), format!("{found:#?}"));
    let mut text = String::new();
    let pairs = runs.lines().zip(found.lines()).filter(|(a, b)| a != b);
    for (runs, found) in pairs.take(8) {
        // A text takes all.
        let _ = writeln!(text, "runs with {}, recovers {}", runs.trim(), found.trim());
    }
    invariants::fail(format_args!(
        "the recovered version differs from the running one:\n{text}\nthe whole: {runs}"
    ));
}
