//! Every field of a state survives a new MANIFEST, and edits after it.

use std::path::Path;
use std::sync::Arc;

use super::family_versions::FamilyVersions;
use super::recorded::{Counted, Recorded, assert_recovered, assert_same, recovered};
use super::version_set::VersionSet;
use crate::collector::{CollectedReport, GarbageByMoment};
use crate::format::blob_index::BlobRefs;
use crate::format::internal_key::{InternalKeyComparator, ValueType, internal_key};
use crate::format::{
    BlobFileNumber, ColumnFamilyId, FileNumber, ReverseBytewiseComparator, SequenceNumber,
};
use crate::options::{ColumnFamilyOptions, Options};
use crate::stats::Statistics;
use crate::version::edit::{
    BlobFileAddition, BlobFileGarbage, KeptSettings, NewFile, Relocation, TableFacts, VersionEdit,
};
use crate::version::state::version::Version;
use crate::vfs::{Overlay, StdVfs, Vfs};

const ONE: ColumnFamilyId = ColumnFamilyId(1);
const TWO: ColumnFamilyId = ColumnFamilyId(2);

fn key(user_key: &str, sequence: u64) -> Vec<u8> {
    let sequence = SequenceNumber(sequence);
    internal_key(user_key.as_bytes(), sequence, ValueType::Value as u8)
}

fn settings(value: &str) -> Vec<(String, String)> {
    vec![("a name".to_owned(), value.to_owned())]
}

/// The oldest blob file of a table. Each family has numbers of its own, from a multiple of 40 on.
fn oldest_of(table: u64) -> BlobFileNumber {
    BlobFileNumber(table / 40 * 40 + 10)
}

/// A table with a value in every field that is not the default.
fn table(number: u64, from: &str, to: &str) -> NewFile {
    NewFile {
        number: FileNumber(number),
        // Other directories than the first are not supported.
        path_id: 0,
        size: 1000 + number,
        smallest: key(from, number + 1),
        largest: key(to, number),
        smallest_seq: SequenceNumber(number),
        largest_seq: SequenceNumber(number + 1),
        oldest_blob_file: Some(oldest_of(number)),
        oldest_ancester_time: 77,
        file_creation_time: 78,
        epoch_number: Some(number),
        unique_id: Some([7; 16]),
        checksum: vec![1, 2],
        checksum_method: b"sum".to_vec(),
        marked_for_compaction: true,
        temperature: 3,
        compensated_range_deletion_size: 55,
        tail_size: 66,
        user_defined_timestamps_persisted: false,
        unknown: vec![(60, vec![9])],
    }
}

fn collected(foreign: bool) -> CollectedReport {
    if foreign {
        return CollectedReport::default();
    }
    let mut garbage = GarbageByMoment::default();
    garbage.add(3, 400);
    CollectedReport {
        properties: [(b"app.rows".to_vec(), vec![7])].into(),
        garbage,
        seen: Some(2),
    }
}

fn facts(table: u64, foreign: bool) -> TableFacts {
    TableFacts {
        table: FileNumber(table),
        num_entries: 50,
        num_deletions: 5,
        num_range_deletions: 2,
        num_shadowed: if foreign { 0 } else { 6 },
        raw_key_bytes: 500,
        raw_value_bytes: 600,
        shadowed_bytes: 70,
        blob_refs: vec![BlobRefs {
            file: oldest_of(table),
            count: 4,
            bytes: 400,
        }],
        collected: collected(foreign),
        foreign,
    }
}

fn blob_file(number: u64) -> BlobFileAddition {
    BlobFileAddition {
        number: BlobFileNumber(number),
        count: 10,
        total_bytes: 1000,
        checksum_method: b"sum".to_vec(),
        checksum_value: vec![number as u8],
        unknown: Vec::new(),
    }
}

/// Everything that an edit can say about the files of a family, and the state besides.
fn full_edit(family: ColumnFamilyId) -> VersionEdit {
    let first = match family {
        ONE => 0,
        _ => 40,
    };
    let blob = |number| BlobFileNumber(first + number);
    let garbage = |number, count| BlobFileGarbage {
        number: blob(number),
        count,
        bytes: 100 * count,
        unknown: Vec::new(),
    };
    VersionEdit {
        column_family: family,
        log_number: Some(FileNumber(41)),
        min_log_number_to_keep: Some(FileNumber(40)),
        new_files: vec![
            (0, table(first + 30, "b", "k")),
            (0, table(first + 31, "a", "c")),
            (3, table(first + 32, "d", "e")),
            (3, table(first + 33, "f", "g")),
        ],
        blob_additions: [10, 11, 12, 13].map(|n| blob_file(first + n)).to_vec(),
        blob_garbage: vec![garbage(10, 1), garbage(12, 3)],
        relocations: vec![Relocation {
            file: blob(20),
            map: FileNumber(first + 21),
            count: 15,
            total_bytes: 1500,
            logical: vec![blob(11), blob(12)],
        }],
        table_facts: vec![facts(first + 30, false), facts(first + 32, true)],
        // An edit of a job does not state the fields that one opening decides; the rest are not
        // used.
        db_id: None,
        comparator: None,
        prev_log_number: None,
        next_file_number: None,
        last_sequence: None,
        max_column_family: None,
        added_column_family: None,
        dropped_column_family: false,
        atomic_group_remaining: None,
        compact_cursors: Vec::new(),
        deleted_files: Vec::new(),
        wal_additions: Vec::new(),
        wal_deletion: None,
        persist_user_defined_timestamps: None,
        kept_settings: Vec::<KeptSettings>::new(),
        unlogged: vec![(SequenceNumber(first), FileNumber(first + 40))],
        synced_before: None,
        state_follows: false,
        unknown: Vec::new(),
    }
}

/// A set in which no field has its default, and its options.
fn full_set(dir: &Path) -> (VersionSet, Options) {
    let reverse = ColumnFamilyOptions {
        comparator: Arc::new(ReverseBytewiseComparator),
        ..ColumnFamilyOptions::default()
    };
    let mut options = Options::default();
    options.families.insert("two".to_owned(), reverse);
    let vfs: Arc<dyn Vfs> = Arc::new(Overlay::new(Arc::new(StdVfs)));
    let mut set = VersionSet::create(vfs, dir, &options, Arc::new(Statistics::default()));
    set.set_db_id("an identity".to_owned());
    set.keep_settings(settings("of all"), |_| settings("of default"));
    set.record.unknown = vec![(9000, vec![1, 2, 3])];
    set.counters.mark_file_number_used(FileNumber(100));
    set.counters.publish_sequence(SequenceNumber(1000));
    set.start_manifest().unwrap();
    for (id, name) in [(ONE, "one"), (TWO, "two"), (ColumnFamilyId(7), "three")] {
        let family = options.family(name);
        let comparator = InternalKeyComparator::new(Arc::clone(&family.comparator));
        let empty = Version::empty(id, comparator.clone(), family.num_levels);
        let log = FileNumber(30 + u64::from(id.0));
        let mut family = FamilyVersions::new(name.to_owned(), comparator, log, Arc::new(empty));
        family.settings = settings(name);
        set.create_family(id, family).unwrap();
        assert_recovered(&set, &options, Counted::AtLeastWhatIsNamed);
    }
    (set, options)
}

#[test]
fn every_field_survives_edits_and_a_new_manifest() {
    let dir = tempfile::tempdir().unwrap();
    let (mut set, options) = full_set(dir.path());
    for family in [ColumnFamilyId::DEFAULT, ONE] {
        set.apply(vec![full_edit(family)]).unwrap();
        assert_recovered(&set, &options, Counted::AtLeastWhatIsNamed);
    }
    let before = Recorded::of(&set);
    set.start_manifest().unwrap();
    assert_recovered(&set, &options, Counted::Exactly);
    // The new MANIFEST takes a number, and changes nothing else.
    let mut after = Recorded::of(&set);
    assert!(after.next_file > before.next_file);
    after.next_file = before.next_file;
    assert_same(&before, &after);
}

#[test]
fn the_sequence_numbers_of_tables_are_used_up() {
    let dir = tempfile::tempdir().unwrap();
    let (mut set, options) = full_set(dir.path());
    // As of a value that is not published yet.
    let newest = SequenceNumber(2000);
    let mut edit = full_edit(ONE);
    edit.new_files[0].1.largest_seq = newest;
    set.apply(vec![edit]).unwrap();
    assert_eq!(set.counters.last_sequence(), SequenceNumber(1000));
    for _ in 0..2 {
        let found = recovered(&set.vfs, dir.path(), &options).unwrap();
        assert_eq!(found.counters.last_sequence(), newest);
        set.start_manifest().unwrap();
    }
}

#[test]
fn the_largest_family_id_is_never_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    let (mut set, options) = full_set(dir.path());
    set.drop_family(ColumnFamilyId(7), FileNumber(35)).unwrap();
    assert_recovered(&set, &options, Counted::AtLeastWhatIsNamed);
    for _ in 0..2 {
        set.start_manifest().unwrap();
        assert_recovered(&set, &options, Counted::Exactly);
    }
    let set = recovered(&set.vfs, dir.path(), &options).unwrap();
    assert_eq!(set.next_column_family(), ColumnFamilyId(8));
}

#[test]
fn what_edits_took_away_does_not_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let (mut set, options) = full_set(dir.path());
    set.apply(vec![full_edit(ONE)]).unwrap();
    let removals = [
        // To another level; then the only tables that link the oldest blob file go.
        vec![(0, 30), (0, 31)],
        vec![(3, 32), (3, 33)],
    ];
    for removed in removals {
        let deleted = removed.iter().map(|&(level, n)| (level, FileNumber(n)));
        let edit = VersionEdit {
            column_family: ONE,
            deleted_files: deleted.collect(),
            new_files: match removed.first() {
                Some((0, _)) => vec![(1, table(31, "a", "c"))],
                _ => Vec::new(),
            },
            ..VersionEdit::default()
        };
        set.apply(vec![edit]).unwrap();
        assert_recovered(&set, &options, Counted::AtLeastWhatIsNamed);
        set.start_manifest().unwrap();
        assert_recovered(&set, &options, Counted::Exactly);
    }
}
