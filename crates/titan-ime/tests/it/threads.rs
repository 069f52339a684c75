//! Writers, readers, loads, maintenance and an auditor at once.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use titan_ime::{Error, Progress};
use titan_mvcc::{Direction, Error as StoreError};

use super::place::{Place, rows, seeds};

const ACCOUNTS: u32 = 64;
const EACH: u64 = 100;

/// Ends the other threads also when one panics.
struct EndsAll<'a>(&'a AtomicBool);

impl Drop for EndsAll<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn amount(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes[..8].try_into().unwrap())
}

/// Moves money between accounts, so every reader finds the same sum; the values have several sizes.
fn transfer(store: &titan_mvcc::Store, rng: &mut fastrand::Rng) {
    let mut transaction = store.begin();
    let (from, to) = (rng.u32(..ACCOUNTS), rng.u32(..ACCOUNTS));
    let of = |transaction: &titan_mvcc::Transaction, account: u32| {
        let value = transaction.get(&account.to_be_bytes()).unwrap();
        value.map_or(0, |value| amount(&value))
    };
    let (a, b) = (of(&transaction, from), of(&transaction, to));
    if from == to || a == 0 {
        return;
    }
    let moved = rng.u64(1..=a);
    for (account, amount) in [(from, a - moved), (to, b + moved)] {
        let key = account.to_be_bytes();
        match amount {
            0 => transaction.delete(&key),
            amount => {
                let mut value = amount.to_be_bytes().to_vec();
                value.resize([8, 100, 400][rng.usize(..3)], 0);
                transaction.put(&key, &value);
            }
        }
    }
    match transaction.commit() {
        // Time passes while others wait for a lock, so one may be taken for abandoned.
        Ok(_)
        | Err(
            StoreError::Conflict { .. }
            | StoreError::RolledBack { .. }
            | StoreError::KeyIsLocked(_),
        ) => {}
        Err(e) => panic!("{e}"),
    }
}

#[test]
fn sums_hold_and_memory_is_as_the_engine_while_everything_happens_at_once() {
    for seed in seeds(6) {
        let mut place = Place::new(seed);
        place.cache.segment_size = [1_000, 256 << 10][(seed % 2) as usize];
        place.store.versions.write_buffer_size = 64 << 10;
        // Some commit in two phases, so that readers meet locks.
        place.store.transactions.one_batch_bytes = [16 << 20, 0][(seed / 2 % 2) as usize];
        let cache = place.open();
        let store = cache.store();
        let mut transaction = store.begin();
        for account in 0..ACCOUNTS {
            transaction.put(&account.to_be_bytes(), &EACH.to_be_bytes());
        }
        transaction.commit().unwrap();
        let end = AtomicBool::new(false);
        let audited = AtomicU64::new(0);
        let commits_to_go = AtomicU64::new(1_500);
        std::thread::scope(|scope| {
            let (cache, end) = (&cache, &end);
            for n in 0..2 {
                let mut rng = fastrand::Rng::with_seed(seed * 100 + n);
                let to_go = &commits_to_go;
                scope.spawn(move || {
                    let _ends = EndsAll(end);
                    while to_go.fetch_sub(1, Ordering::SeqCst) > 1 && !end.load(Ordering::SeqCst) {
                        transfer(store, &mut rng);
                    }
                });
            }
            for n in 2..4 {
                let mut rng = fastrand::Rng::with_seed(seed * 100 + n);
                scope.spawn(move || {
                    let _ends = EndsAll(end);
                    while !end.load(Ordering::SeqCst) {
                        let snapshot = store.snapshot();
                        let direction = [Direction::Forward, Direction::Backward][rng.usize(..2)];
                        let found = rows(&snapshot, None, None, direction);
                        let sum: u64 = found.iter().map(|(_, value)| amount(value)).sum();
                        assert_eq!(sum, EACH * u64::from(ACCOUNTS), "seed {seed}, {snapshot:?}");
                        for (key, value) in &found {
                            assert_eq!(
                                snapshot.get(key).unwrap().as_deref(),
                                Some(&**value),
                                "seed {seed}"
                            );
                        }
                    }
                });
            }
            let mut rng = fastrand::Rng::with_seed(seed * 100 + 5);
            scope.spawn(move || {
                let _ends = EndsAll(end);
                while !end.load(Ordering::SeqCst) {
                    let bound = |rng: &mut fastrand::Rng| {
                        rng.bool().then(|| rng.u32(..ACCOUNTS).to_be_bytes())
                    };
                    let (from, to) = (bound(&mut rng), bound(&mut rng));
                    let (from, to) = (from.as_ref().map(|b| &b[..]), to.as_ref().map(|b| &b[..]));
                    if let Ok(mut load) = cache.begin_load(from, to) {
                        let mut most = rng.usize(..12);
                        while most > 0 {
                            match load.step() {
                                Ok(Progress::Going) => most -= 1,
                                Ok(Progress::Done)
                                | Err(Error::Abandoned { .. } | Error::MemoryLimit { .. }) => break,
                                Err(e) => panic!("seed {seed}: {e}"),
                            }
                        }
                    }
                    match rng.usize(..6) {
                        0 => drop(cache.drop_range(from, to)),
                        1 => cache.set_memory_limit([2_000, 20_000][rng.usize(..2)]),
                        _ => cache.set_memory_limit(usize::MAX),
                    }
                }
            });
            scope.spawn(move || {
                let _ends = EndsAll(end);
                while !end.load(Ordering::SeqCst) {
                    cache.maintain();
                    std::thread::yield_now();
                }
            });
            let audited = &audited;
            scope.spawn(move || {
                let _ends = EndsAll(end);
                while !end.load(Ordering::SeqCst) {
                    let report = cache.audit().unwrap_or_else(|e| panic!("seed {seed}: {e}"));
                    audited.fetch_add(report.answers, Ordering::SeqCst);
                }
            });
        });
        let stats = cache.stats();
        assert!(
            stats.points.hits > 0 && stats.parts.hits > 0,
            "seed {seed}: {stats:?}"
        );
        assert!(
            stats.loads > 0 && audited.load(Ordering::SeqCst) > 0,
            "seed {seed}: {stats:?}"
        );
        cache.set_memory_limit(usize::MAX);
        cache.audit().unwrap();
        cache.drop_range(None, None);
        assert_eq!(cache.stats().memory_used, 0, "seed {seed}");
    }
}
