//! Memory that is refused at each point: the cache may stop, but every answer is that of the
//! store.
//!
//! A history is run again and again. In the first run its first charge exceeds the limit, in the
//! second run the second one, until a run has fewer charges than that.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use titan::DbOptions;
use titan_mvcc::{Direction, Snapshot, StoreOptions};
use titan_testkit::clock::SimClock;
use titan_testkit::sim::SimVfs;

use crate::{CacheOptions, Load, Progress, RangeCache};

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

struct History {
    cache: RangeCache,
    rows: Rows,
    /// A reader of the past, and what it finds.
    reader: Option<(Snapshot, Rows)>,
    what: String,
}

fn key(n: u32) -> Vec<u8> {
    n.to_be_bytes().to_vec()
}

impl History {
    fn new(what: String) -> Self {
        let options = StoreOptions {
            db: DbOptions {
                vfs: Arc::new(SimVfs::new()),
                clock: Arc::new(SimClock::with_seed(1)),
                ..DbOptions::default()
            },
            retention: None,
            ..StoreOptions::default()
        };
        let cache_options = CacheOptions {
            segment_size: 3_000,
            safe_lag: Duration::ZERO,
            maintenance: None,
            chooses: true,
            audited_per_mille: 1_000,
            ..CacheOptions::default()
        };
        History {
            cache: RangeCache::open("/store", &options, &cache_options).unwrap(),
            rows: Rows::new(),
            reader: None,
            what,
        }
    }

    fn put(&mut self, keys: impl Iterator<Item = u32>, value: &[u8]) {
        let mut transaction = self.cache.store().begin();
        for n in keys {
            transaction.put(&key(n), value);
            self.rows.insert(key(n), value.to_vec());
        }
        transaction.commit().unwrap();
        self.check();
    }

    fn delete(&mut self, keys: impl Iterator<Item = u32>) {
        let mut transaction = self.cache.store().begin();
        for n in keys {
            transaction.delete(&key(n));
            self.rows.remove(&key(n));
        }
        transaction.commit().unwrap();
        self.check();
    }

    /// Reads of the present and the past find what was written.
    fn check(&self) {
        let now = (self.cache.store().snapshot(), self.rows.clone());
        for (snapshot, expected) in self.reader.iter().chain([&now]) {
            for direction in [Direction::Forward, Direction::Backward] {
                let scan = snapshot.scan(None, None, direction).unwrap();
                let found: Vec<_> = scan
                    .map(|row| row.unwrap())
                    .map(|row| (row.key, row.value.fetch().unwrap().to_vec()))
                    .collect();
                let mut expected: Vec<_> = expected.clone().into_iter().collect();
                if direction == Direction::Backward {
                    expected.reverse();
                }
                assert!(found == expected, "{}", self.what);
            }
            for n in [0, 7, 50, 199] {
                let found = snapshot.get(&key(n)).unwrap();
                let expected = expected.get(&key(n)).map(|value| &**value);
                assert_eq!(found.as_deref(), expected, "{}", self.what);
            }
        }
    }

    /// Goes on with a load; false if there is nothing more to do.
    fn step(&self, load: &mut Load) -> bool {
        let stepped = load.step();
        self.check();
        matches!(stepped, Ok(Progress::Going))
    }

    fn maintain(&self) {
        self.cache.maintain();
        assert_eq!(self.cache.difference(), None, "{}", self.what);
        assert!(!self.cache.is_off(), "{}", self.what);
        self.check();
    }

    fn run(&mut self) {
        self.put(0..100, &[1; 40]);
        let bound = key(80);
        if let Ok(mut load) = self.cache.begin_load(None, Some(&bound)) {
            while self.step(&mut load) {
                self.put([3, 120].into_iter(), &[2; 30]);
            }
        }
        let pinned = self.cache.begin_pinned_load(Some(&bound), None);
        let _ = pinned.and_then(Load::finish);
        self.check();
        self.reader = Some((self.cache.store().snapshot(), self.rows.clone()));
        self.put((0..200).step_by(3), &[3; 60]);
        self.maintain();
        self.put((100..200).step_by(7), &[4; 400]);
        for round in 0..20 {
            self.put([7, 50].into_iter(), &[round; 20]);
        }
        self.delete(20..75);
        self.maintain();
        self.reader = None;
        self.maintain();
        self.maintain();
        self.cache.drop_range(Some(&key(10)), Some(&key(20)));
        self.check();
        // The dead rows are a gap now, and a segment after this.
        self.maintain();
        self.put([30].into_iter(), b"in the gap");
        let _ = self.cache.load(None, None);
        self.check();
        self.maintain();
    }
}

#[test]
fn whatever_memory_is_refused_every_answer_is_the_same() {
    for is_for_good in [false, true] {
        let mut refused = 0;
        for n in 1.. {
            let kind = if is_for_good { "for good" } else { "once" };
            let mut history = History::new(format!("charge {n} is refused, {kind}"));
            let budget = Arc::clone(&history.cache.shared().budget);
            budget.refuse_at(n, is_for_good);
            history.run();
            let charges = budget.charges();
            history.cache.drop_range(None, None);
            assert_eq!(budget.used(), 0, "{}", history.what);
            if charges < n {
                break;
            }
            refused = n;
        }
        println!("{refused} charges were refused, for good: {is_for_good}");
        assert!(refused > 200, "{refused}");
    }
}
