//! Tables that go together with a range.

use titan::merge::builtin::by_name;
use titan::{
    ColumnFamilyOptions, CompactRangeOptions, Conditions, Db, ErrorKind, IngestOptions,
    ReadOptions, Secondary, Stated,
};
use titan_testkit::sim::{Errno, Fault, OpKind, SimVfs};

use super::{Rows, family, get, levels, made_of, manually, rows, rows_with};
use crate::crash_states::{after_each_crash, assert_sound};
use crate::support::{DIR, files, key, manual, options, scaled, value};

fn compact(db: &Db) {
    let all = CompactRangeOptions::default();
    db.compact_range(None, None, &all).unwrap();
}

/// A hundred keys with separated values, in several tables of the last level.
fn filled(vfs: &SimVfs) -> (titan::Options, Db) {
    let mut options = options(vfs, family());
    options.default.target_file_size_base = 1 << 10;
    let db = Db::open(DIR, &options).unwrap();
    for n in 0..100 {
        db.put(key(n), value(n, 1000)).unwrap();
        if n % 10 == 9 {
            db.flush().unwrap();
        }
    }
    compact(&db);
    (options, db)
}

#[test]
fn tables_within_a_range_are_dropped_with_their_values() {
    let vfs = SimVfs::new();
    let (options, db) = filled(&vfs);
    let (tables, blobs) = (levels(&db)[0].1, files(&vfs, DIR, ".blob").len());
    assert!(tables > 2 && blobs > 0, "{tables} {blobs}");
    // In the middle of a table.
    let dropped = db.delete_files_in_range(key(10), key(11)).unwrap();
    assert_eq!(dropped.tables, 0);
    assert_eq!(db.get(key(10)).unwrap(), None);
    let dropped = db.delete_files_in_range(key(10), key(90)).unwrap();
    assert!(dropped.tables > 0 && dropped.blob_bytes > 0, "{dropped:?}");
    assert_eq!(rows(&db).len(), 20);
    let dropped = db.delete_files_in_range("", "z").unwrap();
    assert!(dropped.tables > 0);
    assert!(rows(&db).is_empty());
    // The tombstone is alone.
    assert!(
        files(&vfs, DIR, ".blob").is_empty(),
        "{:?}",
        files(&vfs, DIR, ".blob")
    );
    assert_eq!(files(&vfs, DIR, ".sst").len(), 1);
    let e = db.delete_files_in_range("b", "a").unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidArgument, "{e}");
    db.put("a", "goes on").unwrap();
    db.close().unwrap();
    assert_sound(&options, "");
    let db = Db::open(DIR, &options).unwrap();
    assert_eq!(rows(&db).len(), 1);
}

#[test]
fn snapshots_and_conditions_keep_tables_and_writes_stay() {
    let vfs = SimVfs::new();
    let (_, db) = filled(&vfs);
    let snapshot = db.snapshot();
    db.put(key(5), "changed").unwrap();
    let before = levels(&db);
    let dropped = db.delete_files_in_range("", "z").unwrap();
    assert_eq!(dropped.tables, 0);
    let old = ReadOptions {
        snapshot: Some(snapshot.clone()),
        ..ReadOptions::default()
    };
    assert_eq!(rows_with(&db, &old).len(), 100);
    for n in [5, 6] {
        let mut conditions = Conditions::since(&snapshot);
        conditions.unchanged(&*db, key(n)).unwrap();
        let e = db.check_conditions(&conditions).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Conflict, "{e}");
    }
    drop((old, snapshot));
    assert_eq!(levels(&db).last(), before.last());
    let dropped = db.delete_files_in_range("", "z").unwrap();
    assert!(dropped.tables > 2, "{dropped:?}");
    assert!(rows(&db).is_empty());
}

#[test]
fn nothing_older_shows_where_a_table_was_dropped() {
    let vfs = SimVfs::new();
    let mut options = manually(&vfs);
    options.default.merge_operator = by_name("uint64add");
    let db = Db::open(DIR, &options).unwrap();
    for key in ["a", "m", "z"] {
        db.put(key, 1u64.to_le_bytes()).unwrap();
    }
    db.flush().unwrap();
    db.merge("m", 1u64.to_le_bytes()).unwrap();
    db.flush().unwrap();
    // The table with the operand goes, and that with its base stays.
    let dropped = db.delete_files_in_range("l", "n").unwrap();
    assert_eq!(dropped.tables, 1);
    assert_eq!(db.get("m").unwrap(), None);
    // A later operand has no base.
    db.merge("m", 5u64.to_le_bytes()).unwrap();
    let sum = db.get("m").unwrap();
    assert_eq!(sum.as_deref(), Some(&5u64.to_le_bytes()[..]));
    compact(&db);
    assert_eq!(rows(&db).len(), 3);
}

#[test]
fn copies_and_views_have_the_range_or_lack_it() {
    let vfs = SimVfs::new();
    let (options, db) = filled(&vfs);
    let secondary = Secondary::open(DIR, &options).unwrap();
    let view = secondary.db();
    db.delete_files_in_range(key(20), key(80)).unwrap();
    db.put(key(50), "again").unwrap();
    assert_eq!(rows(&view).len(), 100);
    secondary.try_catch_up().unwrap();
    db.checkpoint("/copy").unwrap();
    let copy = Db::open("/copy", &options).unwrap();
    for db in [copy, secondary.db()] {
        assert_eq!(rows(&db).len(), 41);
        assert_eq!(
            get(&db, std::str::from_utf8(&key(50)).unwrap()).as_deref(),
            Some("again")
        );
    }
}

/// The range is there as a whole or not at all.
#[test]
fn a_crash_leaves_all_of_the_range_or_nothing_of_it() {
    let vfs = SimVfs::new();
    let (_, db) = filled(&vfs);
    let from = vfs.journal().len();
    let dropped = db.delete_files_in_range(key(3), key(97)).unwrap();
    assert!(dropped.tables > 0);
    vfs.mark(1u64);
    let mut found = [0, 0];
    after_each_crash(&vfs, from, |crash| {
        let options = manually(&crash.image);
        let db = Db::open(DIR, &options).unwrap();
        let left = rows(&db).len();
        assert!([100, 6].contains(&left), "{}: {left}", crash.at);
        assert!(left == 6 || crash.acknowledged == 0);
        found[usize::from(left == 6)] += 1;
        db.close().unwrap();
        assert_sound(&options, &crash.at.to_string());
    });
    assert!(found.iter().all(|times| *times > 0), "{found:?}");
}

#[test]
fn a_failure_leaves_the_range_deleted_or_as_it_was() {
    for kind in [
        OpKind::Create,
        OpKind::Append,
        OpKind::Sync,
        OpKind::SyncDir,
    ] {
        for nth in 0.. {
            let what = format!("{kind:?} {nth}");
            let vfs = SimVfs::new();
            let (options, db) = filled(&vfs);
            let fault = vfs.inject(Fault::on([kind]).skip(nth).times(1).error(Errno::NO_SPACE));
            let deleted = db.delete_files_in_range("", "z");
            if fault.hits() == 0 {
                assert!(deleted.is_ok(), "{what}");
                break;
            }
            vfs.clear_faults();
            let left = rows(&db).len();
            assert!(
                left == 0 || left == 100 && deleted.is_err(),
                "{what}: {left}"
            );
            if db.put("after", "y").is_err() && db.resume().is_err() {
                continue;
            }
            db.delete_files_in_range("", "z").unwrap();
            assert!(rows(&db).is_empty(), "{what}");
            db.close().unwrap();
            assert_sound(&options, &what);
        }
    }
}

/// Against a model, with ingestions, merges and snapshots.
#[test]
fn random_ranges_are_dropped() {
    let mut dropped = 0;
    for seed in 0..scaled(30) {
        let mut rng = fastrand::Rng::with_seed(seed);
        let vfs = SimVfs::new();
        let default = ColumnFamilyOptions {
            disable_auto_compactions: rng.bool(),
            write_buffer_size: 64 << 10,
            level0_file_num_compaction_trigger: 2,
            target_file_size_base: 2 << 10,
            max_bytes_for_level_base: 4 << 10,
            max_bytes_for_level_multiplier: 2,
            merge_operator: by_name("stringappend"),
            stated: Stated::all(),
            ..manual()
        };
        let options = options(&vfs, default);
        let db = Db::open(DIR, &options).unwrap();
        let text = |n: usize| String::from_utf8(key(n).to_vec()).unwrap();
        let mut model = Rows::new();
        let mut snapshot = None;
        for step in 0..50 {
            let what = format!("seed {seed}, step {step}");
            match rng.u32(..9) {
                0 | 1 => {
                    let from = rng.usize(..100);
                    let (begin, end) = (text(from), text(from + rng.usize(1..60)));
                    dropped += db.delete_files_in_range(&begin, &end).unwrap().tables;
                    model.retain(|key, _| *key < begin || *key >= end);
                }
                2 => db.flush().unwrap(),
                3 if rng.bool() => compact(&db),
                4 => {
                    let n = rng.usize(..95);
                    let keys = [text(n), text(n + 3)];
                    let names: Vec<&str> = keys.iter().map(String::as_str).collect();
                    let file = made_of(&options, "1.sst", &names, "ingested");
                    db.ingest(&[file], &IngestOptions::default()).unwrap();
                    model.extend(keys.map(|key| (key, b"ingested".to_vec())));
                }
                5 => snapshot = rng.bool().then(|| (db.snapshot(), model.clone())),
                _ => {
                    for _ in 0..20 {
                        let n = rng.usize(..100);
                        match rng.u32(..5) {
                            0 => {
                                db.delete(key(n)).unwrap();
                                model.remove(&text(n));
                            }
                            1 => {
                                db.merge(key(n), "+").unwrap();
                                let value = model.entry(text(n)).or_default();
                                value.extend(if value.is_empty() { &b"+"[..] } else { b",+" });
                            }
                            _ => {
                                let new = value(rng.usize(..), rng.usize(1..300));
                                db.put(key(n), &new).unwrap();
                                model.insert(text(n), new);
                            }
                        }
                    }
                }
            }
            assert!(rows(&db) == model, "{what}");
            if let Some((snapshot, seen)) = &snapshot {
                let old = ReadOptions {
                    snapshot: Some(snapshot.clone()),
                    ..ReadOptions::default()
                };
                assert!(rows_with(&db, &old) == *seen, "{what}");
            }
        }
        drop(snapshot);
        db.close().unwrap();
        assert_sound(&options, &format!("seed {seed}"));
        let db = Db::open(DIR, &options).unwrap();
        assert!(rows(&db) == model, "seed {seed}");
    }
    assert!(dropped > 10, "{dropped}");
}
