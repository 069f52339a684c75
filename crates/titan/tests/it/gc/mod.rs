//! Garbage collection: live records are relocated, readers of every version find them, and they
//! survive a reopening.

mod causes;
mod estimate;
mod held;
mod manual;
mod many;
mod pause;
mod punch;
mod space;

use std::collections::BTreeMap;

use titan::{BlobFileSpace, Db, Options, ReadOptions};
use titan_testkit::sim::SimVfs;
use titan_tools::check;

use crate::support::{DIR, collecting, files, key, open, options, value};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

const KEYS: usize = 200;
const LEN: usize = 1000;

/// Writes one of `share` keys, others in each round, and compacts the data into lower levels.
fn write(db: &Db, model: &mut Model, round: usize, share: usize) {
    let mut rng = fastrand::Rng::with_seed(round as u64);
    for n in 0..KEYS {
        if rng.usize(..share) > 0 {
            continue;
        }
        let value = value(round * KEYS + n, LEN);
        db.put(&key(n), &value).unwrap();
        model.insert(key(n), value);
    }
    db.flush().unwrap();
    db.compact_range(None, None, &Default::default()).unwrap();
    db.wait_idle().unwrap();
}

fn contents(db: &Db, options: &ReadOptions) -> Model {
    let mut found = BTreeMap::new();
    let mut iter = db.iter(options).unwrap();
    iter.seek_to_first().unwrap();
    while iter.valid() {
        found.insert(iter.key().to_vec(), iter.value().unwrap().to_vec());
        iter.next().unwrap();
    }
    for (key, value) in &found {
        let got = db.get_with(key, options).unwrap();
        assert_eq!(got.as_deref(), Some(&value[..]));
    }
    found
}

fn now(db: &Db) -> Model {
    contents(db, &ReadOptions::default())
}

fn blobs(db: &Db) -> Vec<BlobFileSpace> {
    let report = db.space_report().unwrap();
    let files = report.families.into_iter().flat_map(|f| f.blob_files);
    files.collect()
}

/// Closes the database, reopens it twice, and compares its content.
fn reopened(db: Db, options: &Options, model: &Model) {
    db.close().unwrap();
    drop(db);
    for _ in 0..2 {
        checked(options);
        let db = open(options);
        assert_eq!(&now(&db), model);
        db.close().unwrap();
    }
}

fn checked(options: &Options) {
    let report = check(DIR.as_ref(), options, &mut |_| {}).unwrap();
    assert!(report.problems.is_empty(), "{:#?}", report.problems);
    assert!(report.notes.is_empty(), "{:#?}", report.notes);
}

fn blob_bytes(vfs: &SimVfs) -> usize {
    let names = files(vfs, DIR, ".blob");
    let size = |name: &String| vfs.read_all(format!("{DIR}/{name}")).unwrap().len();
    names.iter().map(size).sum()
}

#[test]
fn what_lives_is_moved_and_found_by_everybody() {
    let vfs = SimVfs::new();
    let options = options(&vfs, collecting());
    let db = open(&options);
    let mut model = BTreeMap::new();
    write(&db, &mut model, 0, 1);
    for round in 1..4 {
        write(&db, &mut model, round, 2);
    }
    let old = model.clone();
    let snapshot = db.snapshot();
    let before = db.get_lazy(&key(1));
    let before = before.unwrap().unwrap();
    let mut iter = db.iter(&ReadOptions::default()).unwrap();
    iter.seek_to_first().unwrap();
    for round in 4..6 {
        write(&db, &mut model, round, 3);
    }
    // No snapshot keeps the entries that this iterator sees: only the version that it pins refers
    // to them.
    let between = model.clone();
    let mut unkept = db.iter(&ReadOptions::default()).unwrap();
    for round in 6..9 {
        write(&db, &mut model, round, 3);
    }
    let collections = db.statistics().garbage_collections();
    assert!(collections > 0, "nothing was collected");
    assert!(!files(&vfs, DIR, ".blobmap").is_empty());
    assert_eq!(contents(&db, &ReadOptions::default()), model);
    // Readers that existed before still read the same.
    let at = ReadOptions {
        snapshot: Some(snapshot),
        ..ReadOptions::default()
    };
    assert_eq!(contents(&db, &at), old);
    assert_eq!(before.fetch().unwrap(), old[&key(1)]);
    for (key, value) in &old {
        assert_eq!(iter.key(), key);
        assert_eq!(iter.value().unwrap(), value);
        iter.next().unwrap();
    }
    unkept.seek_to_first().unwrap();
    for (key, value) in &between {
        assert_eq!(unkept.key(), key);
        assert_eq!(unkept.value().unwrap(), value);
        unkept.next().unwrap();
    }
    drop((iter, unkept, before, at));
    write(&db, &mut model, 9, 3);
    db.close().unwrap();
    checked(&options);

    // Opening starts a MANIFEST, from which the next opening must know everything.
    open(&options).close().unwrap();
    checked(&options);
    let db = open(&options);
    assert_eq!(contents(&db, &ReadOptions::default()), model);
    for round in 10..13 {
        write(&db, &mut model, round, 2);
        assert_eq!(contents(&db, &ReadOptions::default()), model);
    }
    db.close().unwrap();
    checked(&options);
    let live = model.len() * (LEN + 32 + 9);
    assert!(
        blob_bytes(&vfs) < live * 3 / 2,
        "{} of {live}",
        blob_bytes(&vfs)
    );
    assert_eq!(contents(&open(&options), &ReadOptions::default()), model);
}

#[test]
fn files_without_anything_alive_are_deleted_without_a_collection() {
    let vfs = SimVfs::new();
    let options = options(&vfs, collecting());
    let db = open(&options);
    let mut model = BTreeMap::new();
    for round in 0..5 {
        write(&db, &mut model, round, 1);
    }
    assert_eq!(db.statistics().garbage_collections(), 0);
    assert!(files(&vfs, DIR, ".blobmap").is_empty());
    let live = model.len() * (LEN + 32 + 9);
    assert!(blob_bytes(&vfs) < live + live / 10);
    db.close().unwrap();
    checked(&options);
}
