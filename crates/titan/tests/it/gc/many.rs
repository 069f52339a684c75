//! The resources that a collection of many small files takes from its process.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use titan::{ColumnFamilyOptions, DbOptions, EventListener, GarbageCollectionEvent, Options};
use titan_testkit::sim::SimVfs;

use super::{LEN, now, reopened};
use crate::support::{collecting, key, open, options, value};

const FILES: usize = 400;
const KEYS_PER_FILE: usize = 4;
/// Files that the process may have open.
const LIMIT: usize = 60;

#[derive(Default)]
struct Collections(Mutex<Vec<GarbageCollectionEvent>>);

impl EventListener for Collections {
    fn garbage_collected(&self, event: &GarbageCollectionEvent) {
        self.0.lock().push(event.clone());
    }
}

#[test]
fn many_small_files_are_collected_with_few_open() {
    let vfs = SimVfs::new();
    let told = Arc::new(Collections::default());
    let Options { db, default, .. } = options(&vfs, collecting());
    let options = Options {
        db: DbOptions {
            max_open_files: 20,
            listeners: vec![Arc::clone(&told) as Arc<_>],
            ..db
        },
        // So that the live records of all of them would be one collection.
        default: ColumnFamilyOptions {
            blob_file_size: 256 << 20,
            max_space_amp: 1.1,
            ..default
        },
        ..Options::default()
    };
    let db = open(&options);
    let mut model = BTreeMap::new();
    let mut put = |n: usize, round: usize| {
        let value = value(round * FILES * KEYS_PER_FILE + n, LEN);
        db.put(&key(n), &value).unwrap();
        model.insert(key(n), value);
    };
    for file in 0..FILES {
        (0..KEYS_PER_FILE).for_each(|n| put(file * KEYS_PER_FILE + n, 0));
        db.flush().unwrap();
    }
    // Half of each file dies, and all of it is found at once.
    let pause = db.pause_garbage_collection().unwrap();
    (0..FILES * KEYS_PER_FILE)
        .step_by(2)
        .for_each(|n| put(n, 1));
    db.flush().unwrap();
    db.compact_range(None, None, &Default::default()).unwrap();
    vfs.set_max_open_files(Some(LIMIT));
    drop(pause);
    db.wait_idle().unwrap();
    db.put(b"writes go on", b"").unwrap();
    db.delete(b"writes go on").unwrap();
    assert_eq!(now(&db), model);

    let told = std::mem::take(&mut *told.0.lock());
    let inputs: usize = told.iter().map(|event| event.inputs.len()).sum();
    assert!(inputs >= FILES / 2, "{inputs} files were collected");
    let most = told.iter().map(|event| event.inputs.len()).max();
    assert!(most <= Some(128), "{most:?} files were collected at once");
    vfs.set_max_open_files(None);
    reopened(db, &options, &model);
}

#[test]
fn values_longer_than_what_is_read_at_once_are_moved() {
    let vfs = SimVfs::new();
    let family = ColumnFamilyOptions {
        blob_file_size: 64 << 20,
        ..collecting()
    };
    let options = options(&vfs, family);
    let db = open(&options);
    let mut model = BTreeMap::new();
    for round in 0..4 {
        for n in (0..8).filter(|n| round == 0 || n % 4 == round) {
            // Some exceed the window, some share one.
            let value = value(100 * round + n, if n % 2 == 0 { 1_500_000 } else { 1000 });
            db.put(&key(n), &value).unwrap();
            model.insert(key(n), value);
        }
        db.flush().unwrap();
    }
    db.compact_range(None, None, &Default::default()).unwrap();
    db.wait_idle().unwrap();
    assert!(db.statistics().garbage_collections() > 0);
    assert_eq!(now(&db), model);
    reopened(db, &options, &model);
}
