//! Garbage is given back in place: live records stay readable, holes are no damage, and where holes
//! are of no use garbage is relocated as usual.

use std::collections::BTreeMap;
use std::path::Path;

use titan::vfs::Vfs;
use titan::{ColumnFamilyOptions, Db, Options, ReadOptions, Result};
use titan_testkit::sim::{Errno, Fault, OpKind, SimVfs};
use titan_tools::{RepairTo, inspect, repair};

use super::{Model, blobs, checked, now, reopened};
use crate::support::{DIR, collecting, files, key, open, options, value};

const KEYS: usize = 120;
/// Several blocks, and not a whole number of them.
const LEN: usize = 20_000;

fn punching() -> ColumnFamilyOptions {
    ColumnFamilyOptions {
        blob_file_size: 1 << 20,
        blob_garbage_collection_punch_holes: true,
        ..collecting()
    }
}

/// Writes every `share`-th key, others in each round, and finds the resulting garbage.
fn write(db: &Db, model: &mut Model, round: usize, share: usize, len: usize) {
    for n in (round % share..KEYS).step_by(share) {
        let value = value(round * KEYS + n, len);
        db.put(&key(n), &value).unwrap();
        model.insert(key(n), value);
    }
    db.flush().unwrap();
    db.compact_range(None, None, &Default::default()).unwrap();
    db.wait_idle().unwrap();
}

/// A database in which every third value has died, and its content.
fn with_dead_values(options: &Options, len: usize) -> (Db, Model) {
    let db = open(options);
    let mut model = Model::new();
    write(&db, &mut model, 0, 1, len);
    write(&db, &mut model, 1, 3, len);
    (db, model)
}

/// The sum over all blob files.
fn total(vfs: &SimVfs, bytes: impl Fn(&Path) -> Result<u64>) -> u64 {
    let names = files(vfs, DIR, ".blob");
    let bytes = names.iter().map(|name| bytes(&Path::new(DIR).join(name)));
    bytes.map(Result::unwrap).sum()
}

fn holds(db: &Db, model: &Model) {
    assert!(now(db) == *model);
}

#[test]
fn garbage_goes_and_nothing_is_copied() {
    let vfs = SimVfs::new();
    let options = options(&vfs, punching());
    let (db, mut model) = with_dead_values(&options, LEN);
    let statistics = db.statistics();
    assert_eq!(statistics.gc_blob_bytes(), 0, "copied");
    let freed = statistics.gc_hole_bytes();
    let dead = (KEYS / 3 * LEN) as u64;
    assert!((dead * 7 / 10..=dead).contains(&freed), "{freed} of {dead}");
    let live = (KEYS * LEN) as u64;
    let allocated = total(&vfs, |path| vfs.allocated_bytes(path));
    assert!(allocated < live + live / 10, "{allocated}");
    // The report on space agrees with the files, and the remaining garbage is too little to
    // continue.
    let report = db.space_report().unwrap();
    let there = total(&vfs, |path| {
        Ok(vfs.size(path)?.min(vfs.allocated_bytes(path)?))
    });
    assert_eq!(report.disk.blob_bytes, there);
    for file in blobs(&db) {
        let parts = file.live_bytes + file.garbage_bytes + file.hole_bytes;
        assert_eq!(parts, file.total_bytes, "{file:?}");
    }
    let holes: u64 = blobs(&db).iter().map(|file| file.hole_bytes).sum();
    assert_eq!(holes, freed);
    holds(&db, &model);
    db.close().unwrap();
    checked(&options);

    // The holes are known again, and more records of the same files die.
    let db = open(&options);
    holds(&db, &model);
    assert_eq!(db.statistics().gc_hole_bytes(), 0);
    write(&db, &mut model, 2, 3, LEN);
    assert!(db.statistics().gc_hole_bytes() > 0);
    holds(&db, &model);
    // Hardly anything live is left in the first files: it is relocated, and the files are deleted.
    let first = files(&vfs, DIR, ".blob").remove(0);
    write(&db, &mut model, 3, 3, LEN);
    assert!(!files(&vfs, DIR, ".blob").contains(&first), "{first}");
    holds(&db, &model);
    reopened(db, &options, &model);
}

#[test]
fn what_anybody_reads_stays() {
    let vfs = SimVfs::new();
    let options = options(&vfs, punching());
    let db = open(&options);
    let mut model = Model::new();
    write(&db, &mut model, 0, 1, LEN);
    let old = model.clone();
    let lazy = db.get_lazy(&key(1)).unwrap().unwrap();
    let mut iter = db.iter(&ReadOptions::default()).unwrap();
    write(&db, &mut model, 1, 3, LEN);
    write(&db, &mut model, 2, 3, LEN);
    assert_eq!(lazy.fetch().unwrap(), old[&key(1)]);
    iter.seek_to_first().unwrap();
    for (key, value) in &old {
        assert_eq!(iter.key(), key);
        assert_eq!(iter.value().unwrap(), value);
        iter.next().unwrap();
    }
    holds(&db, &model);
    drop((iter, lazy));
    write(&db, &mut model, 1, 3, LEN);
    holds(&db, &model);
    reopened(db, &options, &model);
}

#[test]
fn files_with_another_name_have_no_holes() {
    let vfs = SimVfs::new();
    let options = options(&vfs, punching());
    let db = open(&options);
    let mut model = Model::new();
    write(&db, &mut model, 0, 1, LEN);
    db.checkpoint("/kept").unwrap();
    let old = model.clone();
    write(&db, &mut model, 1, 3, LEN);
    assert_eq!(db.statistics().gc_hole_bytes(), 0);
    assert!(db.statistics().gc_blob_bytes() > 0, "garbage stays");
    holds(&db, &model);
    let kept = Db::open("/kept", &options).unwrap();
    holds(&kept, &old);
    kept.close().unwrap();
    reopened(db, &options, &model);
}

#[test]
fn small_values_are_moved() {
    let vfs = SimVfs::new();
    let options = options(&vfs, punching());
    let (db, model) = with_dead_values(&options, 1500);
    assert_eq!(db.statistics().gc_hole_bytes(), 0);
    assert!(db.statistics().gc_blob_bytes() > 0);
    holds(&db, &model);
    reopened(db, &options, &model);
}

#[test]
fn a_file_system_without_holes_or_without_room_for_them_will_do() {
    for error in [Errno::NOT_SUPPORTED, Errno::NO_SPACE, Errno::IO] {
        goes_on_without_holes(error);
    }
}

fn goes_on_without_holes(error: Errno) {
    let vfs = SimVfs::new();
    let punched = vfs.inject(Fault::on([OpKind::PunchHole]).error(error));
    let options = options(&vfs, punching());
    let (db, mut model) = with_dead_values(&options, LEN);
    assert_eq!(punched.hits(), 1, "{error:?}");
    assert!(db.statistics().gc_blob_bytes() > 0, "garbage stays");
    write(&db, &mut model, 1, 3, LEN);
    assert_eq!(punched.hits(), 1, "tried again");
    holds(&db, &model);
    reopened(db, &options, &model);
}

#[test]
fn tools_take_holes_for_what_they_are() {
    let vfs = SimVfs::new();
    let options = options(&vfs, punching());
    let (db, model) = with_dead_values(&options, LEN);
    db.close().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut shown = BTreeMap::new();
    for name in files(&vfs, DIR, ".blob") {
        let path = dir.path().join(&name);
        std::fs::write(&path, vfs.read_all(format!("{DIR}/{name}")).unwrap()).unwrap();
        let summary = inspect(&path, &mut |item| {
            *shown.entry(item.kind).or_insert(0) += 1;
            true
        });
        summary.unwrap();
    }
    assert!(shown["hole"] > 20, "{shown:?}");
    assert!(shown["record"] >= KEYS, "{shown:?}");
    assert!(!shown.contains_key("damage"), "{shown:?}");

    // All files that say where records are have been lost.
    for name in files(&vfs, DIR, "") {
        if name == "CURRENT" || name.starts_with("MANIFEST") {
            vfs.remove(format!("{DIR}/{name}").as_ref()).unwrap();
        }
    }
    let to = "/repaired";
    let repaired = repair(
        DIR.as_ref(),
        &RepairTo::Directory(to.into()),
        &options,
        &mut |_| {},
    );
    let repaired = repaired.unwrap();
    assert!(repaired.salvaged.is_empty(), "{:?}", repaired.salvaged);
    let lost = repaired.lost.iter().map(|loss| &*loss.file);
    assert_eq!(lost.collect::<Vec<_>>(), ["MANIFEST"]);
    holds(&Db::open(to, &options).unwrap(), &model);
}
