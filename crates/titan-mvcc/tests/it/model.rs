//! Random histories on a store and on a model: all that is read is compared, and in the end all
//! that is stored.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use titan::ReadOptions;
use titan_mvcc::{Direction, Error, Hold, Result, Row, Snapshot, Store, Timestamp, Transaction};
use titan_testkit::versions::{Versions, Write};

use super::setup::{DIR, Place, seeds, stored_versions};

/// A transaction with what it should do.
struct Open {
    transaction: Transaction,
    writes: BTreeMap<Vec<u8>, Write>,
}

impl Open {
    fn rows(&self, model: &Versions<Timestamp>) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let mut rows = model.rows(self.transaction.start());
        for (key, write) in &self.writes {
            match write {
                Write::Set(Some(value)) => drop(rows.insert(key.clone(), value.clone())),
                Write::Set(None) => drop(rows.remove(key)),
                Write::Lock => {}
            }
        }
        rows
    }
}

struct World {
    rng: fastrand::Rng,
    place: Place,
    store: Store,
    model: Versions<Timestamp>,
    open: Vec<Open>,
    /// Snapshots that stay for a while.
    snapshots: Vec<Snapshot>,
    holds: Vec<Hold>,
    /// Timestamps that may be read: of commits, and beside them.
    known: Vec<Timestamp>,
    acknowledged: Timestamp,
    safe_point: Timestamp,
    /// Transactions that were stopped before they committed, and the keys that they locked.
    killed: Vec<(Timestamp, Vec<Vec<u8>>)>,
    conflicts: u32,
    refused: u32,
    blocked: u32,
}

const TTL: Duration = Duration::from_secs(1 << 30);

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut place = Place::new(seed);
        let versions = &mut place.options.versions;
        versions.min_blob_size = [0, 20, 4096][rng.usize(..3)];
        versions.write_buffer_size = 64 << 10;
        versions.target_file_size_base = [1 << 10, 64 << 10][rng.usize(..2)];
        versions.level0_file_num_compaction_trigger = 2;
        place.options.write.sync = rng.bool();
        // In most histories, transactions in two phases meet transactions in one batch.
        let transactions = &mut place.options.transactions;
        transactions.one_batch_bytes = [0, 40, 100, 1 << 20][rng.usize(..4)];
        transactions.async_commit = rng.bool();
        transactions.lock_wait = Duration::ZERO;
        transactions.lock_ttl = TTL;
        let store = place.open();
        World {
            rng,
            place,
            store,
            model: Versions::default(),
            open: Vec::new(),
            snapshots: Vec::new(),
            holds: Vec::new(),
            known: Vec::new(),
            acknowledged: Timestamp::ZERO,
            safe_point: Timestamp::ZERO,
            killed: Vec::new(),
            conflicts: 0,
            refused: 0,
            blocked: 0,
        }
    }

    fn key(&mut self) -> Vec<u8> {
        // Few keys, some of which begin others, and with lengths around a group of eight.
        let n = self.rng.usize(..12);
        let key: &[u8] = [
            &b""[..],
            b"a",
            b"a\0",
            b"a\0\0",
            b"aaaaaaaa",
            b"aaaaaaaa\0",
            b"aaaaaaaab",
            b"b",
            b"b\xff",
            b"c",
            b"\xff",
            b"\xff\xff\xff\xff\xff\xff\xff\xff",
        ][n];
        key.to_vec()
    }

    fn value(&mut self) -> Vec<u8> {
        let len = self.rng.usize(..60);
        vec![self.rng.u8(..); len]
    }

    fn step(&mut self) {
        match self.rng.u32(..100) {
            0..15 => self.begin(),
            15..45 => self.write(),
            45..60 => self.read_in_transaction(),
            60..75 => self.end(),
            75..82 => self.read_at(),
            82..85 => self.advance(),
            85..87 => self.hold(),
            87..89 => self.release(),
            89..92 => self.store.db().flush_all().unwrap(),
            92..94 => self.compact_some(),
            94 => match self.rng.bool() {
                true => self.store.drop_old_versions().unwrap(),
                false => drop(self.store.sweep().unwrap()),
            },
            95..98 => {
                let by = [1, 50, -20, 3_600_000, -3_600_000][self.rng.usize(..5)];
                self.place.clock.jump_ms(by);
            }
            // All locks of transactions that were stopped expire.
            98 if self.rng.bool() => self.place.clock.advance(TTL + Duration::from_secs(1)),
            98 => self.read_snapshots(),
            _ => self.reopen(),
        }
    }

    fn begin(&mut self) {
        if self.open.len() < 4 {
            let transaction = self.store.begin();
            assert!(transaction.start() >= self.acknowledged);
            self.open.push(Open {
                transaction,
                writes: BTreeMap::new(),
            });
        }
    }

    fn write(&mut self) {
        let (key, value, what) = (self.key(), self.value(), self.rng.u32(..10));
        if self.open.is_empty() {
            self.begin();
        }
        let n = self.rng.usize(..self.open.len());
        let open = &mut self.open[n];
        match what {
            0..6 => {
                open.transaction.put(&key, &value);
                open.writes.insert(key, Write::Set(Some(value)));
            }
            6..8 => {
                open.transaction.delete(&key);
                open.writes.insert(key, Write::Set(None));
            }
            _ => {
                open.transaction.lock(&key);
                open.writes.entry(key).or_insert(Write::Lock);
            }
        }
    }

    fn end(&mut self) {
        if self.open.is_empty() {
            return;
        }
        let open = self.open.swap_remove(self.rng.usize(..self.open.len()));
        if self.rng.u32(..10) == 0 {
            return open.transaction.rollback();
        }
        let start = open.transaction.start();
        let mut keys = open.writes.keys();
        let expected = keys.any(|key| self.model.is_newer(key, start));
        let keys: Vec<_> = open.writes.keys().cloned().collect();
        match self.commit(open.transaction, keys) {
            Ok(Some(commit)) => {
                assert!(!expected, "a conflict was overlooked");
                assert!(open.writes.is_empty() || commit > self.acknowledged);
                for (key, write) in open.writes {
                    self.model.write(key, commit, write);
                }
                self.acknowledged = self.acknowledged.max(commit);
                self.known.push(commit);
                self.known.push(Timestamp(commit.0 - 1));
            }
            Ok(None) => assert!(!expected, "a conflict was overlooked"),
            Err(Error::Conflict { key, committed, .. }) => {
                assert!(self.model.is_newer(&key, start), "{committed}");
                self.conflicts += 1;
            }
            Err(Error::KeyIsLocked(lock)) => {
                let is_killed = self.killed.iter().any(|(start, keys)| {
                    *start == lock.start && keys.iter().any(|key| *key == lock.key)
                });
                assert!(is_killed, "{lock:?}");
                self.blocked += 1;
            }
            Err(e) => panic!("{e}"),
        }
    }

    /// Commits a transaction, or stops in the middle. Returns when it committed, if it did.
    fn commit(
        &mut self,
        transaction: Transaction,
        keys: Vec<Vec<u8>>,
    ) -> Result<Option<Timestamp>> {
        let stop = self.rng.u32(..10);
        if stop > 2 || keys.is_empty() {
            return transaction.commit().map(Some);
        }
        let prewritten = transaction.prewrite()?;
        match (stop, prewritten.committed()) {
            // An async commit has committed then.
            (0, Some(commit)) => Ok(Some(commit)),
            (0, None) => {
                self.killed.push((prewritten.start(), keys));
                Ok(None)
            }
            // The locks of the secondary keys stay.
            (1, _) => Ok(Some(prewritten.commit_primary()?.timestamp())),
            (_, Some(_)) => prewritten.commit().map(Some),
            (_, None) => {
                prewritten.rollback();
                Ok(None)
            }
        }
    }

    fn bounds(&mut self) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
        let from = self.rng.bool().then(|| self.key());
        let to = self.rng.bool().then(|| self.key());
        (from, to)
    }

    fn read_in_transaction(&mut self) {
        if self.open.is_empty() {
            return;
        }
        let n = self.rng.usize(..self.open.len());
        let (from, to) = self.bounds();
        let open = &self.open[n];
        let expected = open.rows(&self.model);
        let transaction = &open.transaction;
        check(
            &expected,
            &from,
            &to,
            |keys| transaction.batch_get(keys),
            |from, to, direction| Ok(transaction.scan(from, to, direction)?.collect()),
        );
    }

    fn check_snapshot(&mut self, snapshot: &Snapshot) {
        let (from, to) = self.bounds();
        let expected = self.model.rows(snapshot.timestamp());
        check(
            &expected,
            &from,
            &to,
            |keys| snapshot.batch_get(keys),
            |from, to, direction| Ok(snapshot.scan(from, to, direction)?.collect()),
        );
    }

    fn some_timestamp(&mut self) -> Timestamp {
        match self.known.len() {
            0 => self.store.oracle().next().unwrap(),
            n => self.known[self.rng.usize(..n)],
        }
    }

    fn read_at(&mut self) {
        let at = self.some_timestamp();
        match self.store.snapshot_at(at) {
            Ok(snapshot) => {
                assert!(at >= self.safe_point);
                self.check_snapshot(&snapshot);
                if self.rng.u32(..4) == 0 && self.snapshots.len() < 3 {
                    self.snapshots.push(snapshot);
                }
            }
            Err(Error::BeforeSafePoint { asked, safe_point }) => {
                assert!(at < self.safe_point);
                assert_eq!((asked, safe_point), (at, self.safe_point));
                self.refused += 1;
            }
            Err(e) => panic!("{e}"),
        }
    }

    fn read_snapshots(&mut self) {
        for snapshot in self.snapshots.clone() {
            self.check_snapshot(&snapshot);
        }
    }

    fn advance(&mut self) {
        let to = match self.rng.bool() {
            true => self.store.now(),
            false => self.some_timestamp(),
        };
        let starts = self.open.iter().map(|open| open.transaction.start());
        let snapshots = self.snapshots.iter().map(Snapshot::timestamp);
        let holds = self.holds.iter().map(Hold::timestamp);
        let oldest = starts
            .chain(snapshots)
            .chain(holds)
            .chain([to])
            .min()
            .unwrap();
        match self.store.advance_safe_point(to) {
            Ok(safe_point) => {
                match self.killed.is_empty() {
                    true => assert_eq!(safe_point, oldest),
                    // Locks that have not expired keep it back too.
                    false => assert!(safe_point <= oldest && safe_point >= self.safe_point),
                }
                self.safe_point = safe_point;
            }
            Err(Error::SafePointBackwards { .. }) => assert!(to < self.safe_point),
            Err(Error::InFuture { .. }) => assert!(to > self.store.now()),
            Err(e) => panic!("{e}"),
        }
        assert_eq!(self.store.safe_point(), self.safe_point);
    }

    fn hold(&mut self) {
        let at = self.some_timestamp();
        match self.store.hold("test", at) {
            Ok(hold) => self.holds.push(hold),
            Err(_) => assert!(at < self.safe_point),
        }
    }

    fn release(&mut self) {
        self.holds.pop();
        self.snapshots.pop();
    }

    /// Compacts a part of the tables, so that versions of one key come apart.
    fn compact_some(&mut self) {
        let versions = self.store.db().column_family("versions").unwrap();
        let mut entries = versions.iter(&ReadOptions::default()).unwrap();
        let mut keys = BTreeSet::new();
        entries.seek_to_first().unwrap();
        while entries.valid() {
            keys.insert(entries.key().to_vec());
            entries.next().unwrap();
        }
        let keys = Vec::from_iter(keys);
        if !keys.is_empty() {
            let key = &keys[self.rng.usize(..keys.len())];
            let options = titan::CompactRangeOptions {
                force_bottommost: self.rng.bool(),
            };
            versions
                .compact_range(Some(key), Some(key), &options)
                .unwrap();
        }
    }

    fn reopen(&mut self) {
        self.open.clear();
        self.snapshots.clear();
        self.holds.clear();
        self.store.close().unwrap();
        let options = &self.place.options;
        self.store = Store::open(DIR, options).unwrap();
        assert!(self.store.now() > self.acknowledged);
        assert_eq!(self.store.safe_point(), self.safe_point);
    }

    fn finish(&mut self) {
        self.read_snapshots();
        self.reopen();
        self.place.clock.advance(TTL + Duration::from_secs(1));
        // The safe point is in the middle of the history in half of the runs.
        self.advance();
        let snapshot = self.store.snapshot();
        self.check_snapshot(&snapshot);
        drop(snapshot);
        self.store.drop_old_versions().unwrap();
        let needed = self.model.needed(self.safe_point);
        let killed = self
            .killed
            .iter()
            .filter(|(start, _)| *start > self.safe_point);
        let rollbacks: usize = killed.map(|(_, keys)| keys.len()).sum();
        let stored = stored_versions(&self.store);
        let locks = self.store.percolator().scan_locks(Timestamp::MAX, b"", 999);
        let replaced = self.model.replaced(self.safe_point);
        let possible = needed - locks.len() - replaced..=needed + rollbacks;
        assert!(possible.contains(&stored), "{stored} not in {possible:?}");
        let snapshot = self.store.snapshot();
        self.check_snapshot(&snapshot);
        self.store.advance_safe_point(self.store.now()).unwrap();
        let locks = self.store.percolator().scan_locks(Timestamp::MAX, b"", 1);
        assert_eq!(locks, []);
        self.check_snapshot(&snapshot);
    }
}

/// Compares points and scans in both directions with what is expected.
fn check(
    expected: &BTreeMap<Vec<u8>, Vec<u8>>,
    from: &Option<Vec<u8>>,
    to: &Option<Vec<u8>>,
    batch_get: impl Fn(&[Vec<u8>]) -> Result<Vec<Option<bytes::Bytes>>>,
    scan: impl Fn(Option<&[u8]>, Option<&[u8]>, Direction) -> Result<Vec<Result<Row>>>,
) {
    let keys: Vec<Vec<u8>> = expected
        .keys()
        .cloned()
        .chain([b"a".to_vec(), b"zz".to_vec()])
        .collect();
    for (key, found) in keys.iter().zip(batch_get(&keys).unwrap()) {
        assert_eq!(
            found.as_deref(),
            expected.get(key).map(Vec::as_slice),
            "{key:?}"
        );
    }
    let is_within = |key: &Vec<u8>| {
        from.as_ref().is_none_or(|from| key >= from) && to.as_ref().is_none_or(|to| key < to)
    };
    let mut rows: Vec<_> = expected
        .iter()
        .filter(|(key, _)| is_within(key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    for direction in [Direction::Forward, Direction::Backward] {
        let found = scan(from.as_deref(), to.as_deref(), direction).unwrap();
        let found: Vec<_> = found
            .into_iter()
            .map(|row| row.unwrap())
            .map(|row| (row.key, row.value.fetch().unwrap().to_vec()))
            .collect();
        assert_eq!(found, rows, "{direction:?} from {from:?} to {to:?}");
        rows.reverse();
    }
}

#[test]
fn random_histories_are_as_the_model_says() {
    let mut seen = [0; 3];
    for seed in seeds(40) {
        let run = std::panic::catch_unwind(|| {
            let mut world = World::new(seed);
            for _ in 0..600 {
                world.step();
            }
            world.finish();
            [world.conflicts, world.refused, world.blocked]
        });
        let more = run.unwrap_or_else(|_| panic!("seed {seed}"));
        seen.iter_mut()
            .zip(more)
            .for_each(|(sum, more)| *sum += more);
    }
    // Otherwise the histories would not have tested much.
    assert!(seen.iter().all(|it| *it > 100), "{seen:?}");
}
