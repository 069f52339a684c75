//! A model: values from readers among all other writes, snapshots, jobs and openings.

use std::collections::BTreeMap;

use titan::{CollectGarbageOptions, Db, Options, ReadOptions, Snapshot};
use titan_testkit::sim::SimVfs;
use titan_tools::check;

use super::{LONG, Source, collecting, manually, read};
use crate::support::{DIR, key, scaled, value};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Asserts that a database has exactly these entries, as of now or of a snapshot.
fn agree(db: &Db, snapshot: Option<&Snapshot>, model: &Model, what: &str) {
    let options = ReadOptions {
        snapshot: snapshot.cloned(),
        ..ReadOptions::default()
    };
    let mut iter = db.iter(&options).unwrap();
    iter.seek_to_first().unwrap();
    for (key, value) in model {
        assert_eq!(iter.key(), key, "{what}");
        assert!(iter.value().unwrap() == value, "{what}: {key:?}");
        let found = db.get_lazy_with(key, &options).unwrap().unwrap();
        assert!(read(&found) == *value, "{what}: {key:?}");
        iter.next().unwrap();
    }
    assert!(!iter.valid(), "{what}");
}

struct World {
    rng: fastrand::Rng,
    options: Options,
    db: Db,
    model: Model,
    snapshots: Vec<(Snapshot, Model)>,
}

impl World {
    fn step(&mut self, n: usize) {
        let (db, rng) = (&self.db, &mut self.rng);
        let key_of = |rng: &mut fastrand::Rng| key(rng.usize(..6));
        match rng.u8(..20) {
            0..=4 => {
                let (key, len) = (key_of(rng), LONG + rng.usize(..3) * rng.usize(..LONG));
                db.put_reader(&key, Source::new(n, len)).unwrap();
                self.model.insert(key, value(n, len));
            }
            5..=8 => {
                let (key, len) = (key_of(rng), rng.usize(..300));
                match rng.bool() {
                    true => db.put(&key, value(n, len)).unwrap(),
                    false => drop(db.put_reader(&key, Source::new(n, len)).unwrap()),
                }
                self.model.insert(key, value(n, len));
            }
            9 | 10 => {
                let key = key_of(rng);
                db.delete(&key).unwrap();
                self.model.remove(&key);
            }
            11 => {
                let (begin, end) = (key(rng.usize(..4)), key(rng.usize(4..6)));
                db.delete_range(&begin, &end).unwrap();
                self.model.retain(|key, _| *key < begin || *key >= end);
            }
            12 => {
                self.snapshots.truncate(2);
                let snapshot = (db.snapshot(), self.model.clone());
                self.snapshots.insert(0, snapshot);
            }
            13 => drop(self.snapshots.pop()),
            14 => db.flush().unwrap(),
            15 => db.compact_range(None, None, &Default::default()).unwrap(),
            16 => {
                let options = CollectGarbageOptions::default();
                let summary = db.collect_garbage(None, None, &options).unwrap();
                assert!(summary.damaged.is_empty(), "{summary:?}");
            }
            17 => {
                self.snapshots.clear();
                self.db.close().unwrap();
                let report = check(DIR.as_ref(), &self.options, &mut |_| {}).unwrap();
                assert!(report.problems.is_empty(), "{report:?}");
                self.db = Db::open(DIR, &self.options).unwrap();
            }
            _ => db.wait_idle().unwrap(),
        }
    }
}

#[test]
fn values_of_readers_are_writes_like_others() {
    for seed in 0..scaled(12) {
        let vfs = SimVfs::new();
        let options = collecting(&vfs);
        let mut world = World {
            rng: fastrand::Rng::with_seed(seed),
            db: Db::open(DIR, &options).unwrap(),
            options,
            model: Model::new(),
            snapshots: Vec::new(),
        };
        for n in 0..40 {
            world.step(n);
            agree(
                &world.db,
                None,
                &world.model,
                &format!("seed {seed}, step {n}"),
            );
            for (snapshot, model) in &world.snapshots {
                let what = format!("seed {seed}, step {n}, a snapshot");
                agree(&world.db, Some(snapshot), model, &what);
            }
        }
    }
}

/// Records that exceed a window are copied piece by piece.
#[test]
fn a_collection_copies_long_values_unchanged() {
    let vfs = SimVfs::new();
    let options = manually(&vfs);
    let db = Db::open(DIR, &options).unwrap();
    for n in 0..6 {
        db.put(key(n), value(n, 2 * LONG + n * 1000)).unwrap();
    }
    db.flush().unwrap();
    db.put_reader(key(6), Source::new(6, 3 * LONG)).unwrap();
    for n in [1, 3, 4] {
        db.delete(key(n)).unwrap();
    }
    let collecting = CollectGarbageOptions::default();
    let summary = db.collect_garbage(None, None, &collecting).unwrap();
    assert!(
        summary.damaged.is_empty() && !summary.files.is_empty(),
        "{summary:?}"
    );
    assert_eq!(db.metrics().families[0].garbage_blob_bytes, 0);
    let lengths = [
        (0, 2 * LONG),
        (2, 2 * LONG + 2000),
        (5, 2 * LONG + 5000),
        (6, 3 * LONG),
    ];
    let model: Model = lengths.map(|(n, len)| (key(n), value(n, len))).into();
    agree(&db, None, &model, "collected");
    db.close().unwrap();
    let db = Db::open(DIR, &options).unwrap();
    agree(&db, None, &model, "opened again");
}

#[test]
fn a_collection_finds_a_long_value_that_is_damaged() {
    let vfs = SimVfs::new();
    let options = manually(&vfs);
    let db = Db::open(DIR, &options).unwrap();
    for n in 0..2 {
        db.put(key(n), value(n, 3 * LONG)).unwrap();
    }
    db.flush().unwrap();
    db.delete(key(0)).unwrap();
    let file = crate::support::files(&vfs, DIR, ".blob").remove(0);
    vfs.flip_bit(format!("{DIR}/{file}"), 5 * LONG as u64)
        .unwrap();
    let collecting = CollectGarbageOptions::default();
    let summary = db.collect_garbage(None, None, &collecting).unwrap();
    let [damaged] = &*summary.damaged else {
        panic!("{summary:?}");
    };
    assert!(damaged.error.is_corruption());
    assert!(
        damaged.error.to_string().contains(&file),
        "{}",
        damaged.error
    );
    let error = db.get(key(1)).unwrap_err();
    assert!(error.is_corruption());
}
