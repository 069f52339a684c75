//! Tables that a database writes for others.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use titan::merge::builtin::by_name;
use titan::vfs::Vfs;
use titan::{Db, ErrorKind, IngestOptions, Options, ReadOptions, SstFileInfo};
use titan_testkit::sim::{Errno, Fault, OpKind, SimVfs};
use titan_tools::check;

use super::{levels, manually, rows};
use crate::crash_states::after_each_crash;
use crate::support::{DIR, key, value};

const OUT: &str = "/out";

fn ingest(db: &Db, tables: &[SstFileInfo]) {
    let paths: Vec<_> = tables.iter().map(|table| &table.path).collect();
    db.ingest(&paths, &IngestOptions::default()).unwrap();
}

/// Overwritten, deleted, merged and separated values, and entities.
fn filled(options: &Options) -> Db {
    let db = Db::open(DIR, options).unwrap();
    for n in 0..200 {
        db.put(key(n), value(n, 700)).unwrap();
    }
    db.flush().unwrap();
    for n in (0..200).step_by(3) {
        db.put(key(n), value(n + 1000, 30)).unwrap();
    }
    db.delete(key(7)).unwrap();
    db.delete_range(key(50), key(60)).unwrap();
    db.put_entity(key(8), [("", "default"), ("name", "Ann")])
        .unwrap();
    let large = String::from_utf8(vec![b'x'; 900]).unwrap();
    db.put_entity(key(10), [("large", &*large)]).unwrap();
    db.flush().unwrap();
    db.merge("count", 1u64.to_le_bytes()).unwrap();
    db.merge("count", 2u64.to_le_bytes()).unwrap();
    db
}

fn settings(vfs: &SimVfs) -> Options {
    let mut options = manually(vfs);
    options.default.merge_operator = by_name("uint64add");
    options.default.target_file_size_base = 20 << 10;
    options
}

#[test]
fn another_database_has_all_that_was_exported() {
    let vfs = SimVfs::new();
    let db = filled(&settings(&vfs));
    let tables = db.export(OUT, None, None).unwrap();
    assert!(tables.len() > 3, "{tables:?}");
    let entries: u64 = tables.iter().map(|table| table.entries).sum();
    assert_eq!(entries, rows(&db).len() as u64);
    // The directory has them and nothing else.
    assert_eq!(vfs.list(OUT).unwrap().len(), tables.len());
    let mut elsewhere = settings(&vfs);
    // An operator is not needed any more.
    elsewhere.default.merge_operator = None;
    let other = Db::open("/other", &elsewhere).unwrap();
    ingest(&other, &tables);
    assert!(rows(&other) == rows(&db));
    assert_eq!(levels(&other), [(6, tables.len())]);
    for n in [8, 10, 9] {
        let columns = |db: &Db| {
            let found = db.get_entity(key(n)).unwrap().unwrap();
            let read = found
                .iter()
                .map(|(name, v)| (name.to_vec(), v.fetch().unwrap()));
            read.collect::<Vec<_>>()
        };
        assert_eq!(columns(&db), columns(&other), "{n}");
    }
    other.close().unwrap();
    let report = check("/other".as_ref(), &elsewhere, &mut |_| {}).unwrap();
    assert!(report.problems.is_empty(), "{report:?}");
}

#[test]
fn a_range_of_a_snapshot_is_exported() {
    let vfs = SimVfs::new();
    let db = filled(&settings(&vfs));
    let snapshot = db.snapshot();
    db.put(key(20), "later").unwrap();
    let options = ReadOptions {
        snapshot: Some(snapshot),
        ..ReadOptions::default()
    };
    let tables = db
        .export_with(OUT, Some(&key(20)), Some(&key(25)), &options)
        .unwrap();
    let other = Db::open("/other", &settings(&vfs)).unwrap();
    ingest(&other, &tables);
    assert_eq!(rows(&other).len(), 5);
    assert!(other.get(key(20)).unwrap().unwrap() == value(20, 700));
    assert!(db.export("/none", Some(b"x"), None).unwrap().is_empty());
    assert!(vfs.list("/none").unwrap().is_empty());
}

#[test]
fn places_that_are_taken_are_refused_and_stay() {
    let vfs = SimVfs::new();
    let db = filled(&settings(&vfs));
    db.export(OUT, Some(&key(1)), Some(&key(2))).unwrap();
    let before = vfs.list(OUT).unwrap();
    let e = db.export(OUT, None, None).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::AlreadyExists, "{e}");
    assert_eq!(vfs.list(OUT).unwrap(), before);
    vfs.create_dir_all(Path::new("/other.tmp")).unwrap();
    vfs.write_all("/other.tmp/notes", b"of a user").unwrap();
    let e = db.export("/other", None, None).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::AlreadyExists, "{e}");
    assert_eq!(vfs.list("/other.tmp").unwrap(), ["notes"]);
    let e = db.export(format!("{DIR}/out"), None, None).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidArgument, "{e}");
}

/// The second export begins while the first one writes its first table.
#[test]
fn two_exports_to_one_place_do_not_mix() {
    let vfs = SimVfs::new();
    let db = filled(&settings(&vfs));
    let (other, began) = (db.clone(), Arc::new(AtomicBool::new(false)));
    let seen = Arc::clone(&began);
    vfs.set_hook(move |call| {
        let is_first = call.kind == OpKind::Append && call.path.ends_with("out.tmp/000001.sst");
        if is_first && !seen.swap(true, Ordering::Relaxed) {
            let e = other.export(OUT, None, None).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Locked, "{e}");
        }
    });
    let tables = db.export(OUT, None, None).unwrap();
    assert!(began.load(Ordering::Relaxed));
    vfs.set_hook(|_| ());
    let other = Db::open("/other", &settings(&vfs)).unwrap();
    ingest(&other, &tables);
    assert!(rows(&other) == rows(&db));
}

#[test]
fn an_export_that_fails_leaves_nothing_and_the_next_succeeds() {
    for kind in [
        OpKind::Create,
        OpKind::Append,
        OpKind::Sync,
        OpKind::SyncDir,
        OpKind::Rename,
        OpKind::Read,
    ] {
        for nth in 0.. {
            let vfs = SimVfs::new();
            let db = filled(&settings(&vfs));
            let fault = vfs.inject(Fault::on([kind]).skip(nth).times(1).error(Errno::IO));
            let exported = db.export(OUT, None, None);
            if fault.hits() == 0 {
                exported.unwrap();
                break;
            }
            vfs.clear_faults();
            let names = vfs.list("/").unwrap();
            if exported.is_ok() {
                continue;
            }
            let is_there = names.contains(&"out".to_owned());
            // The sync of its name is the last step.
            assert!(!is_there || kind == OpKind::SyncDir, "{kind:?} {nth}");
            if !is_there {
                db.export(OUT, None, None).unwrap();
            }
        }
    }
}

/// After any crash, there is no directory of this name, or it is whole.
#[test]
fn a_crash_leaves_the_whole_directory_or_none() {
    let vfs = SimVfs::new();
    let db = filled(&settings(&vfs));
    db.flush().unwrap();
    let from = vfs.journal().len();
    let tables = db.export(OUT, None, None).unwrap();
    vfs.mark(1u64);
    let expected = rows(&db);
    let (mut whole, mut none) = (0, 0);
    after_each_crash(&vfs, from, |crash| {
        let there = crash.image.list("/").unwrap().contains(&"out".to_owned());
        if !there {
            assert!(crash.acknowledged == 0);
            none += 1;
            return;
        }
        let other = Db::open("/other", &settings(&crash.image)).unwrap();
        ingest(&other, &tables);
        assert!(rows(&other) == expected, "{}", crash.at);
        whole += 1;
    });
    assert!(whole > 0 && none > 10, "{whole} {none}");
}
