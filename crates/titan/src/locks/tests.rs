//! Which requests are granted, which wait, and which circles are found.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use super::waits::{Waiting, Waits};
use super::{Acquired, LockKey, LockTable, Mode, OwnerId, Request};
use crate::clock::{StdClock, SystemClock};
use crate::error::{ErrorKind, Result};
use crate::format::ColumnFamilyId;

fn key(name: &'static str) -> LockKey {
    LockKey::new(ColumnFamilyId(0), name.as_bytes())
}

fn table() -> LockTable {
    LockTable::new(Arc::new(StdClock))
}

/// Requests without waiting.
fn try_lock(
    table: &LockTable,
    owner: OwnerId,
    name: &'static str,
    mode: Mode,
) -> Result<Acquired, ErrorKind> {
    acquire(table, owner, name, mode, Some(Duration::ZERO)).map_err(|e| e.kind())
}

fn acquire(
    table: &LockTable,
    owner: OwnerId,
    name: &'static str,
    mode: Mode,
    timeout: Option<Duration>,
) -> Result<Acquired> {
    table.acquire(&Request {
        owner,
        key: &key(name),
        family: "default",
        mode,
        timeout,
        detect_deadlocks: true,
    })
}

use Acquired::{Had, New, Upgraded};
use Mode::{Exclusive, Shared};

const TIMEOUT: Result<Acquired, ErrorKind> = Err(ErrorKind::LockTimeout);

#[test]
fn shared_locks_exclude_exclusive_ones_and_those_exclude_all() {
    let table = table();
    let [a, b] = [table.new_owner(), table.new_owner()];
    let lock = |owner, mode| try_lock(&table, owner, "k", mode);
    assert_eq!(lock(a, Shared), Ok(New));
    assert_eq!(lock(a, Shared), Ok(Had));
    assert_eq!(lock(b, Shared), Ok(New));
    // Not while the other one has it, too.
    assert_eq!(lock(a, Exclusive), TIMEOUT);
    table.release(b, [&key("k")]);
    assert_eq!(lock(a, Exclusive), Ok(Upgraded));
    assert_eq!(lock(a, Shared), Ok(Had));
    assert_eq!(lock(a, Exclusive), Ok(Had));
    assert_eq!(lock(b, Shared), TIMEOUT);
    assert_eq!(lock(b, Exclusive), TIMEOUT);
    // An owner cannot release a lock that it does not have.
    table.release(b, [&key("k"), &key("other")]);
    assert_eq!(lock(b, Shared), TIMEOUT);
    assert_eq!(try_lock(&table, b, "other", Exclusive), Ok(New));
    table.release(a, [&key("k")]);
    assert_eq!(lock(b, Shared), Ok(New));
    table.release(b, [&key("k"), &key("other")]);
    assert_eq!(table.len(), 0);
}

/// Only waiting advances it.
#[derive(Default)]
struct WaitClock(AtomicU64);

impl SystemClock for WaitClock {
    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::SeqCst))
    }

    fn unix_time(&self) -> Duration {
        self.monotonic()
    }

    fn begin_wait(&self, timeout: Duration) -> Duration {
        let millis = timeout.as_millis() as u64;
        self.0.fetch_add(millis.div_ceil(3), Ordering::SeqCst);
        Duration::ZERO
    }
}

#[test]
fn a_request_waits_as_long_as_it_may_and_no_longer() {
    let clock = Arc::new(WaitClock::default());
    let table = LockTable::new(Arc::clone(&clock) as _);
    let [a, b] = [table.new_owner(), table.new_owner()];
    assert_eq!(try_lock(&table, a, "k", Exclusive), Ok(New));
    let timeout = Some(Duration::from_millis(700));
    let error = acquire(&table, b, "k", Shared, timeout).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LockTimeout);
    assert_eq!(clock.monotonic(), Duration::from_millis(700));
    let text = error.to_string();
    assert!(text.contains("transaction 2 has waited 700ms"), "{text}");
    assert!(text.contains("LockOptions::timeout"), "{text}");
    assert!(
        text.contains("'k'") && text.contains("which transaction 1"),
        "{text}"
    );
    table.release(a, [&key("k")]);
    assert_eq!(table.len(), 0);
}

fn waits_for(key: LockKey, blockers: &[u64]) -> Waiting {
    Waiting {
        key,
        family: "default".to_owned(),
        blockers: blockers.iter().map(|id| OwnerId(*id)).collect(),
    }
}

#[test]
fn a_circle_is_found_among_other_paths_and_only_by_its_members() {
    let mut waits = Waits::default();
    waits.begin(OwnerId(1), waits_for(key("a"), &[7, 2, 3]));
    waits.begin(OwnerId(2), waits_for(key("b"), &[4]));
    waits.begin(OwnerId(3), waits_for(key("c"), &[2, 5]));
    waits.begin(OwnerId(9), waits_for(key("z"), &[1]));
    assert_eq!(waits.circle_through(OwnerId(1)), None);
    waits.begin(OwnerId(5), waits_for(key("d\n"), &[1]));
    assert_eq!(waits.circle_through(OwnerId(9)), None);
    assert_eq!(waits.circle_through(OwnerId(2)), None);
    let circle = waits.circle_through(OwnerId(5)).unwrap();
    let expected = [
        r"transaction 5 waits for the key 'd\n' of column family default, which transaction 1 has locked",
        "transaction 1 waits for the key 'a' of column family default, which transaction 3 has locked",
        "transaction 3 waits for the key 'c' of column family default, which transaction 5 has locked",
    ];
    assert_eq!(circle, expected.join("; "));
    waits.end(OwnerId(3));
    assert_eq!(waits.circle_through(OwnerId(5)), None);
}

/// The first has not looked yet since the second released the key.
#[test]
fn what_was_released_closes_no_circle() {
    let mut waits = Waits::default();
    waits.begin(OwnerId(1), waits_for(key("a"), &[2]));
    waits.released(OwnerId(2), &key("other"));
    waits.begin(OwnerId(2), waits_for(key("b"), &[1]));
    assert!(waits.circle_through(OwnerId(2)).is_some());
    waits.end(OwnerId(2));
    waits.released(OwnerId(2), &key("a"));
    waits.begin(OwnerId(2), waits_for(key("b"), &[1]));
    assert_eq!(waits.circle_through(OwnerId(2)), None);
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod threads {
    use super::*;
    use titan_testkit::gates::{Actor, Gates, race};

    /// Number of times that a request began to wait, again or for the first time.
    fn waits_begun(gates: &Gates) -> usize {
        let passed = gates.passed();
        passed.iter().filter(|gate| **gate == "lock: waits").count()
    }

    /// Starts a request that waits for ever, and returns once it waits.
    fn waiting(
        gates: &Gates,
        table: &Arc<LockTable>,
        owner: OwnerId,
        name: &'static str,
        mode: Mode,
    ) -> Actor<Result<Acquired>> {
        let before = waits_begun(gates);
        let table = Arc::clone(table);
        let actor = gates.spawn("owner", move || acquire(&table, owner, name, mode, None));
        while waits_begun(gates) == before {
            std::thread::yield_now();
        }
        actor
    }

    #[test]
    fn a_circle_of_three_fails_for_the_last_and_the_others_go_on() {
        race(|gates| {
            let table = Arc::new(table());
            let [a, b, c] = [(); 3].map(|()| table.new_owner());
            for (owner, name) in [(a, "a"), (b, "b"), (c, "c")] {
                assert_eq!(try_lock(&table, owner, name, Exclusive), Ok(New));
            }
            let first = waiting(gates, &table, a, "b", Shared);
            let second = waiting(gates, &table, b, "c", Exclusive);
            let error = acquire(&table, c, "a", Shared, Some(Duration::ZERO)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Deadlock);
            let text = error.message();
            for part in [
                "transaction 3 waits for the key 'a'",
                "transaction 1 waits for the key 'b'",
                "transaction 2 waits for the key 'c' of column family default, which transaction 3",
            ] {
                assert!(text.contains(part), "{text}");
            }
            table.release(c, [&key("c")]);
            assert_eq!(second.join().unwrap(), New);
            table.release(b, [&key("b"), &key("c")]);
            assert_eq!(first.join().unwrap(), New);
            table.release(a, [&key("a"), &key("b")]);
            assert_eq!(table.len(), 0);
        });
    }

    #[test]
    fn two_owners_that_both_want_to_make_a_shared_lock_exclusive_are_a_circle() {
        race(|gates| {
            let table = Arc::new(table());
            let [a, b] = [(); 2].map(|()| table.new_owner());
            for owner in [a, b] {
                assert_eq!(try_lock(&table, owner, "k", Shared), Ok(New));
            }
            let first = waiting(gates, &table, a, "k", Exclusive);
            let second = try_lock(&table, b, "k", Exclusive);
            assert_eq!(second, Err(ErrorKind::Deadlock));
            table.release(b, [&key("k")]);
            assert_eq!(first.join().unwrap(), Upgraded);
            table.release(a, [&key("k")]);
            assert_eq!(table.len(), 0);
        });
    }

    /// The circle arises when a waiting request gets another owner to wait for.
    #[test]
    fn an_owner_that_joins_a_shared_lock_can_close_a_circle() {
        race(|gates| {
            let table = Arc::new(table());
            let [a, b, c] = [(); 3].map(|()| table.new_owner());
            assert_eq!(try_lock(&table, a, "mine", Exclusive), Ok(New));
            assert_eq!(try_lock(&table, b, "k", Shared), Ok(New));
            let first = waiting(gates, &table, a, "k", Exclusive);
            let before = waits_begun(gates);
            assert_eq!(try_lock(&table, c, "k", Shared), Ok(New));
            // The one that waits looks again, and waits for both.
            while waits_begun(gates) == before {
                std::thread::yield_now();
            }
            let circle = try_lock(&table, c, "mine", Shared);
            assert_eq!(circle, Err(ErrorKind::Deadlock));
            table.release(c, [&key("k")]);
            table.release(b, [&key("k")]);
            assert_eq!(first.join().unwrap(), New);
            table.release(a, [&key("mine"), &key("k")]);
            assert_eq!(table.len(), 0);
        });
    }

    /// Threads that lock a few keys in random order: an exclusive owner is alone, a shared one sees
    /// no exclusive one, and nothing waits for ever although there is no timeout.
    #[test]
    fn random_owners_exclude_each_other_and_all_come_to_an_end() {
        const NAMES: [&str; 4] = ["a", "b", "c", "d"];
        race(|_| {
            let table = Arc::new(table());
            // -1 while locked exclusively, else the number of shared owners.
            let state: Arc<[AtomicI64; 4]> = Arc::default();
            let deadlocks = Arc::new(AtomicU64::new(0));
            std::thread::scope(|scope| {
                for seed in 0..4 {
                    let (table, state, deadlocks) = (&table, &state, &deadlocks);
                    scope.spawn(move || {
                        let mut rng = fastrand::Rng::with_seed(seed);
                        for _ in 0..2000 {
                            let owner = table.new_owner();
                            let mut held = HashMap::new();
                            for _ in 0..rng.usize(1..5) {
                                let at = rng.usize(..4);
                                let mode = if rng.bool() { Shared } else { Exclusive };
                                match acquire(table, owner, NAMES[at], mode, None) {
                                    Ok(New) if mode == Shared => {
                                        let was = state[at].fetch_add(1, Ordering::SeqCst);
                                        assert!(was >= 0, "seed {seed}");
                                        held.insert(at, Shared);
                                    }
                                    Ok(New) => {
                                        let was = state[at].swap(-1, Ordering::SeqCst);
                                        assert_eq!(was, 0, "seed {seed}");
                                        held.insert(at, Exclusive);
                                    }
                                    Ok(Upgraded) => {
                                        let was = state[at].swap(-1, Ordering::SeqCst);
                                        assert_eq!(was, 1, "seed {seed}");
                                        held.insert(at, Exclusive);
                                    }
                                    Ok(Had) => assert!(held.contains_key(&at), "seed {seed}"),
                                    Err(e) => {
                                        assert_eq!(e.kind(), ErrorKind::Deadlock, "seed {seed}");
                                        deadlocks.fetch_add(1, Ordering::Relaxed);
                                        break;
                                    }
                                }
                            }
                            for (at, mode) in held {
                                match mode {
                                    Shared => state[at].fetch_sub(1, Ordering::SeqCst),
                                    Exclusive => state[at].swap(0, Ordering::SeqCst),
                                };
                                table.release(owner, [&key(NAMES[at])]);
                            }
                        }
                    });
                }
            });
            assert_eq!(table.len(), 0);
            println!("{} deadlocks", deadlocks.load(Ordering::Relaxed));
        });
    }
}
