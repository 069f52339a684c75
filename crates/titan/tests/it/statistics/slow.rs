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
