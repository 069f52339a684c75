//! Clients elsewhere that move sums between accounts in every way of the calls, and resolve the
//! locks that they meet as TiKV's clients do. Every reader finds the whole sum.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use titan_mvcc::{
    Demands, Direction, Error, KnownLocks, LockInfo, LockKind, Mutation, Percolator,
    PessimisticLock, Prewrite, Result, SecondariesStatus, StatusCheck, Store, Timestamp,
    TransactionStatus, Wait,
};

use super::accounts::{EACH, number, open_accounts, sum};
use super::setup::{Place, seeds};

const ACCOUNTS: u8 = 5;
const TTL: Duration = Duration::from_secs(1000);

/// One client, with its own choices.
struct Client<'s> {
    store: &'s Store,
    calls: Percolator,
    rng: fastrand::Rng,
    /// The client takes every lock that it meets for an expired one.
    is_impatient: bool,
}

impl<'s> Client<'s> {
    fn new(store: &'s Store, seed: u64) -> Self {
        Client {
            store,
            calls: store.percolator(),
            rng: fastrand::Rng::with_seed(seed),
            is_impatient: false,
        }
    }

    fn ts(&self) -> Timestamp {
        self.store.oracle().next().unwrap()
    }

    /// The status of the owner of a lock, for a reader at `at`. Ends the lock if the status is
    /// final. `None` for a transaction that goes on and may commit before the reader.
    fn resolve(&mut self, met: &LockInfo, at: Timestamp) -> Result<Option<TransactionStatus>> {
        let is_expired = self.is_impatient || self.rng.u8(..8) == 0;
        let mut check = StatusCheck {
            reader: at,
            now: if is_expired {
                Timestamp::MAX
            } else {
                self.ts()
            },
            roll_back_if_missing: is_expired,
            for_pessimistic: met.kind == LockKind::Pessimistic,
            ..StatusCheck::of(&met.primary, met.start)
        };
        loop {
            let status = match self.calls.check_status(&check) {
                Err(Error::TransactionNotFound { .. }) => return Ok(None),
                checked => checked?.status,
            };
            let (lock, is_pushed) = match status {
                Some(TransactionStatus::Running { lock, is_pushed }) => (lock, is_pushed),
                Some(TransactionStatus::Committed(commit)) => {
                    return self.ended(met, &[&met.key], Some(commit)).map(Some);
                }
                Some(TransactionStatus::RolledBack) => {
                    return self.ended(met, &[&met.key], None).map(Some);
                }
                None => {
                    let keys = [&met.key];
                    self.calls
                        .pessimistic_rollback(&keys, met.start, Timestamp::MAX)?;
                    return Ok(None);
                }
            };
            let Some(secondaries) = &lock.secondaries else {
                let running = TransactionStatus::Running { lock, is_pushed };
                return Ok(is_pushed.then_some(running));
            };
            if !is_expired {
                return Ok(None);
            }
            let mut keys: Vec<&Bytes> = secondaries.iter().collect();
            let status = self.calls.check_secondary_locks(&keys, met.start)?;
            keys.push(&lock.primary);
            match status {
                SecondariesStatus::Locked(locks) => {
                    if locks.iter().all(|lock| lock.secondaries.is_some()) {
                        let bounds = locks.iter().map(|lock| lock.min_commit);
                        let commit = bounds.fold(lock.min_commit, Timestamp::max);
                        return self.ended(met, &keys, Some(commit)).map(Some);
                    }
                    check.has_fallen_back = true;
                }
                SecondariesStatus::Committed(commit) => {
                    return self.ended(met, &keys, Some(commit)).map(Some);
                }
                SecondariesStatus::RolledBack => {
                    return self.ended(met, &keys, None).map(Some);
                }
            }
        }
    }

    /// Ends locks of a transaction whose status is final.
    fn ended(
        &self,
        met: &LockInfo,
        keys: &[&Bytes],
        commit: Option<Timestamp>,
    ) -> Result<TransactionStatus> {
        let keys: Vec<Bytes> = keys.iter().map(|key| (*key).clone()).collect();
        self.calls.resolve_lock(met.start, commit, Some(&keys))?;
        Ok(match commit {
            Some(commit) => TransactionStatus::Committed(commit),
            None => TransactionStatus::RolledBack,
        })
    }

    /// The sum of all accounts by a read that reports locks.
    fn sum(&mut self, at: Timestamp) -> u64 {
        let mut known = KnownLocks::default();
        'again: loop {
            let snapshot = self.store.snapshot_at(at).unwrap();
            let snapshot = snapshot.reporting_locks(known.clone());
            let mut sum = 0;
            for row in snapshot.scan(None, None, Direction::Forward).unwrap() {
                let met = match row {
                    Ok(row) => {
                        sum += number(Some(row.value.fetch().unwrap()));
                        continue;
                    }
                    Err(Error::KeyIsLocked(met)) => met,
                    Err(e) => panic!("{e}"),
                };
                match self.resolve(&met, at).unwrap() {
                    Some(TransactionStatus::Committed(commit)) if commit <= at => {
                        known.committed.push(met.start);
                    }
                    Some(_) => known.resolved.push(met.start),
                    None => std::thread::yield_now(),
                }
                continue 'again;
            }
            return sum;
        }
    }

    /// Moves a sum between two accounts. A transaction that fails is rolled back.
    fn movement(&mut self) {
        let start = self.ts();
        let from = self.rng.u8(..ACCOUNTS);
        let to = (from + self.rng.u8(1..ACCOUNTS)) % ACCOUNTS;
        let keys = [vec![from], vec![to]];
        match self.try_move(start, &keys) {
            Ok(()) => {}
            Err(Error::KeyIsLocked(met)) => {
                let _ = self.resolve(&met, Timestamp::ZERO).unwrap();
                self.roll_back(start, &keys);
            }
            Err(e) if e.is_retryable() || matches!(e, Error::LockNotFound { .. }) => {
                self.roll_back(start, &keys);
            }
            Err(e) => panic!("{e}"),
        }
    }

    fn roll_back(&self, start: Timestamp, keys: &[Vec<u8>; 2]) {
        match self.calls.batch_rollback(keys, start) {
            Ok(()) | Err(Error::AlreadyCommitted { .. }) => {}
            Err(e) => panic!("{e}"),
        }
    }

    fn try_move(&mut self, start: Timestamp, keys: &[Vec<u8>; 2]) -> Result<()> {
        let mut for_update = None;
        let values = match self.rng.bool() {
            true => self.store.snapshot_at(start)?.batch_get(keys)?,
            false => {
                let now = self.ts();
                for_update = Some(now);
                let request = PessimisticLock {
                    primary: &keys[0],
                    start,
                    for_update: now,
                    since: now,
                    ttl: TTL,
                    wait: Wait::No,
                    return_values: true,
                };
                self.calls.pessimistic_lock(keys, &request)?
            }
        };
        let [from, to] = [0, 1].map(|n| number(values[n].clone()));
        let by = from.min(self.rng.u64(1..10));
        let values = [from - by, to + by].map(u64::to_be_bytes);
        let puts = [0, 1].map(|n| Mutation::Put {
            key: &keys[n],
            value: &values[n],
        });
        let secondaries = [Bytes::from(keys[1].clone())];
        let (one_phase, is_async) = (self.rng.u8(..3) == 0, self.rng.bool());
        let request = Prewrite {
            mutations: &puts,
            primary: &keys[0],
            start,
            read_at: start,
            ttl: TTL,
            txn_size: 2,
            min_commit: Timestamp(for_update.unwrap_or(start).0 + 1),
            for_update,
            secondaries: is_async.then_some(&secondaries),
        };
        // Some are too late, some only with one of their prewrites.
        let most = |rng: &mut fastrand::Rng| (rng.u8(..4) == 0).then_some(start);
        let mut demands = Demands {
            one_phase,
            max_commit: most(&mut self.rng),
            ..Demands::default()
        };
        let mut all_async = true;
        if one_phase || self.rng.bool() {
            let prewritten = self.calls.prewrite_with(&request, &demands)?;
            if prewritten.committed.is_some() {
                return Ok(());
            }
            all_async = prewritten.is_async;
        } else {
            let mut order = [0, 1];
            self.rng.shuffle(&mut order);
            for n in order {
                let none: &[Bytes] = &[];
                let own = if n == 0 { &secondaries } else { none };
                let piece = Prewrite {
                    mutations: &puts[n..=n],
                    secondaries: is_async.then_some(own),
                    ..request
                };
                demands.max_commit = most(&mut self.rng);
                let prewritten = self.calls.prewrite_with(&piece, &demands)?;
                if prewritten.committed.is_some() {
                    return Ok(());
                }
                all_async &= prewritten.is_async;
            }
        }
        if all_async || self.rng.u8(..16) == 0 {
            // It has committed, or the client is gone.
            return Ok(());
        }
        loop {
            let commit = self.ts();
            match self.calls.commit(&keys[..1], start, commit) {
                Err(Error::CommitTsExpired { .. }) => {}
                Err(e) => return Err(e),
                Ok(()) if self.rng.bool() => return Ok(()),
                Ok(()) => return self.calls.commit(&keys[1..], start, commit),
            }
        }
    }
}

#[test]
fn every_reader_finds_the_whole_sum_however_clients_commit() {
    for seed in seeds(4) {
        let mut place = Place::new(seed);
        // Nobody waits by the clock, which is simulated.
        place.options.retention = None;
        let store = place.open();
        open_accounts(&store, ACCOUNTS);
        let total = EACH * u64::from(ACCOUNTS);
        let done = AtomicBool::new(false);
        let reads = AtomicU64::new(0);
        std::thread::scope(|scope| {
            let movers: Vec<_> = (0..3)
                .map(|n| {
                    let store = &store;
                    scope.spawn(move || {
                        let mut client = Client::new(store, seed * 10 + n);
                        for _ in 0..300 {
                            client.movement();
                        }
                    })
                })
                .collect();
            scope.spawn(|| {
                let mut client = Client::new(&store, seed * 10 + 9);
                while !done.load(Ordering::SeqCst) {
                    let at = client.ts();
                    assert_eq!(client.sum(at), total, "seed {seed}, at {at}");
                    // The store's own readers push instead, and agree.
                    let own = store.snapshot_at(at).unwrap();
                    assert_eq!(
                        sum(&own, Direction::Backward),
                        total,
                        "seed {seed}, at {at}"
                    );
                    reads.fetch_add(1, Ordering::SeqCst);
                }
            });
            let ended: Vec<_> = movers.into_iter().map(|mover| mover.join()).collect();
            done.store(true, Ordering::SeqCst);
            ended.into_iter().for_each(|ended| ended.unwrap());
        });
        let mut last = Client {
            is_impatient: true,
            ..Client::new(&store, seed)
        };
        let at = last.ts();
        assert_eq!(last.sum(at), total, "seed {seed}");
        // The locks of clients that are gone end with their transactions.
        for met in last.calls.scan_locks(Timestamp::MAX, b"", usize::MAX) {
            while last.resolve(&met, Timestamp::ZERO).unwrap().is_none() {
                let left = last.calls.scan_locks(met.start, &met.key, 1);
                if left.first().is_none_or(|lock| lock.key != met.key) {
                    break;
                }
            }
        }
        assert_eq!(
            last.calls.scan_locks(Timestamp::MAX, b"", 9),
            [],
            "seed {seed}"
        );
        assert_eq!(
            sum(&store.snapshot(), Direction::Forward),
            total,
            "seed {seed}"
        );
        assert!(reads.load(Ordering::SeqCst) > 0, "seed {seed}");
    }
}
