//! Random histories on a store with a cache, and on a model: whatever is loaded, dropped and
//! pruned, what is read is what the model has.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::Duration;

use titan_ime::{Error, Load, Progress, RangeCache};
use titan_mvcc::{Direction, Hold, Snapshot, Timestamp};

use super::place::{Place, rows, seeds};

/// All versions of all keys.
#[derive(Default)]
struct Model(BTreeMap<Vec<u8>, BTreeMap<Timestamp, Option<Vec<u8>>>>);

impl Model {
    fn get(&self, key: &[u8], at: Timestamp) -> Option<&[u8]> {
        let (_, value) = self.0.get(key)?.range(..=at).next_back()?;
        value.as_deref()
    }

    fn rows(
        &self,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
        at: Timestamp,
    ) -> Vec<(Vec<u8>, Vec<u8>)> {
        if matches!((from, to), (Some(from), Some(to)) if from >= to) {
            return Vec::new();
        }
        let lower = from.map_or(Bound::Unbounded, Bound::Included);
        let upper = to.map_or(Bound::Unbounded, Bound::Excluded);
        let keys = self.0.range::<[u8], _>((lower, upper)).map(|(key, _)| key);
        let rows = keys.filter_map(|key| Some((key.clone(), self.get(key, at)?.to_vec())));
        rows.collect()
    }
}

struct World {
    rng: fastrand::Rng,
    what: String,
    place: Place,
    cache: RangeCache,
    model: Model,
    keys: u32,
    loads: Vec<Load>,
    snapshots: Vec<Snapshot>,
    holds: Vec<Hold>,
    known: Vec<Timestamp>,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut place = Place::new(seed);
        let versions = &mut place.store.versions;
        versions.min_blob_size = [0, 20, 4096][rng.usize(..3)];
        versions.write_buffer_size = 64 << 10;
        versions.level0_file_num_compaction_trigger = 2;
        // Some commit in two phases.
        place.store.transactions.one_batch_bytes = [0, 300, 16 << 20][rng.usize(..3)];
        place.cache.segment_size = [500, 10_000, 256 << 10][rng.usize(..3)];
        place.cache.safe_lag = [
            Duration::ZERO,
            Duration::from_millis(30),
            Duration::from_secs(180),
        ][rng.usize(..3)];
        place.cache.chooses = rng.bool();
        let cache = place.open();
        World {
            what: String::new(),
            keys: [10, 60, 400][rng.usize(..3)],
            rng,
            place,
            cache,
            model: Model::default(),
            loads: Vec::new(),
            snapshots: Vec::new(),
            holds: Vec::new(),
            known: Vec::new(),
        }
    }

    /// Keys of two lengths, the shorter ones before the longer ones that begin with them.
    fn key(&mut self) -> Vec<u8> {
        let n = self.rng.u32(..self.keys);
        match n % 3 {
            0 => format!("{:04}", n).into_bytes(),
            1 => format!("{:04}----", n - 1).into_bytes(),
            _ => format!("{:04}-----longer", n - 2).into_bytes(),
        }
    }

    fn bound(&mut self) -> Option<Vec<u8>> {
        (self.rng.usize(..4) > 0).then(|| self.key())
    }

    fn commit(&mut self) {
        let mut transaction = self.cache.store().begin();
        let mut writes = BTreeMap::new();
        for _ in 0..self.rng.usize(1..6) {
            let key = self.key();
            let len = [0, 10, 90, 256, 257, 600][self.rng.usize(..6)];
            let value = (self.rng.usize(..3) > 0).then(|| vec![self.rng.u8(..); len]);
            match &value {
                Some(value) => transaction.put(&key, value),
                None => transaction.delete(&key),
            }
            writes.insert(key, value);
        }
        let locked = self.key();
        if self.rng.usize(..4) == 0 {
            transaction.lock(&locked);
        }
        let at = transaction.commit().unwrap();
        for (key, value) in writes {
            self.model.0.entry(key).or_default().insert(at, value);
        }
        self.known.push(at);
    }

    /// Deletes many neighbouring keys, so that scans meet gaps.
    fn delete_many(&mut self) {
        let from = self.key();
        let live = self.model.rows(Some(&from), None, Timestamp::MAX);
        let mut transaction = self.cache.store().begin();
        let most = self.rng.usize(..120);
        let keys: Vec<_> = live.into_iter().take(most).map(|(key, _)| key).collect();
        for key in &keys {
            transaction.delete(key);
        }
        let at = transaction.commit().unwrap();
        for key in keys {
            self.model.0.entry(key).or_default().insert(at, None);
        }
        self.known.push(at);
    }

    /// A snapshot of some time that can be read.
    fn some_snapshot(&mut self) -> Snapshot {
        let n = self.rng.usize(..self.snapshots.len() + 3);
        if let Some(kept) = self.snapshots.get(n) {
            return kept.clone();
        }
        let store = self.cache.store();
        if let Some(at) = self.rng.choice(&self.known)
            && self.rng.bool()
            && let Ok(snapshot) = store.snapshot_at(Timestamp(at.0 - self.rng.u64(..2)))
        {
            return snapshot;
        }
        store.snapshot()
    }

    fn read(&mut self) {
        let snapshot = self.some_snapshot();
        let at = snapshot.timestamp();
        let key = self.key();
        let what = format!("{}, {key:?} at {at}", self.what);
        let found = snapshot.get(&key).unwrap();
        assert_eq!(found.as_deref(), self.model.get(&key, at), "{what}");
        let (from, to) = (self.bound(), self.bound());
        let (from, to) = (from.as_deref(), to.as_deref());
        let expected = self.model.rows(from, to, at);
        let direction = match self.rng.bool() {
            true => Direction::Forward,
            false => Direction::Backward,
        };
        let what = format!("{}, {from:?} to {to:?} at {at}, {direction:?}", self.what);
        assert_eq!(rows(&snapshot, from, to, direction), expected, "{what}");
    }

    /// A scan that goes on while everything changes.
    fn slow_scan(&mut self) {
        let snapshot = self.some_snapshot();
        let at = snapshot.timestamp();
        let direction = match self.rng.bool() {
            true => Direction::Forward,
            false => Direction::Backward,
        };
        let mut expected = self.model.rows(None, None, at);
        if direction == Direction::Backward {
            expected.reverse();
        }
        let what = format!("{}, slow scan at {at}, {direction:?}", self.what);
        let mut expected = expected.into_iter();
        for row in snapshot.scan(None, None, direction).unwrap() {
            let row = row.unwrap();
            let value = row.value.fetch().unwrap().to_vec();
            assert_eq!(Some((row.key, value)), expected.next(), "{what}");
            if self.rng.usize(..8) == 0 {
                self.change();
            }
        }
        assert_eq!(expected.next(), None, "{what}");
    }

    fn begin_load(&mut self) {
        let (from, to) = (self.bound(), self.bound());
        let begun = match self.rng.usize(..5) {
            0 => self.cache.begin_pinned_load(from.as_deref(), to.as_deref()),
            _ => self.cache.begin_load(from.as_deref(), to.as_deref()),
        };
        match begun {
            Ok(load) => self.loads.push(load),
            Err(Error::Overlaps | Error::EmptyRange) => {}
            Err(e) => panic!("{}: {e}", self.what),
        }
    }

    fn step_load(&mut self) {
        if self.loads.is_empty() {
            return;
        }
        let n = self.rng.usize(..self.loads.len());
        match self.loads[n].step() {
            Ok(Progress::Going) => {}
            Ok(Progress::Done) | Err(Error::MemoryLimit { .. } | Error::Abandoned { .. }) => {
                drop(self.loads.swap_remove(n));
            }
            Err(e) => panic!("{}: {e}", self.what),
        }
    }

    /// Anything that changes what is stored or what is held.
    fn change(&mut self) {
        match self.rng.usize(..40) {
            0..11 => self.commit(),
            11 => self.delete_many(),
            12..16 => self.begin_load(),
            16..26 => self.step_load(),
            26 => {
                if !self.loads.is_empty() {
                    let n = self.rng.usize(..self.loads.len());
                    drop(self.loads.swap_remove(n));
                }
            }
            27 => {
                let (from, to) = (self.bound(), self.bound());
                self.cache.drop_range(from.as_deref(), to.as_deref());
            }
            28..32 => self.cache.maintain(),
            32 => {
                let limits = [
                    0,
                    3_000,
                    20_000,
                    100_000,
                    usize::MAX,
                    usize::MAX,
                    usize::MAX,
                ];
                let limit = limits[self.rng.usize(..limits.len())];
                self.cache.set_memory_limit(limit);
            }
            33 => {
                let snapshot = self.some_snapshot();
                self.snapshots.push(snapshot);
                if self.snapshots.len() > 4 {
                    self.snapshots.swap_remove(self.rng.usize(..4));
                }
            }
            34 => {
                let store = self.cache.store();
                self.holds.push(store.hold("backup", store.now()).unwrap());
                if self.holds.len() > 1 {
                    self.holds.remove(0);
                }
            }
            35 => {
                let at = self.some_snapshot().timestamp();
                let _ = self.cache.store().advance_safe_point(at);
            }
            36 => self
                .cache
                .store()
                .db()
                .column_family("versions")
                .unwrap()
                .flush()
                .unwrap(),
            37 => self.cache.store().drop_old_versions().unwrap(),
            38 => drop(
                self.cache
                    .audit()
                    .unwrap_or_else(|e| panic!("{}: {e}", self.what)),
            ),
            _ => self
                .place
                .clock
                .advance(Duration::from_millis(self.rng.u64(..50))),
        }
    }

    fn run(&mut self, seed: u64, operations: u32) {
        for n in 0..operations {
            self.what = format!("seed {seed}, operation {n}");
            match self.rng.usize(..40) {
                0..14 => self.read(),
                14 => self.slow_scan(),
                _ => self.change(),
            }
        }
        self.cache.set_memory_limit(usize::MAX);
        self.loads.clear();
        self.cache.audit().unwrap();
    }
}

#[test]
fn what_is_read_is_what_was_written_whatever_is_in_memory() {
    let mut sums = [
        ("points in memory", 0),
        ("parts in memory", 0),
        ("points in the engine", 0),
        ("parts in the engine", 0),
        ("points that are too old", 0),
        ("parts that are too old", 0),
        ("loads", 0),
        ("gaps", 0),
        ("joins", 0),
        ("segments that do not fit", 0),
    ];
    for seed in seeds(60) {
        let mut world = World::new(seed);
        world.run(seed, 600);
        let stats = world.cache.stats();
        let counts = [
            stats.points.hits,
            stats.parts.hits,
            stats.points.not_held,
            stats.parts.not_held,
            stats.points.too_old,
            stats.parts.too_old,
            stats.loads,
            stats.gaps,
            stats.joins,
            stats.dropped_memory_limit,
        ];
        sums.iter_mut()
            .zip(counts)
            .for_each(|((_, sum), n)| *sum += n);
        // Everything that was charged is given back.
        world.cache.drop_range(None, None);
        assert_eq!(world.cache.stats().memory_used, 0, "seed {seed}");
    }
    // Each of these was tried.
    println!("{sums:?}");
    assert!(sums.iter().all(|(_, sum)| *sum > 0), "{sums:?}");
}
