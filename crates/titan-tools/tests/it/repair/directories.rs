//! Where the repaired database may be written.

use std::path::Path;

use titan::{ErrorKind, Stated};
use titan_testkit::sim::{Errno, Fault, OpKind};
use titan_tools::{RepairTo, repair};

use super::{Case, REPAIRED, empty};
use titan_testkit::setup::{DIR, files, key, value};

#[test]
fn a_read_only_database_can_be_repaired_into_another_directory() {
    let case = Case::with_seed(1);
    let denied = |errno| {
        let fault = Fault::on(OpKind::ALL.iter().copied()).error(errno);
        case.vfs
            .inject(fault.path(&format!("{DIR}/LOCK")).forever());
    };
    for errno in [Errno(30), Errno(13)] {
        denied(errno);
        let in_place = repair(
            Path::new(DIR),
            &RepairTo::InPlace,
            &case.options,
            &mut |_| {},
        );
        assert_eq!(in_place.unwrap_err().kind(), ErrorKind::Io);
        let target = format!("{REPAIRED}-{}", errno.0);
        let report = case.repair(&RepairTo::Directory((&target).into()));
        assert!(report.notes.iter().any(|note| note.contains("not locked")));
        case.vfs.clear_faults();
        assert_eq!(case.contents(&target), case.newest());
    }
}

#[test]
fn blob_files_and_maps_that_are_not_used_any_more_are_in_lost() {
    let (mut case, _) = empty();
    case.options.default.enable_blob_garbage_collection = true;
    case.options.default.stated = Stated::all();
    let db = case.open(DIR);
    for round in 0..3 {
        for n in (0..100).filter(|n| round == 0 || n % 2 == 0) {
            db.put(&key(n), &value(round * 100 + n, 1000)).unwrap();
        }
        db.flush().unwrap();
        db.compact_range(None, None, &Default::default()).unwrap();
        db.wait_idle().unwrap();
    }
    assert!(db.statistics().garbage_collections() > 0);
    db.close().unwrap();
    let maps = files(&case.vfs, DIR, ".blobmap");
    let blob_files = files(&case.vfs, DIR, ".blob");
    for name in &blob_files {
        case.vfs.flip_bit(format!("{DIR}/{name}"), 500).unwrap();
    }
    let report = case.repair(&RepairTo::InPlace);
    assert_eq!(report.kept_blob_files, 0, "{report:#?}");
    let there = files(&case.vfs, DIR, "");
    let lost = files(&case.vfs, format!("{DIR}/lost"), "");
    for name in maps.iter().chain(&blob_files) {
        assert!(!there.contains(name) && lost.contains(name), "{name}");
    }
}

#[test]
fn what_must_be_refused_is() {
    let case = Case::with_seed(1);
    let refused = |path: &str, to: &RepairTo| {
        let e = repair(Path::new(path), to, &case.options, &mut |_| {});
        e.unwrap_err().kind()
    };
    let elsewhere = RepairTo::Directory(REPAIRED.into());
    assert_eq!(refused("/nothing", &elsewhere), ErrorKind::NotFound);
    let itself = RepairTo::Directory(DIR.into());
    assert_eq!(refused(DIR, &itself), ErrorKind::AlreadyExists);
    let db = case.open(DIR);
    assert_eq!(refused(DIR, &elsewhere), ErrorKind::Locked);
    assert_eq!(refused(DIR, &RepairTo::InPlace), ErrorKind::Locked);
    db.close().unwrap();
}
