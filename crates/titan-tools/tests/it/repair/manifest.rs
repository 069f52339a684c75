//! Files that the MANIFEST does not name, or describes differently.

use std::collections::BTreeMap;

use titan::{Db, ErrorKind};
use titan_testkit::sim::SimVfs;
use titan_tools::RepairTo;

use super::{Case, Key, REPAIRED, empty, small};
use titan_testkit::setup::{DIR, options};

#[test]
fn writes_to_a_family_that_the_manifest_does_not_know_yet_are_kept() {
    let vfs = SimVfs::new();
    let options = options(&vfs, small());
    let case = Case {
        vfs: vfs.clone(),
        options: options.clone(),
        history: BTreeMap::new(),
    };
    let db = case.open(DIR);
    db.put(b"k", b"default").unwrap();
    // A copy of a database in use, whose MANIFEST was copied before its WAL.
    let manifest = case.manifest();
    let early = vfs.read_all(&manifest).unwrap();
    let late = db.create_column_family("late", small()).unwrap();
    late.put(b"k", b"late").unwrap();
    db.close().unwrap();
    vfs.write_all(&manifest, &early).unwrap();
    let refused = Db::open(DIR, &options).map(drop).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Corruption);

    let report = case.repair(&RepairTo::Directory(REPAIRED.into()));
    assert!(!report.lost.is_empty(), "the MANIFEST is not all there was");
    let contents: Vec<(Key, Vec<u8>)> = case.contents(REPAIRED).into_iter().collect();
    let key = |family: &str| (family.to_owned(), b"k".to_vec());
    assert_eq!(
        contents,
        [
            (key("default"), b"default".to_vec()),
            (key("recovered-1"), b"late".to_vec())
        ],
        "{report:#?}"
    );
}

#[test]
fn a_damaged_table_whose_edit_is_missing_is_told() {
    let (case, _) = empty();
    let db = case.open(DIR);
    for n in 0..100 {
        db.put(format!("key{n:03}").as_bytes(), &[7; 50]).unwrap();
    }
    let manifest = case.manifest();
    let early = case.vfs.read_all(&manifest).unwrap();
    db.flush_all().unwrap();
    db.close().unwrap();
    case.vfs.write_all(&manifest, &early).unwrap();
    let names = case.vfs.list(DIR).unwrap();
    let table = names.iter().find(|name| name.ends_with(".sst")).unwrap();
    case.vfs.flip_bit(format!("{DIR}/{table}"), 100).unwrap();
    let report = case.repair(&RepairTo::Directory(REPAIRED.into()));
    let told = report.lost.iter().any(|loss| loss.file == *table);
    assert!(told, "{report:#?}");
}

/// Two tables of equal size, of two families whose names have equal length, are swapped.
#[test]
fn tables_that_changed_places_are_noticed_and_put_right() {
    let (case, _) = empty();
    let families = ["default", "another"];
    let options = case.options.default.clone();
    let db = case.open(DIR);
    db.create_column_family("another", options).unwrap();
    for family in families {
        let family = db.column_family(family).unwrap();
        for n in 0..100 {
            let value = format!("{} {n:03}", family.name());
            family
                .put(format!("key{n:03}").as_bytes(), value.as_bytes())
                .unwrap();
        }
        db.flush_all().unwrap();
    }
    db.close().unwrap();
    let names = case.vfs.list(DIR).unwrap();
    let tables: Vec<_> = names.iter().filter(|name| name.ends_with(".sst")).collect();
    let [a, b] = [0, 1].map(|n: usize| format!("{DIR}/{}", tables[n]));
    let [in_a, in_b] = [&a, &b].map(|path| case.vfs.read_all(path).unwrap());
    assert_eq!(in_a.len(), in_b.len(), "they have to be of one size");
    case.vfs.write_all(&a, &in_b).unwrap();
    case.vfs.write_all(&b, &in_a).unwrap();

    let db = case.open(DIR);
    for family in families {
        let error = db.column_family(family).unwrap().get(b"key007");
        let error = error.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
        assert!(error.to_string().contains("another table"), "{error}");
    }
    drop(db);
    case.repair(&RepairTo::Directory(REPAIRED.into()));
    let db = case.open(REPAIRED);
    for family in families {
        let value = db.column_family(family).unwrap().get(b"key007").unwrap();
        assert_eq!(value.as_deref(), Some(format!("{family} 007").as_bytes()));
    }
}
