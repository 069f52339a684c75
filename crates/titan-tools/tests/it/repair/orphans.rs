//! Tables whose family is unknown: the MANIFEST is gone, and so are their properties.

use std::collections::BTreeSet;
use std::path::Path;

use titan::vfs::Vfs;
use titan::{CompactRangeOptions, Stated};
use titan_tools::{RepairReport, RepairTo, check};

use super::{Case, REPAIRED, empty, small};
use titan_testkit::setup::{DIR, files};

const KEYS: usize = 60;

fn key(n: usize) -> Vec<u8> {
    format!("key{n:03}").into_bytes()
}

/// A family's value for a key: of the same length in all families.
fn value(family: &str, n: usize, len: usize) -> Vec<u8> {
    let phrase = format!("{family} {n:03} ").into_bytes();
    phrase.into_iter().cycle().take(len).collect()
}

/// A database of these families, each with values of this length for the same keys, in tables.
fn filled(families: &[&str], len: usize) -> Case {
    let (case, _) = empty();
    let db = case.open(DIR);
    for family in families.iter().filter(|name| **name != "default") {
        let options = case.options.default.clone();
        db.create_column_family(family, options).unwrap();
    }
    for name in families {
        let family = db.column_family(name).unwrap();
        for n in 0..KEYS {
            family.put(&key(n), &value(name, n, len)).unwrap();
        }
    }
    db.flush_all().unwrap();
    db.close().unwrap();
    case
}

fn remove(case: &Case, path: &str) {
    case.vfs.remove(Path::new(path)).unwrap();
    case.vfs.sync_all().unwrap();
}

/// Makes a table's properties unreadable.
fn damage_properties(case: &Case, name: &str) {
    let path = format!("{DIR}/{name}");
    let bytes = case.vfs.read_all(&path).unwrap();
    let word = b"rocksdb.";
    let at = bytes.windows(word.len()).position(|bytes| bytes == word);
    case.vfs.flip_bit(&path, at.unwrap() as u64).unwrap();
}

/// Repairs, and checks that every key of every family is somewhere: under the family's own name, or
/// under one made up by the repair.
fn repair(case: &Case, families: &[&str], len: usize) -> RepairReport {
    let report = case.repair(&RepairTo::Directory(REPAIRED.into()));
    let checked = check(Path::new(REPAIRED), &case.options, &mut |_| {}).unwrap();
    assert!(checked.problems.is_empty(), "{:?}", checked.problems);
    let mut there = BTreeSet::new();
    for ((family, at), found) in case.contents(REPAIRED) {
        let n = (0..KEYS).find(|n| key(*n) == at).unwrap();
        let mut owners = families.iter();
        let owner = owners.find(|owner| value(owner, n, len) == found).unwrap();
        assert!(
            family == *owner || family.starts_with("recovered-"),
            "{family} has a value of {owner}\n{report:#?}"
        );
        there.insert((owner, n));
    }
    assert_eq!(there.len(), families.len() * KEYS, "{report:#?}");
    report
}

/// The families that have any data after the repair.
fn in_use(case: &Case) -> Vec<String> {
    let contents = case.contents(REPAIRED).into_keys();
    let names: BTreeSet<String> = contents.map(|(family, _)| family).collect();
    names.into_iter().collect()
}

#[test]
fn they_get_families_of_their_own() {
    let families = ["default", "another"];
    for (len, with_options) in [(50, true), (50, false), (150, true)] {
        let case = filled(&families, len);
        remove(&case, &case.manifest());
        let mut names = files(&case.vfs, DIR, "");
        names.retain(|name| name.starts_with("OPTIONS") && !with_options);
        for options in names {
            remove(&case, &format!("{DIR}/{options}"));
        }
        let tables = files(&case.vfs, DIR, ".sst");
        for table in &tables {
            damage_properties(&case, table);
        }
        let report = repair(&case, &families, len);
        assert_eq!(in_use(&case), ["recovered-1", "recovered-2"], "{report:#?}");
        let is_told = |table: &String| {
            report
                .notes
                .iter()
                .any(|note| note.contains(table.as_str()))
        };
        assert!(tables.iter().all(is_told), "{report:#?}");

        let db = case.open(REPAIRED);
        let new = db.create_column_family("new", small()).unwrap();
        assert_eq!(new.id().0, 3, "ids are given once");
        db.close().unwrap();
    }
}

#[test]
fn one_beside_a_family_that_is_known_is_not_taken_for_it() {
    let families = ["default", "another"];
    for orphan in 0..families.len() {
        let case = filled(&families, 150);
        remove(&case, &case.manifest());
        damage_properties(&case, &files(&case.vfs, DIR, ".sst")[orphan]);
        let report = repair(&case, &families, 150);
        let found = in_use(&case);
        let is_known = |name: &String| families.contains(&name.as_str());
        let known = found.iter().filter(|name| is_known(name)).count();
        assert_eq!((found.len(), known), (2, 1), "{found:?}\n{report:#?}");
    }
}

#[test]
fn those_that_share_blob_files_are_of_one_family() {
    let families = ["default", "another"];
    let mut case = filled(&families, 150);
    case.options.default.target_file_size_base = 1 << 10;
    // Half of the keys again, then all in tables by key: each table refers to both blob files.
    let db = case.open(DIR);
    for family in db.column_families() {
        for n in (0..KEYS).step_by(2) {
            family.put(&key(n), &value(family.name(), n, 150)).unwrap();
        }
        db.flush_all().unwrap();
        let all = CompactRangeOptions::default();
        family.compact_range(None, None, &all).unwrap();
    }
    db.close().unwrap();
    remove(&case, &case.manifest());
    let tables = files(&case.vfs, DIR, ".sst");
    assert!(tables.len() >= 4, "{tables:?}");
    let whole = case.on_a_copy();
    for table in &tables {
        damage_properties(&case, table);
    }
    let report = repair(&case, &families, 150);
    let found = in_use(&case);
    assert_eq!(found, ["recovered-1", "recovered-2"], "{report:#?}");

    // One table that knows its family is enough for all.
    let case = whole;
    for tables in tables.chunks(tables.len() / 2) {
        for table in &tables[1..] {
            damage_properties(&case, table);
        }
    }
    let report = repair(&case, &families, 150);
    let found = in_use(&case);
    assert_eq!(found.len(), 2, "{report:#?}");
    assert!(found[0] == "default" || found[1] == "default", "{found:?}");
}

/// Garbage collection relocated the records of several tables' blob files into one file, and one of
/// the tables has lost its family.
#[test]
fn one_whose_values_lie_beside_those_of_others_keeps_them() {
    let (mut case, _) = empty();
    let db = case.open(DIR);
    let halves = [0..KEYS / 2, KEYS / 2..KEYS];
    for step in [1, 2, 2] {
        for half in &halves {
            for n in half.clone().step_by(step) {
                db.put(&key(n), &value("default", n, 1000)).unwrap();
            }
            db.flush().unwrap();
            let (from, to) = (key(half.start), key(half.end - 1));
            db.compact_range(Some(&from), Some(&to), &CompactRangeOptions::default())
                .unwrap();
        }
    }
    db.close().unwrap();
    case.options.default.enable_blob_garbage_collection = true;
    case.options.default.stated = Stated::all();
    let db = case.open(DIR);
    db.wait_idle().unwrap();
    assert!(db.statistics().garbage_collections() > 0);
    db.close().unwrap();
    assert!(!files(&case.vfs, DIR, ".blobmap").is_empty());
    remove(&case, &case.manifest());
    let whole = case;
    let tables = files(&whole.vfs, DIR, ".sst");
    let mut apart = 0;
    for (n, a) in tables.iter().enumerate() {
        for b in &tables[n..] {
            let case = whole.on_a_copy();
            for table in BTreeSet::from([a, b]) {
                damage_properties(&case, table);
            }
            repair(&case, &["default"], 1000);
            apart += usize::from(in_use(&case).len() > 1);
        }
    }
    assert!(apart > 0, "all tables share blob files");
}
