//! Listeners are told of operations that take long.

use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::Duration;

use titan::{DbOptions, EventListener, Options, SlowOperationEvent, StatsLevel, SystemClock};
use titan_testkit::sim::SimVfs;

use super::at_level;
use crate::support::{key, open};

#[derive(Default)]
struct Heard(Mutex<Vec<(&'static str, Duration)>>);

impl EventListener for Heard {
    fn slow_operation(&self, event: &SlowOperationEvent) {
        self.0.lock().unwrap().push((event.operation, event.took));
    }
}

/// Each look of one thread at it takes a millisecond. Others see the same time.
struct Slow {
    thread: ThreadId,
    now: Mutex<Duration>,
}

impl SystemClock for Slow {
    fn monotonic(&self) -> Duration {
        let mut now = self.now.lock().unwrap();
        if thread::current().id() == self.thread {
            *now += Duration::from_millis(1);
        }
        *now
    }

    fn unix_time(&self) -> Duration {
        Duration::from_secs(1_700_000_000)
    }
}

#[test]
fn slow_operations_are_told_and_others_are_not() {
    let vfs = SimVfs::new();
    let heard = Arc::new(Heard::default());
    let options = at_level(&vfs, StatsLevel::All);
    let options = Options {
        db: DbOptions {
            clock: Arc::new(Slow {
                thread: thread::current().id(),
                now: Mutex::default(),
            }),
            listeners: vec![heard.clone()],
            slow_operation_micros: 1001,
            ..options.db
        },
        ..options
    };
    let db = open(&options);
    let told = || std::mem::take(&mut *heard.0.lock().unwrap());
    told();
    db.get(key(1)).unwrap();
    assert!(told().is_empty());
    db.set_options(&[("slow_operation_micros", "1000")])
        .unwrap();
    told();
    db.get(key(1)).unwrap();
    assert_eq!(
        told(),
        [("rocksdb.db.get.micros", Duration::from_millis(1))]
    );
    db.set_options(&[("slow_operation_micros", "0")]).unwrap();
    told();
    db.get(key(1)).unwrap();
    assert!(told().is_empty());
}

/// Options of a database whose clock goes on by a millisecond at each look.
fn slow_at(level: StatsLevel, listener: Arc<dyn EventListener>) -> Options {
    let options = at_level(&SimVfs::new(), level);
    Options {
        db: DbOptions {
            clock: Arc::new(Slow {
                thread: thread::current().id(),
                now: Mutex::default(),
            }),
            listeners: vec![listener],
            slow_operation_micros: 1000,
            ..options.db
        },
        ..options
    }
}

#[test]
fn slow_operations_are_told_at_each_level_and_counted_as_it_says() {
    for level in [StatsLevel::Off, StatsLevel::Sampled, StatsLevel::All] {
        let heard = Arc::new(Heard::default());
        let db = open(&slow_at(level, heard.clone()));
        let told = || std::mem::take(&mut *heard.0.lock().unwrap());
        let opened = told();
        let is_open = |(operation, _): &(&str, _)| *operation == "titan.db.open.micros";
        assert!(opened.iter().any(is_open), "{level:?} {opened:?}");
        db.put(key(1), "1").unwrap();
        told();
        for _ in 0..100 {
            db.get(key(1)).unwrap();
        }
        let gets = vec![("rocksdb.db.get.micros", Duration::from_millis(1)); 100];
        assert_eq!(told(), gets, "{level:?}");
        let counted = db.statistics().histogram("rocksdb.db.get.micros").unwrap();
        match level {
            StatsLevel::Off => assert_eq!(counted, Default::default()),
            StatsLevel::All => assert_eq!(counted.count, 100),
            _ => assert!((1..20).contains(&counted.count), "{counted:?}"),
        }
        // A step of reads is counted only if the level says so.
        let hits = db.statistics().memtable_hits();
        assert_eq!(hits, if level == StatsLevel::Off { 0 } else { 100 });
        db.set_options(&[("slow_operation_micros", "0")]).unwrap();
        told();
        db.get(key(1)).unwrap();
        assert!(told().is_empty(), "{level:?}");
    }
}

#[test]
fn what_takes_longest_is_timed_and_told() {
    let heard = Arc::new(Heard::default());
    let db = open(&slow_at(StatsLevel::All, heard.clone()));
    let long = vec![7; 1 << 20];
    db.put_reader("long", &long[..]).unwrap();
    db.put_reader("short", &b"1"[..]).unwrap();
    db.checkpoint("/checkpoint").unwrap();
    let told = heard.0.lock().unwrap();
    for (operation, count) in [
        ("titan.db.open.micros", 1),
        ("titan.db.put_reader.micros", 2),
        ("titan.db.checkpoint.micros", 1),
    ] {
        let of_it = told.iter().filter(|(told, _)| *told == operation);
        assert_eq!(of_it.count() as u64, count, "{operation}");
        let timed = db.statistics().histogram(operation).unwrap().count;
        assert_eq!(timed, count, "{operation}");
    }
}

/// A listener that reads is not told of its own read, which would not end.
#[test]
fn what_a_listener_does_is_not_told() {
    #[derive(Default)]
    struct Reads {
        db: Mutex<Option<titan::Db>>,
        told: Mutex<Vec<&'static str>>,
    }
    impl EventListener for Reads {
        fn slow_operation(&self, event: &SlowOperationEvent) {
            self.told.lock().unwrap().push(event.operation);
            let db = self.db.lock().unwrap().clone();
            if let Some(db) = db {
                db.get(key(1)).unwrap();
            }
        }
    }
    let reads = Arc::new(Reads::default());
    let db = open(&slow_at(StatsLevel::Off, reads.clone()));
    *reads.db.lock().unwrap() = Some(db.clone());
    reads.told.lock().unwrap().clear();
    db.get(key(1)).unwrap();
    db.get(key(1)).unwrap();
    assert_eq!(*reads.told.lock().unwrap(), ["rocksdb.db.get.micros"; 2]);
    reads.db.lock().unwrap().take();
}
