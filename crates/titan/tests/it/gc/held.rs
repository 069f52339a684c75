//! Records that only an older version sees when they are collected: they are copied once, and are
//! garbage after that version is gone.

use std::sync::{Arc, Mutex};

use titan::{Db, EventListener, GarbageCollectionEvent, ReadOptions};
use titan_testkit::sim::SimVfs;

use super::{KEYS, LEN, Model, blobs, contents, now, reopened, write};
use crate::support::{collecting, eventually, key, open, options, value};

fn garbage(db: &Db) -> u64 {
    blobs(db).iter().map(|f| f.garbage_bytes).sum()
}

/// Bytes that an older version pins do not count as garbage while it exists. After its end they do,
/// and they are collected without any write or request.
#[test]
fn what_a_reader_held_is_collected_once_it_has_gone() {
    for lazily in [false, true] {
        let vfs = SimVfs::new();
        let options = options(&vfs, collecting());
        let db = open(&options);
        let mut model = Model::new();
        write(&db, &mut model, 0, 1);
        let old = model.clone();
        let lazy = db.get_lazy(&key(3));
        let mut lazy = lazy.unwrap();
        let mut iter = Some(db.iter(&ReadOptions::default()).unwrap());
        match lazily {
            true => iter = None,
            false => lazy = None,
        }
        for round in 1..4 {
            write(&db, &mut model, round, 2);
        }
        let collections = db.statistics().garbage_collections();
        assert!(collections > 0, "nothing was collected");
        let live = (model.len() * LEN) as u64;
        let held = garbage(&db);
        assert!(held > live / 2, "{held} of {live}");
        db.wait_idle().unwrap();
        let idle = db.statistics().garbage_collections();
        assert_eq!(idle, collections, "what is held is not copied again");
        if let Some(iter) = &mut iter {
            iter.seek_to_first().unwrap();
            for (key, value) in &old {
                assert_eq!(iter.key(), key);
                assert_eq!(iter.value().unwrap(), value);
                iter.next().unwrap();
            }
        }
        if let Some(lazy) = &lazy {
            assert_eq!(lazy.fetch().unwrap(), old[&key(3)]);
        }
        drop((iter, lazy));
        eventually("a collection", || {
            db.statistics().garbage_collections() > collections
        });
        db.wait_idle().unwrap();
        let left = garbage(&db);
        assert!(left < live / 2 && left < held / 2, "{left} of {held}");
        assert_eq!(now(&db), model);
        reopened(db, &options, &model);
    }
}

/// Of two versions that pin something the older one is released first, and then the other.
#[test]
fn each_version_holds_its_own() {
    let vfs = SimVfs::new();
    let options = options(&vfs, collecting());
    let db = open(&options);
    let mut model = Model::new();
    write(&db, &mut model, 0, 1);
    let first = db.iter(&ReadOptions::default()).unwrap();
    for round in 1..4 {
        write(&db, &mut model, round, 2);
    }
    let between = model.clone();
    let mut second = db.iter(&ReadOptions::default()).unwrap();
    for round in 4..7 {
        write(&db, &mut model, round, 2);
    }
    let all = garbage(&db);
    drop(first);
    db.wait_idle().unwrap();
    let half = garbage(&db);
    assert!(half < all, "{half} of {all}");
    second.seek_to_first().unwrap();
    for (key, value) in &between {
        assert_eq!(second.key(), key);
        assert_eq!(second.value().unwrap(), value);
        second.next().unwrap();
    }
    drop(second);
    db.wait_idle().unwrap();
    let none = garbage(&db);
    assert!(none < half, "{none} of {half}");
    assert_eq!(contents(&db, &ReadOptions::default()), model);
    reopened(db, &options, &model);
}

/// Collects the events of collections.
#[derive(Default)]
struct Heard(Mutex<Vec<GarbageCollectionEvent>>);

impl EventListener for Heard {
    fn garbage_collected(&self, event: &GarbageCollectionEvent) {
        self.0.lock().unwrap().push(event.clone());
    }
}

/// A reader pins all of some files, in which more and more records die. Records that were copied
/// for it are not copied again, however much of them is garbage by then.
#[test]
fn what_dies_while_a_reader_sees_it_is_copied_once() {
    let vfs = SimVfs::new();
    let heard = Arc::new(Heard::default());
    let mut options = options(&vfs, collecting());
    options.db.listeners.push(heard.clone());
    options.default.blob_garbage_collection_low_threshold = 0.02;
    options.default.blob_garbage_collection_high_threshold = 0.02;
    let db = open(&options);
    let mut model = Model::new();
    write(&db, &mut model, 0, 1);
    let iter = db.iter(&ReadOptions::default()).unwrap();
    for round in 0..4 {
        // Each key once: no other files have garbage.
        for n in (round..KEYS).step_by(5) {
            let value = value(KEYS + n, LEN);
            db.put(&key(n), &value).unwrap();
            model.insert(key(n), value);
        }
        db.flush().unwrap();
        db.compact_range(None, None, &Default::default()).unwrap();
        db.wait_idle().unwrap();
    }
    let collections = heard.0.lock().unwrap().clone();
    let outputs: Vec<_> = collections.iter().map(|c| c.output).collect();
    assert!(!outputs.is_empty(), "nothing was collected");
    let mut inputs = collections.iter().flat_map(|c| &c.inputs);
    let again = inputs.find(|input| outputs.contains(input));
    assert_eq!(again, None, "{collections:#?}");
    let held = garbage(&db);
    drop(iter);
    db.wait_idle().unwrap();
    let left = garbage(&db);
    assert!(left < held / 2, "{left} of {held}");
    reopened(db, &options, &model);
}
