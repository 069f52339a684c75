//! Garbage is not collected while the user has paused collection.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use titan::{ColumnFamilyOptions, Db, Options, StallEvent};
use titan_testkit::sim::{OpKind, SimVfs};

use super::{KEYS, checked, contents, write};
use crate::concurrency::Gate;
use crate::support::{collecting, eventually, key, manual, open, options, value};

fn with_garbage(db: &Db) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut model = BTreeMap::new();
    for (round, share) in [(0, 1), (1, 2), (2, 2)] {
        write(db, &mut model, round, share);
    }
    model
}

#[test]
fn nothing_is_collected_by_itself_until_all_who_paused_go_on() {
    let vfs = SimVfs::new();
    let options = options(&vfs, collecting());
    let db = open(&options);
    let first = db.pause_garbage_collection().unwrap();
    let second = db.clone().pause_garbage_collection().unwrap();
    let mut model = with_garbage(&db);
    assert_eq!(db.statistics().garbage_collections(), 0);
    assert_eq!(db.metrics().garbage_collection_pauses, 2);
    // A collection that is requested runs nevertheless.
    let by_hand = db.collect_garbage(None, None, &Default::default()).unwrap();
    assert!(!by_hand.files.is_empty());
    let collections = db.statistics().garbage_collections();
    write(&db, &mut model, 3, 2);
    drop(first);
    db.wait_idle().unwrap();
    assert_eq!(db.statistics().garbage_collections(), collections);
    drop(second);
    db.wait_idle().unwrap();
    assert!(db.statistics().garbage_collections() > collections);
    assert_eq!(contents(&db, &Default::default()), model);

    // The pause outlives the database without keeping it open.
    let pause = db.pause_garbage_collection().unwrap();
    db.close().unwrap();
    db.pause_garbage_collection().unwrap_err();
    drop(db);
    checked(&options);
    let db = open(&options);
    drop(pause);
    assert_eq!(contents(&db, &Default::default()), model);
}

#[test]
fn one_that_runs_is_ended() {
    let vfs = SimVfs::new();
    let family = ColumnFamilyOptions {
        blob_file_size: 8 << 20,
        ..collecting()
    };
    let options = options(&vfs, family);
    let db = open(&options);
    let pause = db.pause_garbage_collection().unwrap();
    // More than one step: the live records take more than one check of the rate.
    let put = |round: usize, keys: std::ops::Range<usize>| {
        for n in keys {
            let value = value(round * KEYS + n, 32 << 10);
            db.put(&key(n), &value).unwrap();
        }
        db.flush().unwrap();
        db.compact_range(None, None, &Default::default()).unwrap();
    };
    put(0, 0..KEYS);
    put(1, 0..KEYS / 3);
    let gate = Gate::shut_at(&vfs, |call| {
        call.kind == OpKind::Append && call.path.extension().is_some_and(|e| e == "blob")
    });
    drop(pause);
    eventually("the collection", || gate.waiting.load(Ordering::SeqCst) > 0);
    std::thread::scope(|scope| {
        let pause = scope.spawn(|| db.pause_garbage_collection().unwrap());
        eventually("the pause", || db.metrics().garbage_collection_pauses > 0);
        gate.open();
        let pause = pause.join().unwrap();
        assert_eq!(
            db.statistics().garbage_collections(),
            0,
            "it ran to its end"
        );
        let written = vfs.bytes_written(".blob");
        db.wait_idle().unwrap();
        assert_eq!(vfs.bytes_written(".blob"), written);
        drop(pause);
    });
    vfs.clear_hook();
    db.wait_idle().unwrap();
    assert!(db.statistics().garbage_collections() > 0);
    for n in 0..KEYS {
        let round = usize::from(n < KEYS / 3);
        let found = db.get(&key(n)).unwrap().unwrap();
        assert_eq!(found, value(round * KEYS + n, 32 << 10));
    }
    db.close().unwrap();
    checked(&options);
}

#[test]
fn writes_are_not_held_back_for_space_that_nobody_frees() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options {
        default: ColumnFamilyOptions {
            enable_blob_garbage_collection: true,
            ..manual()
        },
        ..Options::default()
    };
    let db = Db::open(dir.path(), &options).unwrap();
    let pause = db.pause_garbage_collection().unwrap();
    // Most of each file is garbage, in total more than half of the allowed excess.
    let large = value(0, 8 << 20);
    for value in [&large[..], b"small"] {
        for n in (0..30).filter(|n| value == large || n % 7 > 0) {
            db.put(&key(n), value).unwrap();
        }
        db.flush().unwrap();
        db.compact_range(None, None, &Default::default()).unwrap();
    }
    assert!(db.metrics().families[0].garbage_blob_bytes > 150 << 20);
    assert_eq!(db.metrics().families[0].stall, StallEvent::Normal);
    drop(pause);
    db.wait_idle().unwrap();
    assert_eq!(db.metrics().families[0].garbage_blob_bytes, 0);
    db.close().unwrap();
}
