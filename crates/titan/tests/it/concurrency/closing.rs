//! Closing while everything else runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use titan::{CompactRangeOptions, ErrorKind};
use titan_testkit::sim::{OpKind, SimVfs};

use super::{
    Act, Gate, busy, come_and_go, compare_pairs, disturb, is_of_table, repeat, write_pair,
};
use crate::support::{eventually, key, manual, open, options, scaled, value};

#[test]
fn closing_ends_everything_and_nothing_is_touched_afterwards() {
    for seed in 0..scaled(15) {
        let vfs = SimVfs::new();
        let options = options(&vfs, busy());
        let db = open(&options);
        let a = db.create_column_family("a", busy()).unwrap();
        let b = db.create_column_family("b", busy()).unwrap();
        let written = AtomicU64::new(0);
        let closed = Arc::new(AtomicBool::new(false));
        let touched = Arc::new(Mutex::new(Vec::new()));
        let (is_closed, touches) = (Arc::clone(&closed), Arc::clone(&touched));
        vfs.set_hook(move |call| {
            let changes = !matches!(
                call.kind,
                OpKind::Open | OpKind::Read | OpKind::Stat | OpKind::ReadDir
            );
            if changes && is_closed.load(Ordering::SeqCst) {
                touches.lock().push(format!("{call:?}"));
            }
        });
        let acts: [Act<'_>; 6] = [
            &|rng| {
                written.fetch_add(1, Ordering::SeqCst);
                write_pair(&db, &a, &b, rng)
            },
            &|rng| write_pair(&db, &a, &b, rng),
            &|rng| compare_pairs(&db, &a, &b, rng),
            &|rng| disturb(&db, [&a, &b], rng),
            &|rng| disturb(&db, [&a, &b], rng),
            &|rng| come_and_go(&db, rng),
        ];
        std::thread::scope(|scope| {
            for (n, act) in acts.into_iter().enumerate() {
                scope.spawn(move || {
                    let e = repeat(seed * 10 + n as u64, act, || false).unwrap_err();
                    assert_eq!(e.kind(), ErrorKind::Closed, "seed {seed}, {n}: {e}");
                });
            }
            eventually("writes", || written.load(Ordering::SeqCst) > 40 * seed);
            db.close().unwrap();
            closed.store(true, Ordering::SeqCst);
            db.close().unwrap();
        });
        assert_eq!(*touched.lock(), [""; 0], "seed {seed}");
        vfs.clear_hook();
        drop((a, b, db));
        let db = open(&options);
        let (a, b) = (
            db.column_family("a").unwrap(),
            db.column_family("b").unwrap(),
        );
        for seed in 0..5 {
            compare_pairs(&db, &a, &b, &mut fastrand::Rng::with_seed(seed)).unwrap();
        }
    }
}

#[test]
fn closing_waits_for_a_compaction_that_a_user_runs() {
    let vfs = SimVfs::new();
    let options = options(&vfs, manual());
    let db = open(&options);
    for _ in 0..2 {
        for i in 0..100 {
            db.put(&key(i), &value(i, 200)).unwrap();
        }
        db.flush().unwrap();
    }
    let gate = Arc::new(Gate::default());
    let [done, late] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
    let (hooked, is_done, is_late) = (Arc::clone(&gate), Arc::clone(&done), Arc::clone(&late));
    vfs.set_hook(move |call| {
        if call.kind == OpKind::Append && is_of_table(call) {
            hooked.pass();
        }
        is_late.fetch_or(is_done.load(Ordering::SeqCst), Ordering::SeqCst);
    });
    gate.shut();
    std::thread::scope(|scope| {
        let compact = scope.spawn(|| db.compact_range(None, None, &CompactRangeOptions::default()));
        eventually("the compaction", || gate.waiting.load(Ordering::SeqCst) > 0);
        let close = scope.spawn(|| {
            db.close().unwrap();
            done.store(true, Ordering::SeqCst);
        });
        eventually("closing", || db.get(b"k").is_err());
        assert!(!done.load(Ordering::SeqCst), "the compaction still writes");
        gate.open();
        close.join().unwrap();
        // The compaction may have finished its last entry when it was told to stop.
        let outcome = compact.join().unwrap();
        assert!(outcome.is_ok() || outcome.is_err_and(|e| e.kind() == ErrorKind::Closed));
        assert!(!late.load(Ordering::SeqCst), "written to after closing");
    });
    vfs.clear_hook();
    drop(db);
    let db = open(&options);
    for i in 0..100 {
        assert_eq!(db.get(&key(i)).unwrap().unwrap(), value(i, 200));
    }
}
