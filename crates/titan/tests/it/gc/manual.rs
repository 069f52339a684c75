//! Collections that a user requests: the space that they free, and other operations meanwhile.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use titan::{
    BlobFileSpace, CollectGarbageOptions, ColumnFamily, ColumnFamilyOptions, Db, ErrorKind,
    GarbageCollectionProgress, ReadOptions,
};
use titan_testkit::sim::{Call, Fault, OpKind, SimVfs};

use super::{KEYS, Model, blobs, contents, now, reopened};
use crate::concurrency::Gate;
use crate::support::{
    DIR, collecting, eventually, files, key, manual, open, options, scaled, value,
};

const LEN: usize = 4000;

/// Does not collect automatically; a table and a blob file have some sixteen keys.
fn off() -> ColumnFamilyOptions {
    ColumnFamilyOptions {
        blob_file_size: 64 << 10,
        target_file_size_base: 16 << 10,
        ..manual()
    }
}

fn put(db: &ColumnFamily, model: &mut Model, round: usize, keys: impl Iterator<Item = usize>) {
    for n in keys {
        let value = value(round * KEYS + n, LEN);
        db.put(&key(n), &value).unwrap();
        model.insert(key(n), value);
    }
    db.flush().unwrap();
}

/// All keys, and then each third of them anew: a third of all blob files is shadowed data.
fn with_garbage(db: &ColumnFamily) -> Model {
    let mut model = Model::new();
    put(db, &mut model, 0, 0..KEYS);
    put(db, &mut model, 1, (0..KEYS).step_by(3));
    model
}

fn everything() -> CollectGarbageOptions {
    CollectGarbageOptions::default()
}

fn garbage(db: &Db) -> u64 {
    blobs(db).iter().map(|f| f.garbage_bytes).sum()
}

fn on_disk(vfs: &SimVfs) -> BTreeSet<String> {
    files(vfs, DIR, ".blob").into_iter().collect()
}

fn is_of_blob(call: &Call<'_>) -> bool {
    call.kind == OpKind::Append && call.path.extension().is_some_and(|e| e == "blob")
}

#[test]
fn everything_is_collected_where_nothing_is_collected_by_itself() {
    let vfs = SimVfs::new();
    let options = options(&vfs, off());
    let db = open(&options);
    let model = with_garbage(&db);
    let told = Arc::new(Mutex::new(Vec::<GarbageCollectionProgress>::new()));
    let listens = Arc::clone(&told);
    let options_with_progress = CollectGarbageOptions {
        progress: Some(Arc::new(move |p| listens.lock().unwrap().push(p))),
        ..everything()
    };
    let before = on_disk(&vfs);
    let summary = db.collect_garbage(None, None, &options_with_progress);
    let summary = summary.unwrap();
    assert_eq!(garbage(&db), 0);
    assert_eq!(now(&db), model);

    // The summary is right.
    let gone: BTreeSet<String> = before.difference(&on_disk(&vfs)).cloned().collect();
    let named = summary
        .files
        .iter()
        .map(|file| format!("{:06}.blob", file.0));
    assert_eq!(named.collect::<BTreeSet<_>>(), gone);
    assert!(!gone.is_empty() && summary.damaged.is_empty());
    let written = db.statistics().gc_blob_bytes();
    assert_eq!(summary.bytes_written, written);
    assert_eq!(summary.bytes_read, db.statistics().gc_read_bytes());
    let shadowed = (KEYS.div_ceil(3) * LEN) as u64;
    assert!(summary.bytes_freed() > shadowed / 10 * 9, "{summary:?}");
    assert!(summary.input_bytes > summary.bytes_freed());
    for file in blobs(&db) {
        assert!(file.total_bytes <= off().blob_file_size + 2 * LEN as u64);
    }
    let told = told.lock().unwrap().clone();
    assert!(told.len() > 2 && told.is_sorted_by_key(|p| p.done_bytes));
    let total = told[0].total_bytes;
    assert!(total > 0 && told.iter().all(|p| p.total_bytes == total));
    assert_eq!(told.last().unwrap().done_bytes, total);

    // There is nothing left to do.
    let again = db.collect_garbage(None, None, &everything()).unwrap();
    assert!(again.files.is_empty() && again.bytes_read == 0, "{again:?}");
    reopened(db, &options, &model);
}

#[test]
fn only_files_of_the_range_are_given_up() {
    let vfs = SimVfs::new();
    let options = options(&vfs, off());
    let db = open(&options);
    let mut model = with_garbage(&db);
    db.compact_range(None, None, &Default::default()).unwrap();
    let compacted = CollectGarbageOptions {
        compact: false,
        ..everything()
    };
    let all = blobs(&db);
    let (from, to) = (key(100), key(119));
    let summary = db.collect_garbage(Some(&from), Some(&to), &compacted);
    let summary = summary.unwrap();
    // Files have about 16 keys of the first round, or up to 48 that were written again; tables have
    // some more, and two of them may extend beyond the range.
    assert!(!summary.files.is_empty());
    assert!(
        summary.files.len() <= 8,
        "{} of {}",
        summary.files.len(),
        all.len()
    );
    let left: BTreeSet<_> = blobs(&db).iter().map(|f| f.number).collect();
    for file in &all {
        assert_ne!(
            summary.files.contains(&file.number),
            left.contains(&file.number)
        );
    }
    // The first keys are in the first file, which is far from the range.
    assert!(left.contains(&all[0].number) && all[0].garbage_bytes > 0);
    assert!(garbage(&db) > 0);
    let again = db.collect_garbage(Some(&from), Some(&to), &compacted);
    assert!(again.unwrap().files.is_empty());

    // Values that the range no longer needs count, though no table in the range points to them now.
    let before = garbage(&db);
    db.delete_range(&key(0), &key(8)).unwrap();
    model.retain(|k, _| *k >= key(8));
    let (from, to) = (key(0), key(7));
    let summary = db.collect_garbage(Some(&from), Some(&to), &everything());
    assert!(summary.unwrap().files.contains(&all[0].number));
    assert!(garbage(&db) < before);
    assert_eq!(now(&db), model);
    reopened(db, &options, &model);
}

#[test]
fn what_is_shadowed_is_found_by_compacting_alone() {
    let vfs = SimVfs::new();
    let options = options(&vfs, off());
    let db = open(&options);
    let model = with_garbage(&db);
    let compacted = CollectGarbageOptions {
        compact: false,
        ..everything()
    };
    let nothing = db.collect_garbage(None, None, &compacted).unwrap();
    assert!(nothing.files.is_empty());
    assert_eq!(db.statistics().compactions(), 0);

    // A snapshot keeps the values, at the end in the last level; after it, another compaction drops
    // them.
    let snapshot = db.snapshot();
    let mut newer = model.clone();
    // Every other one of the newest values: no file becomes obsolete as a whole.
    put(&db, &mut newer, 2, (0..KEYS).step_by(6));
    db.collect_garbage(None, None, &everything()).unwrap();
    assert_eq!(garbage(&db), 0);
    let at = ReadOptions {
        snapshot: Some(snapshot),
        ..ReadOptions::default()
    };
    assert_eq!(contents(&db, &at), model);
    let kept = blobs(&db).iter().map(|f| f.live_bytes).sum::<u64>();
    drop(at);
    let summary = db.collect_garbage(None, None, &everything()).unwrap();
    assert!(!summary.files.is_empty());
    let left = blobs(&db).iter().map(|f| f.total_bytes).sum::<u64>();
    assert!(left < kept / 10 * 9, "{left} of {kept}");
    reopened(db, &options, &newer);
}

#[test]
fn files_with_less_garbage_than_the_threshold_stay() {
    let vfs = SimVfs::new();
    let options = options(&vfs, off());
    let db = open(&options);
    let mut model = Model::new();
    put(&db, &mut model, 0, 0..KEYS);
    put(&db, &mut model, 1, (0..KEYS / 2).step_by(2));
    put(&db, &mut model, 2, (KEYS / 2..KEYS).step_by(5));
    db.compact_range(None, None, &Default::default()).unwrap();
    let with = |threshold| CollectGarbageOptions {
        threshold,
        ..everything()
    };
    for wrong in [-0.1, 1.1, f64::NAN] {
        let e = db.collect_garbage(None, None, &with(wrong)).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::InvalidOption);
    }
    let e = db.collect_garbage(Some(b"b"), Some(b"a"), &everything());
    assert_eq!(e.unwrap_err().kind(), ErrorKind::InvalidArgument);
    let share = |f: &BlobFileSpace| f.garbage_bytes as f64 / f.total_bytes as f64;
    let all = blobs(&db);
    let worth = all.iter().filter(|f| share(f) > 0.35);
    let worth: BTreeSet<_> = worth.map(|f| f.number).collect();
    let summary = db.collect_garbage(None, None, &with(0.35)).unwrap();
    let given_up: BTreeSet<_> = summary.files.iter().copied().collect();
    assert_eq!(given_up, worth);
    assert!(!worth.is_empty() && worth.len() < all.len());
    assert!(garbage(&db) > 0);
    reopened(db, &options, &model);
}

#[test]
fn an_iterator_reads_on_and_what_it_held_goes_after_it() {
    let vfs = SimVfs::new();
    let options = options(&vfs, off());
    let db = open(&options);
    let mut model = Model::new();
    put(&db, &mut model, 0, 0..KEYS);
    let old = model.clone();
    let mut iter = db.iter(&ReadOptions::default()).unwrap();
    iter.seek_to_first().unwrap();
    let lazy = db.get_lazy(&key(3));
    let lazy = lazy.unwrap().unwrap();
    put(&db, &mut model, 1, (0..KEYS).step_by(3));
    put(&db, &mut model, 2, (0..KEYS).step_by(4));
    let summary = db.collect_garbage(None, None, &everything()).unwrap();
    assert!(!summary.files.is_empty(), "what nobody sees");
    let held = garbage(&db);
    assert!(held >= (KEYS / 2 * LEN) as u64);
    // All of these are still read: copying them again would free nothing.
    let again = db.collect_garbage(None, None, &everything()).unwrap();
    assert!(again.files.is_empty(), "{again:?}");
    for (key, value) in &old {
        assert_eq!(iter.key(), key);
        assert_eq!(iter.value().unwrap(), value);
        iter.next().unwrap();
    }
    assert_eq!(lazy.fetch().unwrap(), old[&key(3)]);
    assert_eq!(now(&db), model);
    drop((iter, lazy));
    let last = db.collect_garbage(None, None, &everything()).unwrap();
    assert!(last.bytes_freed() > held / 10 * 9, "{last:?}");
    assert_eq!(garbage(&db), 0);
    reopened(db, &options, &model);
}

#[test]
fn a_damaged_file_stays_and_the_others_go() {
    let vfs = SimVfs::new();
    let options = options(&vfs, off());
    let db = open(&options);
    let model = with_garbage(&db);
    db.compact_range(None, None, &Default::default()).unwrap();
    let all = blobs(&db);
    // In a live value: the second, in the first file.
    let name = format!("{DIR}/{:06}.blob", all[0].number.0);
    let bytes = vfs.read_all(&name).unwrap();
    let at = bytes.windows(20).position(|w| *w == model[&key(1)][..20]);
    vfs.flip_bit(&name, at.unwrap() as u64).unwrap();
    let summary = db.collect_garbage(None, None, &everything()).unwrap();
    let damaged: Vec<_> = summary.damaged.iter().map(|d| d.file).collect();
    assert_eq!(damaged, [all[0].number]);
    assert_eq!(summary.damaged[0].error.kind(), ErrorKind::Corruption);
    assert!(db.background_error().is_none());
    let left = blobs(&db);
    let left: Vec<_> = left.iter().filter(|f| f.garbage_bytes > 0).collect();
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].number, all[0].number);
    for (n, (key, value)) in model.iter().enumerate().filter(|(n, _)| *n != 1) {
        assert_eq!(db.get(key).unwrap().unwrap(), value, "{n}");
    }
    assert_eq!(db.get(&key(1)).unwrap_err().kind(), ErrorKind::Corruption);
    // Once the file is undamaged again, its records can be collected.
    vfs.flip_bit(&name, at.unwrap() as u64).unwrap();
    let summary = db.collect_garbage(None, None, &everything()).unwrap();
    assert_eq!(summary.files, damaged);
    assert_eq!(garbage(&db), 0);
    reopened(db, &options, &model);
}

#[test]
fn a_failure_stops_writes_and_nothing_is_lost() {
    let vfs = SimVfs::new();
    let options = options(&vfs, off());
    let db = open(&options);
    let model = with_garbage(&db);
    db.compact_range(None, None, &Default::default()).unwrap();
    vfs.inject(Fault::on([OpKind::Append]).path("*.blobmap"));
    let e = db.collect_garbage(None, None, &everything()).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Io, "{e}");
    let e = db.collect_garbage(None, None, &everything()).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::WritesStopped, "{e}");
    assert_eq!(now(&db), model);
    db.resume().unwrap();
    db.collect_garbage(None, None, &everything()).unwrap();
    assert_eq!(garbage(&db), 0);
    reopened(db, &options, &model);
}

#[test]
fn closing_ends_it_and_what_was_collected_stays() {
    let vfs = SimVfs::new();
    let options = options(&vfs, off());
    let db = open(&options);
    let model = with_garbage(&db);
    db.compact_range(None, None, &Default::default()).unwrap();
    let before = on_disk(&vfs);
    let gate = Arc::new(Gate::default());
    let [done, late] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
    let (hooked, is_done, is_late) = (Arc::clone(&gate), Arc::clone(&done), Arc::clone(&late));
    let mut last = None;
    let seen = Mutex::new(BTreeSet::new());
    vfs.set_hook(move |call| {
        if is_of_blob(call) {
            // The output of the second collection.
            let mut seen = seen.lock().unwrap();
            seen.insert(call.path.to_owned());
            let second = seen.len() > 1;
            drop(seen);
            if second {
                hooked.pass();
            }
        }
        let changes = matches!(call.kind, OpKind::Append | OpKind::Remove | OpKind::Rename);
        is_late.fetch_or(changes && is_done.load(Ordering::SeqCst), Ordering::SeqCst);
    });
    gate.shut();
    std::thread::scope(|scope| {
        let collect = scope.spawn(|| db.collect_garbage(None, None, &everything()));
        eventually("the second collection", || {
            gate.waiting.load(Ordering::SeqCst) > 0
        });
        let close = scope.spawn(|| {
            db.close().unwrap();
            done.store(true, Ordering::SeqCst);
        });
        eventually("closing", || db.get(b"k").is_err());
        // A close that did not wait would have ended by then.
        let early = (0..10_000).any(|_| {
            std::thread::yield_now();
            done.load(Ordering::SeqCst)
        });
        gate.open();
        assert!(!early, "the collection still writes");
        close.join().unwrap();
        last = Some(collect.join().unwrap());
    });
    vfs.clear_hook();
    let e = last.unwrap().unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Closed, "{e}");
    assert!(!late.load(Ordering::SeqCst), "written to after closing");
    assert_ne!(on_disk(&vfs), before, "the first collection is lost");
    drop(db);
    let db = open(&options);
    assert!(garbage(&db) > 0);
    db.collect_garbage(None, None, &everything()).unwrap();
    assert_eq!(garbage(&db), 0);
    reopened(db, &options, &model);
}

#[test]
fn a_family_that_is_dropped_ends_it() {
    let vfs = SimVfs::new();
    let options = options(&vfs, off());
    let db = open(&options);
    let family = db.create_column_family("family", off()).unwrap();
    with_garbage(&family);
    family
        .compact_range(None, None, &Default::default())
        .unwrap();
    let gate = Gate::shut_at(&vfs, is_of_blob);
    std::thread::scope(|scope| {
        let collect = scope.spawn(|| family.collect_garbage(None, None, &everything()));
        eventually("the collection", || gate.waiting.load(Ordering::SeqCst) > 0);
        db.drop_column_family(&family).unwrap();
        gate.open();
        let e = collect.join().unwrap().unwrap_err();
        assert_eq!(e.kind(), ErrorKind::InvalidArgument, "{e}");
    });
    vfs.clear_hook();
    let e = family.collect_garbage(None, None, &everything());
    assert_eq!(e.unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert!(db.background_error().is_none());
    db.wait_idle().unwrap();
    assert!(on_disk(&vfs).is_empty());
    reopened(db, &options, &Model::new());
}

#[test]
fn users_and_what_is_due_collect_at_once() {
    for seed in 0..scaled(4) {
        let vfs = SimVfs::new();
        let options = options(
            &vfs,
            ColumnFamilyOptions {
                disable_auto_compactions: false,
                level0_file_num_compaction_trigger: 2,
                ..collecting()
            },
        );
        let db = open(&options);
        let mut model = Model::new();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let (db, done) = (&db, &done);
                scope.spawn(move || {
                    let mut rng = fastrand::Rng::with_seed(seed * 2 + thread);
                    while !done.load(Ordering::SeqCst) {
                        let (a, b) = (rng.usize(..KEYS), rng.usize(..KEYS));
                        let (from, to) = (key(a.min(b)), key(a.max(b)));
                        let options = CollectGarbageOptions {
                            compact: rng.bool(),
                            ..everything()
                        };
                        db.collect_garbage(Some(&from), Some(&to), &options)
                            .unwrap();
                        if rng.u8(..4) == 0 {
                            drop(db.pause_garbage_collection().unwrap());
                        }
                    }
                });
            }
            let mut rng = fastrand::Rng::with_seed(seed);
            for round in 0..12 {
                put(&db, &mut model, round, (0..KEYS).filter(|_| rng.bool()));
                assert_eq!(now(&db), model, "seed {seed}");
            }
            done.store(true, Ordering::SeqCst);
        });
        // A compaction that is still running pins the version it began with, and the records that
        // are live there.
        db.wait_idle().unwrap();
        db.collect_garbage(None, None, &everything()).unwrap();
        assert_eq!(garbage(&db), 0, "seed {seed}");
        reopened(db, &options, &model);
    }
}
