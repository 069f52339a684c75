//! Time, names and background jobs follow from the operations: two runs have the same effects on
//! the file system, byte for byte.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use titan::{Db, StallEvent};
use titan_campaigns::settings::Settings;
use titan_campaigns::store::{DIR, Store};
use titan_testkit::clock::SimClock;
use titan_testkit::ops::{Generator, Op, Ops, Weights};
use titan_testkit::reads::contents;
use titan_testkit::sim::{Journal, Latency, Mark, OpKind, SimVfs};

use crate::support::eventually;

fn random(seed: u64) -> Ops {
    let mut generator = Generator::with_seed(seed);
    generator.weights = Weights {
        put: 200,
        batch: 100,
        flush: 10,
        compact: 5,
        reopen: 3,
        create_cf: 8,
        drop_cf: 2,
        ..Weights::writes_only()
    };
    generator.value_sizes = vec![0, 40, 99, 101, 1000, 5000];
    generator.ops(400)
}

/// A run's effects on the file system, and its duration. Each operation waits for the background
/// jobs that it causes, and causes none before it ends.
fn run(ops: &Ops, seed: u64) -> (Journal, Duration) {
    let (vfs, clock) = (SimVfs::new(), SimClock::with_seed(seed));
    vfs.set_latency(Latency::with_seed(seed), &clock);
    let mut options = Settings::jobs(1).options(&vfs);
    options.db.clock = Arc::new(clock.clone());
    // Without a cache, no tables are read ahead beside the first operations.
    options.db.block_cache_size = 0;
    // No memtable is full before the operation after the one that filled it to this part.
    let full = options.default.write_buffer_size;
    options.default.write_buffer_size = 16 * full;
    let mut store = Store::with_options(&vfs, Settings::jobs(1), options).unwrap();
    for op in &ops.0 {
        if let Op::Compact { family, .. } = op {
            // It flushes first; after that the background may compact beside the user.
            flush(&mut store, family);
        }
        store.apply(op).unwrap();
        store.db.wait_idle().unwrap();
        for family in store.db.metrics().families {
            if family.memtable_bytes >= full {
                flush(&mut store, &family.name);
            }
        }
        // So that files have different creation times.
        clock.advance(Duration::from_millis(300));
    }
    assert!(contents(&store.db).unwrap() == *store.ledger.present());
    store.db.close().unwrap();
    (vfs.journal(), clock.elapsed())
}

fn flush(store: &mut Store, family: &str) {
    let family = family.to_owned();
    store.apply(&Op::Flush { family }).unwrap();
    store.db.wait_idle().unwrap();
}

/// The position where two journals first differ.
fn difference(one: &Journal, two: &Journal) -> Option<String> {
    let pairs = one.ops().iter().zip(two.ops());
    let at = pairs.take_while(|(a, b)| a == b).count();
    (at < one.len().max(two.len())).then(|| {
        let show = |journal: &Journal| match journal.ops().get(at) {
            Some(op) => format!("{op}: {op:?}"),
            None => "the end".to_owned(),
        };
        format!("operation {at}:\n{}\n{}", show(one), show(two))
    })
}

/// Returns and promises, in this order.
fn marks(journal: &Journal) -> Vec<Mark> {
    let end = journal.crash_points().last();
    end.map(|point| point.marks().to_vec()).unwrap_or_default()
}

#[test]
fn two_runs_of_the_same_operations_leave_the_same_journal() {
    for seed in 1..=4 {
        let ops = random(seed);
        let ((one, took), (two, took_again)) = (run(&ops, seed), run(&ops, seed));
        assert_eq!(difference(&one, &two), None, "seed {seed}");
        assert_eq!(took, took_again, "seed {seed}");
        // A flush may have returned before or after the files that it replaced were deleted.
        assert_eq!(marks(&one), marks(&two), "seed {seed}");
        let flushes = one.ops().iter().filter(|op| {
            let op = op.to_string();
            op.starts_with("create") && op.ends_with(".sst")
        });
        assert!(flushes.count() > 20, "seed {seed}");
        // Names come from the clock: another clock gives another journal.
        assert!(difference(&one, &run(&ops, seed + 100).0).is_some());
    }
}

#[test]
fn a_delayed_write_takes_simulated_time_and_no_other() {
    let (vfs, clock) = (SimVfs::new(), SimClock::with_seed(1));
    let mut options = Settings::jobs(1).options(&vfs);
    options.db.clock = Arc::new(clock.clone());
    options.db.delayed_write_rate = 1024;
    options.default.level0_slowdown_writes_trigger = 2;
    let db = Db::open(DIR, &options).unwrap();
    // Flushes may pass; the first compaction, which reads their tables, may not.
    let gate = Arc::new(Mutex::new(()));
    let shut = gate.lock();
    let hooked = Arc::clone(&gate);
    vfs.set_hook(move |call| {
        if call.kind == OpKind::Open && call.path.extension().is_some_and(|e| e == "sst") {
            drop(hooked.lock());
        }
    });
    let put = |value: &[u8]| db.put(b"key", value).unwrap();
    for _ in 0..2 {
        put(b"value");
        db.flush().unwrap();
    }
    eventually("the delay", || {
        db.metrics().families[0].stall != StallEvent::Normal
    });
    assert_eq!(
        clock.elapsed(),
        Duration::ZERO,
        "nothing was slowed down yet"
    );
    let started = Instant::now();
    put(&[7; 1 << 20]);
    let waited = clock.elapsed();
    assert!(
        waited >= Duration::from_secs(1024) && waited < Duration::from_secs(1030),
        "{waited:?}"
    );
    let counted = db.statistics().stall_micros();
    assert_eq!(u128::from(counted), waited.as_micros());
    assert!(started.elapsed() < waited / 2);
    drop(shut);
    db.close().unwrap();
}
