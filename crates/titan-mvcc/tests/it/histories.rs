//! Histories of several threads, checked for snapshot isolation.
//!
//! Threads run transactions of all sorts on a few keys: optimistic and pessimistic, in one batch
//! and in two phases, with and without async commit. Some are killed between the phases, and some
//! give others up whose time is over, because a thread lets time jump. A snapshot sees every commit
//! that was acknowledged before it began.

use std::collections::BTreeMap;
use std::time::Duration;

use titan_mvcc::{Direction, Error, Result, Snapshot, Store, Timestamp, Transaction};
use titan_testkit::versions::isolation::{Change, Content, History};

use super::setup::{Place, seeds};

const KEYS: u8 = 8;
const TTL: Duration = Duration::from_secs(1_000_000);

/// The writes of a transaction by key: `None` locks one.
type Writes = BTreeMap<u8, Option<Content>>;

fn content_of(bytes: Option<bytes::Bytes>) -> Content {
    bytes.map(|bytes| u64::from_be_bytes(bytes[..8].try_into().unwrap()))
}

struct Client<'a> {
    rng: fastrand::Rng,
    place: &'a Place,
    store: &'a Store,
    history: &'a History,
    /// True if some are killed and time jumps. Otherwise they wait for each other.
    has_deaths: bool,
}

impl Client<'_> {
    fn run(&mut self) {
        for _ in 0..150 {
            match self.rng.u32(..40) {
                0 if self.has_deaths => self.place.clock.advance(TTL + Duration::from_secs(1)),
                1 => self.advance_safe_point(),
                2..8 => self.read_only(),
                8..16 => self.pessimistic(),
                _ => self.optimistic(),
            }
        }
    }

    fn advance_safe_point(&self) {
        match self.store.advance_safe_point(self.store.now()) {
            Ok(_) | Err(Error::SafePointBackwards { .. }) => {}
            Err(e) => panic!("{e}"),
        }
    }

    fn read_only(&mut self) {
        let acknowledged = self.history.last_acknowledged();
        let snapshot = match self.rng.bool() {
            true => self.store.snapshot(),
            false => {
                let now = self.store.oracle().next().unwrap();
                match self.store.snapshot_at(now) {
                    Err(Error::BeforeSafePoint { .. }) => return,
                    snapshot => snapshot.unwrap(),
                }
            }
        };
        assert!(snapshot.timestamp().0 >= acknowledged);
        // The same for ever: it is checked against the same commits each time.
        for _ in 0..2 {
            self.read_all(&snapshot);
        }
    }

    fn read_all(&mut self, snapshot: &Snapshot) {
        let direction = match self.rng.bool() {
            true => Direction::Forward,
            false => Direction::Backward,
        };
        let rows = snapshot.scan(None, None, direction).unwrap();
        let found: BTreeMap<u8, Content> = rows
            .map(|row| row.unwrap())
            .map(|row| (row.key[0], content_of(Some(row.value.fetch().unwrap()))))
            .collect();
        for key in 0..KEYS {
            let content = found.get(&key).copied().flatten();
            self.history.read(snapshot.timestamp().0, key, content);
        }
    }

    fn read(&self, at: Timestamp, key: u8, found: Option<bytes::Bytes>) {
        self.history.read(at.0, key, content_of(found));
    }

    /// A key, and what to do to it.
    fn write(&mut self) -> (u8, Option<Content>) {
        let key = self.rng.u8(..KEYS);
        let value = self.history.new_value();
        let write = match self.rng.u32(..5) {
            0 => None,
            1 => Some(None),
            _ => Some(Some(value)),
        };
        (key, write)
    }

    fn bytes(&mut self, value: u64) -> Vec<u8> {
        let mut bytes = value.to_be_bytes().to_vec();
        bytes.resize(8 + self.rng.usize(..60), 0);
        bytes
    }

    fn optimistic(&mut self) {
        let mut transaction = self.store.begin();
        let start = transaction.start();
        let mut writes = Writes::new();
        for _ in 0..self.rng.usize(1..5) {
            let (key, write) = self.write();
            if !writes.contains_key(&key) {
                self.read(start, key, transaction.get(&[key]).unwrap());
            }
            match write {
                None => transaction.lock(&[key]),
                Some(None) => transaction.delete(&[key]),
                Some(Some(value)) => transaction.put(&[key], &self.bytes(value)),
            }
            let before = writes.entry(key).or_insert(write);
            *before = write.or(*before);
        }
        if let Some(commit) = self.commit(transaction) {
            self.committed(start, commit, writes);
        }
    }

    /// Commits, or is killed on the way. Returns when it committed.
    fn commit(&mut self, transaction: Transaction) -> Option<Timestamp> {
        let prewritten = match self.rng.bool() {
            true => return self.outcome(transaction.commit()),
            false => match transaction.prewrite() {
                Ok(prewritten) => prewritten,
                Err(e) => return self.outcome(Err(e)),
            },
        };
        match self.rng.u32(..8) {
            0 | 1 if !self.has_deaths => self.outcome(prewritten.commit()),
            0 => prewritten.committed(),
            1 => {
                let committed = prewritten.commit_primary();
                self.outcome(committed.map(|it| it.timestamp()))
            }
            2 if prewritten.committed().is_none() => {
                prewritten.rollback();
                None
            }
            _ => self.outcome(prewritten.commit()),
        }
    }

    fn outcome(&self, result: Result<Timestamp>) -> Option<Timestamp> {
        match result {
            Ok(commit) => Some(commit),
            Err(
                Error::Conflict { .. }
                | Error::KeyIsLocked(_)
                | Error::Deadlock { .. }
                | Error::RolledBack { .. }
                | Error::PessimisticLockNotFound { .. },
            ) => None,
            Err(e) => panic!("{e}"),
        }
    }

    fn pessimistic(&mut self) {
        let mut transaction = self.store.begin_pessimistic().unwrap();
        let mut writes = Writes::new();
        // It has the timestamp of the snapshot of a transaction that reads nothing for update.
        let mut start = None;
        for _ in 0..self.rng.usize(1..4) {
            let (key, write) = self.write();
            let done = match write {
                None => transaction.lock(&[key]),
                Some(None) => transaction.delete(&[key]),
                Some(Some(value)) => transaction.put(&[key], &self.bytes(value)),
            };
            if self.outcome(done.map(|()| Timestamp::ZERO)).is_none() {
                return;
            }
            let before = writes.entry(key).or_insert(write);
            *before = write.or(*before);
            start.get_or_insert(transaction.snapshot());
        }
        if self.has_deaths && self.rng.u32(..6) == 0 {
            return transaction.abandon();
        }
        let (Some(start), Some(commit)) = (start, self.outcome(transaction.commit())) else {
            return;
        };
        self.committed(start, commit, writes);
    }

    fn committed(&self, start: Timestamp, commit: Timestamp, writes: Writes) {
        let since = start.0;
        let changes = writes.into_iter();
        let changes = changes.map(|(key, content)| (key, Change { since, content }));
        self.history.acknowledged(commit.0, changes.collect());
    }
}

/// Runs a history. Returns how many transactions committed.
fn run(seed: u64, has_deaths: bool) -> usize {
    let mut place = Place::new(seed);
    let mut rng = fastrand::Rng::with_seed(seed);
    let transactions = &mut place.options.transactions;
    transactions.one_batch_bytes = [0, 60, 1 << 20][rng.usize(..3)];
    transactions.async_commit = rng.bool();
    transactions.lock_ttl = TTL;
    transactions.lock_wait = Duration::ZERO;
    if !has_deaths {
        // With a clock that follows real time, threads wait for each other, and deadlocks are
        // found.
        transactions.lock_wait = Duration::from_secs(600);
        place.options.db.clock = titan::DbOptions::default().clock;
    }
    place.options.versions.min_blob_size = [0, 30, 4096][rng.usize(..3)];
    place.options.versions.write_buffer_size = 64 << 10;
    let store = place.open();
    let history = History::default();
    std::thread::scope(|scope| {
        for n in 0..3 {
            let mut client = Client {
                rng: fastrand::Rng::with_seed(seed * 10 + n),
                place: &place,
                store: &store,
                history: &history,
                has_deaths,
            };
            scope.spawn(move || client.run());
        }
    });
    // Nobody is left whose locks cannot be resolved, and what is there then is what was committed.
    place.clock.advance(TTL + Duration::from_secs(1));
    super::setup::put(&store, b"last", b"\0\0\0\0\0\0\0\0");
    store.advance_safe_point(store.now()).unwrap();
    let locks = store.percolator().scan_locks(Timestamp::MAX, b"", 9);
    assert_eq!(locks, []);
    let snapshot = store.snapshot();
    for key in 0..KEYS {
        let found = content_of(snapshot.get(&[key]).unwrap());
        history.read(snapshot.timestamp().0, key, found);
    }
    history.check().unwrap()
}

fn run_all(usual: u64, has_deaths: bool) {
    let runs = seeds(usual).map(|seed| {
        let run = std::panic::catch_unwind(|| run(seed, has_deaths));
        run.unwrap_or_else(|_| panic!("seed {seed}"))
    });
    let committed: usize = runs.sum();
    assert!(committed > 1000, "{committed}");
}

#[test]
fn histories_of_all_sorts_of_transactions_are_snapshot_isolated() {
    run_all(24, true);
}

#[test]
fn histories_of_transactions_that_wait_for_each_other_are_snapshot_isolated() {
    run_all(12, false);
}
