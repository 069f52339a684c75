//! Compactions of tables that users name, and tables that are cut where the application says.

use std::sync::Arc;

use titan::{
    ColumnFamilyOptions, CompactRangeOptions, Db, ErrorKind, FileNumber, FixedPrefixPartitioner,
    SstPartitioner, TableMetadata,
};
use titan_testkit::sim::SimVfs;

use crate::support::{key, manual, open, options, value};

fn tables(db: &Db) -> Vec<TableMetadata> {
    db.table_properties(None, None).unwrap()
}

/// The levels of all tables, and how many keys each has.
fn shape(db: &Db) -> Vec<(usize, u64)> {
    let tables = tables(db).into_iter();
    let mut shape: Vec<_> = tables.map(|t| (t.level, t.entries.unwrap())).collect();
    shape.sort_unstable();
    shape
}

/// The numbers of the tables of a level, in its order.
fn of_level(db: &Db, level: usize) -> Vec<FileNumber> {
    let tables = tables(db).into_iter();
    tables
        .filter(|t| t.level == level)
        .map(|t| t.file)
        .collect()
}

fn flush(db: &Db, keys: std::ops::Range<usize>, round: usize) {
    for n in keys {
        db.put(key(n), value(n + round, 200)).unwrap();
    }
    db.flush().unwrap();
}

/// Every key has the value of the last round that wrote it.
fn assert_content(db: &Db, rounds: &[(std::ops::Range<usize>, usize)]) {
    for n in 0..100 {
        let mut last = rounds.iter().rev();
        let round = last.find_map(|(keys, round)| keys.contains(&n).then_some(*round));
        let expected = round.map(|round| value(n + round, 200));
        let found = db.get(key(n)).unwrap();
        assert_eq!(found.as_deref(), expected.as_deref(), "key {n}");
    }
}

fn reopened(db: Db, options: &titan::Options) -> Db {
    db.close().unwrap();
    drop(db);
    open(options)
}

#[test]
fn named_tables_of_level_0_go_down_with_all_older_ones() {
    let vfs = SimVfs::new();
    let options = options(&vfs, manual());
    let db = open(&options);
    let mut rounds = Vec::new();
    for (round, keys) in [0..40, 20..60, 30..50].into_iter().enumerate() {
        flush(&db, keys.clone(), round * 1000);
        rounds.push((keys, round * 1000));
    }
    // The newest first.
    let numbers = of_level(&db, 0);
    assert_eq!(numbers.len(), 3);
    db.compact_files(&numbers[1..2], 6).unwrap();
    assert_eq!(shape(&db), [(0, 20), (6, 60)]);
    assert_content(&db, &rounds);
    // The number of a replaced table has none any more.
    let gone = db.compact_files(&numbers[1..2], 6).unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::InvalidArgument);
    assert!(
        gone.to_string()
            .contains(&format!("the number {}", numbers[1])),
        "{gone}"
    );
    // The rest, into the table that overlaps it.
    db.compact_files(&numbers[..1], 6).unwrap();
    assert_eq!(shape(&db), [(6, 60)]);
    assert_content(&db, &rounds);
    // Where it is.
    let before = of_level(&db, 6);
    db.compact_files(&before, 6).unwrap();
    assert_ne!(of_level(&db, 6), before);
    let db = reopened(db, &options);
    assert_eq!(shape(&db), [(6, 60)]);
    assert_content(&db, &rounds);
    db.close().unwrap();
}

#[test]
fn tables_between_named_ones_go_along() {
    let vfs = SimVfs::new();
    let options = partitioned(&vfs, Arc::new(FixedPrefixPartitioner(key(0).len() - 1)));
    let db = open(&options);
    flush(&db, 0..60, 0);
    let force = CompactRangeOptions {
        force_bottommost: true,
    };
    db.compact_range(None, None, &force).unwrap();
    let before = of_level(&db, 6);
    assert_eq!(before.len(), 6);
    // One of them twice.
    db.compact_files(&[before[1], before[3], before[1]], 6)
        .unwrap();
    let after = of_level(&db, 6);
    let stayed: Vec<_> = (0..6).filter(|n| after[*n] == before[*n]).collect();
    assert_eq!(stayed, [0, 4, 5]);
    assert_content(&db, &[(0..60, 0)]);
    db.close().unwrap();
}

#[test]
fn compactions_that_would_put_newer_keys_below_older_ones_are_refused() {
    let vfs = SimVfs::new();
    let db = open(&options(&vfs, manual()));
    flush(&db, 0..40, 0);
    db.compact_files(&of_level(&db, 0), 3).unwrap();
    flush(&db, 20..60, 1000);
    flush(&db, 70..90, 0);
    let level0 = of_level(&db, 0);
    let before = tables(&db);
    let no_files: Vec<FileNumber> = Vec::new();
    let both = [of_level(&db, 3), level0.clone()].concat();
    for (files, output_level, why) in [
        (&level0, 4, "level 3 has older keys"),
        (&level0, 0, "levels 1 to 6, not to 0"),
        (&level0, 7, "levels 1 to 6, not to 7"),
        (&of_level(&db, 3), 2, "levels 3 to 6, not to 2"),
        (&both, 4, "of levels 3 and 0"),
        (&no_files, 4, "no table was named"),
        (&vec![FileNumber(999_999)], 4, "the number 999999"),
    ] {
        let refused = db.compact_files(files, output_level).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
        assert!(refused.to_string().contains(why), "{refused}");
    }
    assert_eq!(tables(&db).len(), before.len());
    // The table between is no reason once it goes along.
    db.compact_files(&level0, 3).unwrap();
    db.compact_files(&of_level(&db, 3), 6).unwrap();
    assert_content(&db, &[(0..40, 0), (20..60, 1000), (70..90, 0)]);
    assert_eq!(shape(&db), [(6, 80)]);
    db.close().unwrap();
    let closed = db.compact_files(&level0, 3).unwrap_err();
    assert_eq!(closed.kind(), ErrorKind::Closed);
}

/// Cuts everywhere, or panics.
struct Everywhere {
    panics: bool,
}

impl SstPartitioner for Everywhere {
    fn name(&self) -> &str {
        "everywhere"
    }

    fn should_partition(&self, previous: &[u8], next: &[u8]) -> bool {
        assert!(!self.panics, "as told");
        previous < next
    }
}

fn partitioned(vfs: &SimVfs, by: Arc<dyn SstPartitioner>) -> titan::Options {
    options(
        vfs,
        ColumnFamilyOptions {
            sst_partitioner: Some(by),
            ..manual()
        },
    )
}

#[test]
fn compactions_cut_tables_where_the_partitioner_says() {
    let vfs = SimVfs::new();
    // All but the last digit of a key.
    let by_tens = Arc::new(FixedPrefixPartitioner(key(0).len() - 1));
    let options = partitioned(&vfs, by_tens);
    let db = open(&options);
    flush(&db, 0..35, 0);
    flush(&db, 5..25, 1000);
    // It reaches over all boundaries, and is cut with the tables.
    db.delete_range(key(18), key(22)).unwrap();
    let snapshot = db.snapshot();
    flush(&db, 20..21, 2000);
    assert_eq!(of_level(&db, 0).len(), 3, "a flush writes one table");
    db.compact_range(None, None, &CompactRangeOptions::default())
        .unwrap();
    let last = tables(&db);
    assert_eq!(last.len(), 4, "{last:?}");
    for (tens, table) in last.iter().enumerate() {
        assert_eq!(table.level, 6);
        assert!(table.smallest >= key(10 * tens), "{table:?}");
        // The end of a deletion is excluded, and may be the first key of the next table.
        assert!(table.largest <= key(10 * tens + 10), "{table:?}");
    }
    let content = |n: usize| match n {
        20 => Some(2000),
        18..22 => None,
        5..25 => Some(1000),
        0..35 => Some(0),
        _ => None,
    };
    let check = |db: &Db| {
        for n in 0..40 {
            let expected = content(n).map(|round| value(n + round, 200));
            assert_eq!(
                db.get(key(n)).unwrap().as_deref(),
                expected.as_deref(),
                "{n}"
            );
        }
    };
    check(&db);
    assert_eq!(snapshot.get(&db, key(20)).unwrap(), None);
    drop(snapshot);
    db.close().unwrap();
    let db = open(&options);
    check(&db);
    db.close().unwrap();
}

#[test]
fn a_partitioner_may_cut_everywhere_and_panic() {
    let vfs = SimVfs::new();
    for (panics, tables_left) in [(false, 20), (true, 1)] {
        let mut options = partitioned(&vfs, Arc::new(Everywhere { panics }));
        // Nothing else cuts.
        options.default.target_file_size_base = u64::MAX;
        let db = open(&options);
        flush(&db, 5..10, 1000);
        let snapshot = db.snapshot();
        flush(&db, 0..20, 0);
        let force = CompactRangeOptions {
            force_bottommost: true,
        };
        db.compact_range(None, None, &force).unwrap();
        // Both versions of a key are in one table.
        assert_eq!(tables(&db).len(), tables_left, "panics: {panics}");
        assert_content(&db, &[(0..20, 0)]);
        let before = snapshot.get(&db, key(7)).unwrap();
        assert_eq!(before.as_deref(), Some(&*value(1007, 200)));
        drop(snapshot);
        assert!(db.background_error().is_none());
        db.close().unwrap();
    }
}
