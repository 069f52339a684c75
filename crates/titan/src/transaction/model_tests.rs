//! Random schedules of several transactions and of plain writes, on one thread: every result is
//! that of a model. `TITAN_TRANSACTION_STEPS` sets the number of steps, 1,000,000 in the long form.
//!
//! The model has the contents after each write. A transaction commits if and only if no key that it
//! touched was written since it had to be unchanged; so no write is lost, and none is refused
//! without need. Reads see the contents of one moment and the transaction's own writes: no dirty
//! read and no read skew. Keys that transactions guard cannot have changed by their commit: no
//! write skew.

mod locks;
mod others;
mod scans;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::vfs::MemoryVfs;
use crate::{
    ColumnFamily, ColumnFamilyOptions, Db, DbOptions, Error, ErrorKind, LockOptions, Options,
    Result, Transaction, TransactionOptions, TransactionSnapshot,
};
use locks::Locks;
use scans::Scan;

/// Keys of a family. Those from `SINGLE` on are only ever put and single-deleted in turn.
const KEYS: u8 = 14;
const SINGLE: u8 = 11;
/// Transactions open at the same time.
const OPEN: usize = 5;

type Key = (usize, u8);
type Contents = BTreeMap<Key, u32>;

/// A key that a transaction touched.
#[derive(Clone, Copy)]
struct Touched {
    since: usize,
    reads: u32,
    writes: u32,
}

/// State to which a transaction can go back.
#[derive(Clone, Default)]
struct Progress {
    own: BTreeMap<Key, Option<u32>>,
    touched: BTreeMap<Key, Touched>,
}

/// A transaction, and the model's knowledge of it.
struct Open {
    transaction: Transaction,
    id: usize,
    options: TransactionOptions,
    snapshot: Option<usize>,
    now: Progress,
    save_points: Vec<Progress>,
    scan: Option<Scan>,
}

struct World {
    db: Db,
    families: [ColumnFamily; 2],
    rng: fastrand::Rng,
    /// The contents after each write.
    history: Vec<Contents>,
    last_write: BTreeMap<Key, usize>,
    locks: Locks,
    open: Vec<Open>,
    transactions: usize,
    next_value: u32,
    commits: usize,
    conflicts: usize,
}

fn encode(value: u32) -> Vec<u8> {
    let mut bytes = value.to_string().into_bytes();
    if value.is_multiple_of(4) {
        bytes.resize(40, b'.');
    }
    bytes
}

fn decode(bytes: &[u8]) -> u32 {
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    text.trim_end_matches('.').parse().unwrap()
}

impl World {
    fn new(seed: u64) -> Self {
        let default = ColumnFamilyOptions {
            disable_auto_compactions: true,
            enable_blob_garbage_collection: false,
            min_blob_size: 30,
            ..ColumnFamilyOptions::default()
        };
        let options = Options {
            db: DbOptions {
                vfs: Arc::new(MemoryVfs::default()),
                ..DbOptions::default()
            },
            default: default.clone(),
            ..Options::default()
        };
        let db = Db::open("/db", &options).unwrap();
        let second = db.create_column_family("second", default).unwrap();
        World {
            families: [(*db).clone(), second],
            db,
            rng: fastrand::Rng::with_seed(seed),
            history: vec![Contents::new()],
            last_write: BTreeMap::new(),
            locks: Locks::default(),
            open: Vec::new(),
            transactions: 0,
            next_value: 0,
            commits: 0,
            conflicts: 0,
        }
    }

    fn time(&self) -> usize {
        self.history.len() - 1
    }

    fn current(&self) -> &Contents {
        &self.history[self.time()]
    }

    /// Notes a write of these keys.
    fn wrote(&mut self, writes: impl IntoIterator<Item = (Key, Option<u32>)>) {
        let mut contents = self.current().clone();
        let time = self.history.len();
        for (key, value) in writes {
            match value {
                Some(value) => contents.insert(key, value),
                None => contents.remove(&key),
            };
            self.last_write.insert(key, time);
        }
        self.history.push(contents);
        // Contents that no transaction reads any more are not needed.
        if time.is_multiple_of(256) {
            let oldest = self.open.iter().filter_map(|t| t.snapshot).min();
            for at in 0..oldest.unwrap_or(time) {
                self.history[at].clear();
            }
        }
    }

    fn key(&mut self) -> Key {
        (self.rng.usize(..2), self.rng.u8(..KEYS))
    }

    fn plain_key(&mut self) -> Key {
        (self.rng.usize(..2), self.rng.u8(..SINGLE))
    }

    fn value(&mut self) -> u32 {
        self.next_value += 1;
        self.next_value
    }

    /// Value of a key for a transaction.
    fn seen(&self, at: usize, key: Key) -> Option<u32> {
        let t = &self.open[at];
        match t.now.own.get(&key) {
            Some(own) => *own,
            None => self.history[t.snapshot.unwrap_or(self.time())]
                .get(&key)
                .copied(),
        }
    }

    /// The first use of a transaction takes its snapshot.
    fn used(&mut self, at: usize) {
        let time = self.time();
        let t = &mut self.open[at];
        if t.options.snapshot == TransactionSnapshot::AtFirstUse {
            t.snapshot.get_or_insert(time);
        }
    }

    /// Touches a key in the model. Returns the error that the call must have.
    fn touch(&mut self, at: usize, key: Key, exclusive: bool, write: bool) -> Option<ErrorKind> {
        let pessimistic = self.open[at].options.locks.is_some();
        let id = self.open[at].id;
        let had = self.open[at].now.touched.contains_key(&key);
        if pessimistic && !self.locks.acquire(id, key, exclusive) {
            return Some(ErrorKind::LockTimeout);
        }
        self.used(at);
        let time = self.time();
        let last = self.last_write.get(&key).copied().unwrap_or(0);
        let t = &mut self.open[at];
        let since = t.snapshot.unwrap_or(time);
        if pessimistic && !had && last > since {
            self.locks.release(id, key);
            return Some(ErrorKind::Conflict);
        }
        let touched = t.now.touched.entry(key).or_insert(Touched {
            since,
            reads: 0,
            writes: 0,
        });
        match write {
            true => touched.writes += 1,
            false => touched.reads += 1,
        }
        None
    }

    fn begin(&mut self) {
        let snapshot = match self.rng.u8(..3) {
            0 => TransactionSnapshot::AtBegin,
            1 => TransactionSnapshot::AtFirstUse,
            _ => TransactionSnapshot::None,
        };
        let locks = self.rng.bool().then(|| LockOptions {
            timeout: Some(Duration::ZERO),
            ..LockOptions::default()
        });
        let options = TransactionOptions {
            locks,
            snapshot,
            ..TransactionOptions::default()
        };
        self.transactions += 1;
        self.open.push(Open {
            transaction: self.db.begin(&options).unwrap(),
            id: self.transactions,
            options,
            snapshot: (snapshot == TransactionSnapshot::AtBegin).then(|| self.time()),
            now: Progress::default(),
            save_points: Vec::new(),
            scan: None,
        });
    }

    /// Forgets a transaction, whose locks are released.
    fn end(&mut self, at: usize) -> Open {
        let t = self.open.swap_remove(at);
        for key in t.now.touched.keys() {
            self.locks.release(t.id, *key);
        }
        t
    }

    fn commit(&mut self, at: usize) {
        let t = self.end(at);
        let changed = |(key, touched): (&Key, &Touched)| {
            self.last_write
                .get(key)
                .is_some_and(|last| *last > touched.since)
        };
        let conflict = t.now.touched.iter().any(changed);
        let result = t.transaction.commit();
        self.commits += 1;
        if conflict {
            self.conflicts += 1;
            assert_eq!(result.unwrap_err().kind(), ErrorKind::Conflict);
            return;
        }
        result.unwrap();
        if !t.now.own.is_empty() {
            self.wrote(t.now.own);
        }
    }

    fn step_of_transaction(&mut self) {
        let at = self.rng.usize(..self.open.len());
        let key = self.key();
        let family = self.families[key.0].clone();
        let bytes = [key.1];
        let dice = self.rng.u8(..100);
        match dice {
            0..=13 => {
                self.used(at);
                let expected = self.seen(at, key);
                let found = self.open[at].transaction.get(&family, bytes).unwrap();
                assert_eq!(found.map(|v| decode(&v)), expected, "{key:?}");
            }
            14..=17 => {
                self.used(at);
                let keys: Vec<[u8; 1]> = (0..KEYS).map(|key| [key]).collect();
                let found = self.open[at].transaction.multi_get(&family, &keys);
                for (key1, found) in (0..KEYS).zip(found) {
                    let expected = self.seen(at, (key.0, key1));
                    assert_eq!(found.unwrap().map(|v| decode(&v)), expected);
                }
            }
            18..=37 => self.guarded_read(at, key, &family, dice % 3),
            38..=61 => self.write(at, key, &family),
            62..=66 => {
                let transaction = &self.open[at].transaction;
                transaction.undo_get_for_update(&family, bytes).unwrap();
                self.undo(at, key);
            }
            67..=70 => {
                let t = &mut self.open[at];
                t.transaction.set_save_point();
                t.save_points.push(t.now.clone());
            }
            71..=74 => {
                let t = &mut self.open[at];
                let rolled_back = t.transaction.rollback_to_save_point();
                let point = t.save_points.pop();
                assert_eq!(rolled_back.is_ok(), point.is_some());
                if let Some(point) = point {
                    let (id, before) = (t.id, std::mem::replace(&mut t.now, point));
                    let kept = &t.now.touched;
                    let gone = before.touched.keys().filter(|key| !kept.contains_key(key));
                    for key in gone {
                        self.locks.release(id, *key);
                    }
                }
            }
            75 | 76 => {
                let t = &mut self.open[at];
                let popped = t.transaction.pop_save_point();
                assert_eq!(popped.is_ok(), t.save_points.pop().is_some());
            }
            77..=82 => self.scan(at, key.0, &family),
            83..=86 => self.step_iterator(at),
            87..=95 => self.commit(at),
            _ => self.end(at).transaction.rollback(),
        }
    }

    fn guarded_read(&mut self, at: usize, key: Key, family: &ColumnFamily, how: u8) {
        let expected = self.touch(at, key, how == 0, false);
        let t = &self.open[at].transaction;
        let found = match how {
            0 => t.get_for_update(family, [key.1]),
            1 => t.get_for_share(family, [key.1]),
            _ => t.guard(family, [key.1]).map(|()| None),
        };
        assert_eq!(found.as_ref().err().map(Error::kind), expected, "{key:?}");
        if let (Ok(found), true) = (found, how < 2) {
            assert_eq!(found.map(|v| decode(&v)), self.seen(at, key), "{key:?}");
        }
    }

    fn write(&mut self, at: usize, key: Key, family: &ColumnFamily) {
        let value = self.value();
        let single = key.1 >= SINGLE;
        if single {
            // The transaction must know whether the key has a value, and nobody may change that.
            let expected = self.touch(at, key, true, false);
            let locked = self.open[at].transaction.get_for_update(family, [key.1]);
            assert_eq!(locked.err().map(|e| e.kind()), expected);
            let writes_twice = self.open[at].now.own.contains_key(&key);
            if expected.is_some() || writes_twice {
                return;
            }
            let since = self.open[at].now.touched[&key].since;
            if self.last_write.get(&key).is_some_and(|last| *last > since) {
                return;
            }
        }
        let removes = match single {
            true => self.seen(at, key).is_some(),
            false => self.rng.u8(..3) == 0,
        };
        let expected = self.touch(at, key, true, true);
        let t = &mut self.open[at];
        let written = match (removes, single) {
            (true, true) => t.transaction.single_delete(family, [key.1]),
            (true, false) => t.transaction.delete(family, [key.1]),
            (false, _) => t.transaction.put(family, [key.1], encode(value)),
        };
        assert_eq!(written.err().map(|e| e.kind()), expected, "{key:?}");
        if expected.is_none() {
            t.now.own.insert(key, (!removes).then_some(value));
        }
    }

    fn undo(&mut self, at: usize, key: Key) {
        let t = &mut self.open[at];
        let point = t.save_points.last();
        let before = point.is_some_and(|point| point.touched.contains_key(&key));
        let Some(touched) = t.now.touched.get_mut(&key) else {
            return;
        };
        let Some(reads) = touched.reads.checked_sub(1) else {
            return;
        };
        touched.reads = reads;
        if reads == 0 && touched.writes == 0 && !before {
            t.now.touched.remove(&key);
            self.locks.release(t.id, key);
        }
    }

    fn run(&mut self, steps: usize) {
        for _ in 0..steps {
            match self.rng.u16(..400) {
                0..=1 => self.move_entries(),
                2..=40 if self.open.len() < OPEN => self.begin(),
                41..=110 => self.step_of_others(),
                _ if self.open.is_empty() => self.begin(),
                _ => self.step_of_transaction(),
            }
        }
        while !self.open.is_empty() {
            self.commit(0);
        }
        for (index, family) in self.families.iter().enumerate() {
            for key in 0..KEYS {
                let found = family.get(&[key]).unwrap().map(|v| decode(&v));
                let expected = self.current().get(&(index, key)).copied();
                assert_eq!(found, expected);
            }
        }
        assert_eq!(self.db.locks().len(), 0);
        assert_eq!(self.db.metrics().snapshots, 0);
        assert!(self.locks.is_empty());
    }
}

/// Says which seed has failed, if one does.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("seed {}", self.0);
        }
    }
}

fn steps() -> Result<usize, std::num::ParseIntError> {
    let stated = std::env::var("TITAN_TRANSACTION_STEPS");
    stated.map_or(Ok(40_000), |steps| steps.parse())
}

#[test]
fn random_schedules_give_what_a_model_says() {
    let seeds = 20;
    let (mut commits, mut conflicts) = (0, 0);
    for seed in 0..seeds {
        let _seed = Seed(seed);
        let mut world = World::new(seed);
        world.run(steps().unwrap() / seeds as usize);
        commits += world.commits;
        conflicts += world.conflicts;
    }
    println!("{commits} commits, {conflicts} conflicts");
    assert!(
        conflicts * 10 > commits && conflicts * 10 < commits * 9,
        "{conflicts} of {commits}"
    );
}
