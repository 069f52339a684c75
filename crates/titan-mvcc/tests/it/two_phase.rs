//! Transactions that are committed in two phases, and what others do about those that stop between the phases.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use titan::{
    BatchOp, BypassedRange, CommitHook, CommittedOps, ErrorKind, SequenceNumber, StallEvent,
};
use titan_mvcc::{
    Direction, Error, Mutation, Prewrite, Result, Store, StoreOptions, Timestamp, TimestampOracle,
    Transaction,
};
use titan_testkit::sim::OpKind;

use super::accounts::{EACH, movement, open_accounts, sum};
use super::setup::{DIR, Place, put};

const TTL: Duration = Duration::from_secs(1_000_000);

/// A store in which all commits are in two phases and nobody waits for locks.
pub fn open(place: &mut Place, async_commit: bool) -> Store {
    let transactions = &mut place.options.transactions;
    transactions.one_batch_bytes = 0;
    transactions.async_commit = async_commit;
    transactions.lock_ttl = TTL;
    transactions.lock_wait = Duration::ZERO;
    place.open()
}

pub fn writes(store: &Store, keys: &[&str], value: &[u8]) -> Transaction {
    let mut transaction = store.begin();
    for key in keys {
        transaction.put(key.as_bytes(), value);
    }
    transaction
}

pub fn values(store: &Store, keys: &[&str]) -> Vec<Option<String>> {
    let values = store.snapshot().batch_get(keys).unwrap();
    let text = |value: bytes::Bytes| String::from_utf8(value.to_vec()).unwrap();
    values.into_iter().map(|value| value.map(text)).collect()
}

pub fn locks(store: &Store) -> usize {
    store
        .percolator()
        .scan_locks(Timestamp::MAX, b"", 999)
        .len()
}

pub fn scan(store: &Store, direction: Direction) -> Vec<String> {
    let rows = store.snapshot().scan(None, None, direction).unwrap();
    let text = |row: titan_mvcc::Row| {
        let bytes = [&row.key[..], b"=", &row.value.fetch().unwrap()].concat();
        String::from_utf8(bytes).unwrap()
    };
    rows.map(|row| text(row.unwrap())).collect()
}

fn some(values: &[&str]) -> Vec<Option<String>> {
    values
        .iter()
        .map(|value| Some((*value).to_owned()))
        .collect()
}

const KEYS: &[&str] = &["a", "b", "c"];

#[test]
fn a_commit_in_two_phases_is_as_one_in_one_batch() {
    for async_commit in [false, true] {
        let mut place = Place::new(1);
        let store = open(&mut place, async_commit);
        let old = store.snapshot();
        let commit = writes(&store, KEYS, b"1").commit().unwrap();
        assert_eq!(store.now(), commit);
        assert_eq!(values(&store, KEYS), some(&["1", "1", "1"]));
        assert_eq!(old.get(b"a").unwrap(), None);
        assert_eq!(locks(&store), 0);
        let (first, second) = (writes(&store, KEYS, b"2"), writes(&store, &["b"], b"3"));
        first.commit().unwrap();
        match second.commit() {
            Err(Error::Conflict { key, .. }) => assert_eq!(key, "b"),
            other => panic!("{other:?}"),
        }
        let mut nothing = store.begin();
        nothing.lock(b"a");
        nothing.commit().unwrap();
        assert_eq!(values(&store, KEYS), some(&["2", "2", "2"]));
        assert_eq!(locks(&store), 0);
    }
}

#[test]
fn a_conflict_in_the_last_piece_releases_all_locks() {
    for async_commit in [false, true] {
        let mut place = Place::new(2);
        let store = open(&mut place, async_commit);
        let late = writes(&store, KEYS, b"late");
        put(&store, b"c", b"first");
        assert!(matches!(late.commit(), Err(Error::Conflict { .. })));
        assert_eq!(locks(&store), 0);
        assert_eq!(values(&store, &["a"]), [None]);
        // And leaves nothing that is a conflict for others.
        writes(&store, KEYS, b"2").commit().unwrap();
    }
}

#[test]
fn a_client_that_dies_before_the_primary_key_is_committed_is_rolled_back_when_its_time_is_over() {
    let mut place = Place::new(3);
    let store = open(&mut place, false);
    put(&store, b"a", b"old");
    drop(writes(&store, KEYS, b"lost").prewrite().unwrap());
    assert_eq!(locks(&store), 3);
    // Readers read below the locks, and others cannot write.
    assert_eq!(values(&store, &["a", "b"]), [Some("old".into()), None]);
    assert_eq!(scan(&store, Direction::Forward), ["a=old"]);
    let blocked = writes(&store, &["b"], b"new").commit().unwrap_err();
    assert!(matches!(blocked, Error::KeyIsLocked(_)), "{blocked}");
    place.clock.advance(TTL + Duration::from_secs(1));
    writes(&store, &["b"], b"new").commit().unwrap();
    assert_eq!(scan(&store, Direction::Backward), ["b=new", "a=old"]);
    assert_eq!(locks(&store), 0);
}

#[test]
fn a_commit_in_one_batch_finds_locks_of_one_in_two_phases() {
    let mut place = Place::new(15);
    place.options.transactions.async_commit = false;
    place.options.transactions.lock_ttl = TTL;
    place.options.transactions.lock_wait = Duration::ZERO;
    let store = place.open();
    let slow = writes(&store, KEYS, b"slow").prewrite().unwrap();
    let blocked = writes(&store, &["x", "b"], b"new").commit().unwrap_err();
    assert!(matches!(blocked, Error::KeyIsLocked(lock) if lock.key == "b"));
    drop(slow);
    place.clock.advance(TTL + Duration::from_secs(1));
    writes(&store, &["x", "b"], b"new").commit().unwrap();
    assert_eq!(values(&store, KEYS), [None, Some("new".into()), None]);
}

/// A transaction of the store cannot outlive it, that of a client of the Percolator calls can.
#[test]
fn an_opening_ends_at_once_what_no_living_owner_can_have_and_nothing_else() {
    for crashes in [false, true] {
        let mut place = Place::new(16);
        let store = open(&mut place, false);
        put(&store, b"a", b"old");
        // Stopped before the commit, after that of the primary key, and a pessimistic one.
        drop(writes(&store, KEYS, b"lost").prewrite().unwrap());
        let committed = writes(&store, &["d", "e", "f"], b"new").prewrite().unwrap();
        drop(committed.commit_primary().unwrap());
        let mut pessimistic = store.begin_pessimistic().unwrap();
        pessimistic.put(b"g", b"lost").unwrap();
        pessimistic.put(b"h", b"lost").unwrap();
        pessimistic.abandon();
        store.close().unwrap();
        // Async commits: whole, and stopped before the last piece.
        place.options.transactions.async_commit = true;
        place.options.transactions.one_batch_bytes = 1 << 20;
        let store = place.open();
        drop(writes(&store, &["i", "j"], b"new").prewrite().unwrap());
        let start = store.oracle().next().unwrap();
        let of_client = [Mutation::Put {
            key: b"k",
            value: b"client",
        }];
        let request = Prewrite {
            ttl: TTL,
            ..super::percolator::request(start, b"k", &of_client)
        };
        store.percolator().prewrite(&request).unwrap();
        match crashes {
            // Nobody closes it, and the directory is as it is now.
            true => {
                place.options.db.vfs = Arc::new(
                    place
                        .vfs
                        .journal()
                        .crash_at(place.vfs.journal().len(), &titan_testkit::sim::Loss::None),
                )
            }
            false => store.close().unwrap(),
        }
        let read_only = Store::open_read_only(DIR, &place.options).unwrap();
        assert_eq!(locks(&read_only), 3);
        drop(read_only);
        let store = place.open();
        assert_eq!(locks(&store), 1);
        assert_eq!(
            store
                .holds()
                .iter()
                .filter(|hold| hold.name.contains("lock"))
                .count(),
            1
        );
        let expected = ["a=old", "d=new", "e=new", "f=new", "i=new", "j=new"];
        assert_eq!(scan(&store, Direction::Forward), expected);
        // The value that was there and five that were committed: no record of a rollback is left, because no late call
        // can come.
        assert_eq!(super::setup::stored_versions(&store), 6);
        let keys = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
        writes(&store, &keys, b"next").commit().unwrap();
        let blocked = writes(&store, &["k"], b"").commit().unwrap_err();
        assert!(matches!(blocked, Error::KeyIsLocked(_)), "{blocked}");
        let commit = store.oracle().next().unwrap();
        store.percolator().commit(&[b"k"], start, commit).unwrap();
        assert_eq!(values(&store, &["k"]), some(&["client"]));
        assert_eq!(store.check(&mut |_| {}).unwrap().problems, []);
    }
}

/// A transaction that an opening cannot end, since the disk is full or fails, is nobody's, and the
/// first who meets it ends it.
#[test]
fn what_an_opening_could_not_end_is_ended_by_the_first_who_meets_it() {
    let mut place = Place::new(17);
    let store = open(&mut place, false);
    let prewritten = writes(&store, KEYS, b"new").prewrite().unwrap();
    drop(prewritten.commit_primary().unwrap());
    drop(writes(&store, &["x", "y"], b"lost").prewrite().unwrap());
    let family = store.db().column_family("locks").unwrap();
    // The value of the key c.
    let mut batch = titan::WriteBatch::new();
    batch.delete(&family, b"c\0\0\0\0\0\0\0\xf8V").unwrap();
    let write = titan::WriteOptions::default();
    store.db().write(batch, &write).unwrap();
    store.close().unwrap();
    let store = place.open();
    let left = store.percolator().scan_locks(Timestamp::MAX, b"", 9);
    let left: Vec<_> = left.iter().map(|lock| &*lock.key).collect();
    assert_eq!(left, [b"c"]);
    assert_eq!(values(&store, &["b", "x"]), [Some("new".into()), None]);
    let lost = writes(&store, &["c"], b"").commit().unwrap_err();
    assert!(matches!(lost, Error::Corruption { .. }), "{lost}");
}

/// Number of groups of writes that the engine has published.
#[derive(Default)]
struct Groups(AtomicU64);

impl CommitHook for Groups {
    fn before_publish(&self, _: SequenceNumber, _: &CommittedOps<'_>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn on_bypass(&self, _: &BypassedRange<'_>, _: SequenceNumber) {}
}

#[test]
fn all_locks_of_a_dead_transaction_are_ended_at_once() {
    const LOCKED: u32 = 2_000;
    for one_batch_bytes in [16 << 20, 1 << 10] {
        let mut place = Place::new(18);
        let groups = Arc::new(Groups::default());
        place.options.db.commit_hook = Some(Arc::clone(&groups) as Arc<dyn CommitHook>);
        place.options.transactions.one_batch_bytes = 1 << 16;
        place.options.transactions.async_commit = false;
        place.options.transactions.lock_ttl = TTL;
        place.options.transactions.lock_wait = Duration::ZERO;
        let store = place.open();
        let fill = |store: &Store| {
            let mut transaction = store.begin();
            (0..LOCKED).for_each(|key| transaction.put(&key.to_be_bytes(), b"value"));
            transaction
        };
        drop(fill(&store).prewrite().unwrap());
        let calls = store.percolator();
        assert_eq!(
            calls.scan_locks(Timestamp::MAX, b"", usize::MAX).len(),
            2_000
        );
        place.clock.advance(TTL + Duration::from_secs(1));
        let before = groups.0.load(Ordering::SeqCst);
        // The one that is made again writes in one batch, or in pieces.
        let mut again = fill(&store);
        if one_batch_bytes == 1 << 10 {
            again.put(b"large", &vec![0; 1 << 16]);
        }
        again.commit().unwrap();
        let groups = groups.0.load(Ordering::SeqCst) - before;
        assert!(groups < 40, "{groups} groups for {LOCKED} locks");
        assert_eq!(locks(&store), 0);
    }
}

#[test]
fn a_client_that_dies_after_the_primary_key_is_committed_has_committed() {
    for direction in [Direction::Forward, Direction::Backward] {
        let mut place = Place::new(4);
        let store = open(&mut place, false);
        put(&store, b"c", b"old");
        let before = store.snapshot();
        let prewritten = writes(&store, KEYS, b"new").prewrite().unwrap();
        let commit = prewritten.commit_primary().unwrap().timestamp();
        assert_eq!(locks(&store), 2);
        assert_eq!(store.now(), commit);
        let mut expected = ["a=new", "b=new", "c=new"];
        if direction == Direction::Backward {
            expected.reverse();
        }
        assert_eq!(scan(&store, direction), expected);
        assert_eq!(locks(&store), 0);
        let found = before.batch_get(KEYS).unwrap();
        assert_eq!(found, [None, None, Some("old".into())]);
    }
}

#[test]
fn a_writer_finishes_what_has_committed_and_conflicts_with_it() {
    let mut place = Place::new(5);
    let store = open(&mut place, false);
    let writer = writes(&store, &["b"], b"late");
    let prewritten = writes(&store, KEYS, b"new").prewrite().unwrap();
    let commit = prewritten.commit_primary().unwrap().timestamp();
    match writer.commit() {
        Err(Error::Conflict { key, committed, .. }) => {
            assert_eq!((&*key, committed), (&b"b"[..], commit))
        }
        other => panic!("{other:?}"),
    }
    writes(&store, &["c"], b"newer").commit().unwrap();
    assert_eq!(values(&store, KEYS), some(&["new", "new", "newer"]));
}

#[test]
fn a_transaction_that_was_given_up_by_others_learns_of_it() {
    let mut place = Place::new(6);
    let store = open(&mut place, false);
    let slow = writes(&store, KEYS, b"slow").prewrite().unwrap();
    place.clock.advance(TTL + Duration::from_secs(1));
    put(&store, b"other", b"");
    assert_eq!(values(&store, &["c"]), [None]);
    let late = slow.commit_primary().unwrap_err();
    assert!(matches!(late, Error::RolledBack { .. }), "{late}");
    assert_eq!(locks(&store), 0);
    assert_eq!(values(&store, KEYS), [None, None, None]);
}

#[test]
fn what_is_rolled_back_between_the_phases_was_never_there() {
    let mut place = Place::new(7);
    let store = open(&mut place, false);
    writes(&store, KEYS, b"1").prewrite().unwrap().rollback();
    assert_eq!(locks(&store), 0);
    assert_eq!(super::setup::stored_versions(&store), 0);
    let none = store.begin().prewrite().unwrap();
    assert_eq!(none.commit().unwrap(), store.now());
}

#[test]
fn a_large_transaction_is_prewritten_and_committed_in_pieces() {
    let mut place = Place::new(8);
    place.options.transactions.one_batch_bytes = 10_000;
    place.options.versions.min_blob_size = 500;
    let store = place.open();
    let mut transaction = store.begin();
    for n in 0..1000_u32 {
        transaction.put(&n.to_be_bytes(), &vec![n as u8; (n % 1000) as usize]);
    }
    let commit = transaction.commit().unwrap();
    assert_eq!(locks(&store), 0);
    let snapshot = store.snapshot_at(commit).unwrap();
    let rows = snapshot.scan(None, None, Direction::Forward).unwrap();
    let sizes = rows.map(|row| row.unwrap().value.fetch().unwrap().len());
    assert!(sizes.eq((0..1000).map(|n| n % 1000)));
    let before = store.snapshot_at(Timestamp(commit.0 - 1)).unwrap();
    assert_eq!(
        before.scan(None, None, Direction::Forward).unwrap().count(),
        0
    );
}

#[test]
fn a_clock_that_is_set_back_or_forward_an_hour_neither_kills_nor_saves_a_lock() {
    const HOUR_MS: i64 = 3_600_000;
    for jump in [HOUR_MS, -HOUR_MS] {
        let mut place = Place::new(9);
        open(&mut place, false).close().unwrap();
        place.options.transactions.lock_ttl = Duration::from_secs(600);
        let store = place.open();
        let alive = writes(&store, KEYS, b"alive").prewrite().unwrap();
        place.clock.jump_ms(jump);
        let blocked = writes(&store, &["b"], b"new").commit().unwrap_err();
        assert!(matches!(blocked, Error::KeyIsLocked(_)), "{blocked}");
        alive.commit().unwrap();
        assert_eq!(values(&store, &["b"]), some(&["alive"]));
        drop(writes(&store, KEYS, b"dead").prewrite().unwrap());
        place.clock.jump_ms(-jump);
        place.clock.advance(Duration::from_secs(601));
        writes(&store, &["b"], b"new").commit().unwrap();
        assert_eq!(values(&store, KEYS), some(&["alive", "new", "alive"]));
    }
}

/// An oracle that gives so many timestamps.
struct Running(AtomicU64, AtomicU64);

impl TimestampOracle for Running {
    fn next(&self) -> Result<Timestamp> {
        let left = self
            .1
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
        left.map_err(|_| Error::oracle("unreachable"))?;
        Ok(Timestamp(self.0.fetch_add(1, Ordering::SeqCst)))
    }
}

#[test]
fn an_oracle_that_is_gone_before_any_step_of_a_commit_leaves_nothing_or_all() {
    for async_commit in [false, true] {
        let mut committed = 0;
        for given in 0..12 {
            let mut place = Place::new(10);
            open(&mut place, async_commit).close().unwrap();
            let oracle = Arc::new(Running(AtomicU64::new(100), AtomicU64::new(99)));
            let options = StoreOptions {
                oracle: Some(Arc::clone(&oracle) as Arc<dyn TimestampOracle>),
                ..place.options.clone()
            };
            // A directory of its own: the first one has leases of the local oracle.
            let store = Store::open(format!("{DIR}{given}"), &options).unwrap();
            put(&store, b"a", b"old");
            oracle.1.store(given, Ordering::SeqCst);
            let result = writes(&store, KEYS, b"new").commit();
            let found = values(&store, KEYS);
            match result {
                Ok(_) => {
                    assert_eq!(found, some(&["new", "new", "new"]));
                    committed += 1;
                }
                Err(Error::Oracle { .. }) => {
                    assert_eq!(found, [Some("old".into()), None, None]);
                    assert_eq!(locks(&store), 0);
                }
                Err(e) => panic!("{e}"),
            }
            oracle.1.store(99, Ordering::SeqCst);
            writes(&store, KEYS, b"next").commit().unwrap();
        }
        assert!((1..12).contains(&committed), "{committed}");
    }
}

#[test]
fn sums_hold_for_every_reader_while_threads_commit_in_two_phases_and_some_die() {
    const ACCOUNTS: u8 = 8;
    for async_commit in [false, true] {
        let mut place = Place::new(11);
        place.options.db.clock = Arc::new(titan_testkit::clock::SimClock::with_seed(1));
        let store = open(&mut place, async_commit);
        open_accounts(&store, ACCOUNTS);
        let total = EACH * u64::from(ACCOUNTS);
        std::thread::scope(|scope| {
            let movers: Vec<_> = (0..3)
                .map(|seed| {
                    let store = &store;
                    scope.spawn(move || {
                        let mut rng = fastrand::Rng::with_seed(seed);
                        for _ in 0..400 {
                            let Some(transaction) = movement(store, ACCOUNTS, &mut rng) else {
                                continue;
                            };
                            let prewritten = match transaction.prewrite() {
                                Ok(prewritten) => prewritten,
                                Err(Error::Conflict { .. } | Error::KeyIsLocked(_)) => continue,
                                Err(e) => panic!("{e}"),
                            };
                            match rng.u32(..8) {
                                // Killed after or before the primary key.
                                0 => drop(prewritten.commit_primary()),
                                1 => prewritten.rollback(),
                                _ => match prewritten.commit() {
                                    Ok(_) | Err(Error::RolledBack { .. }) => {}
                                    Err(e) => panic!("{e}"),
                                },
                            }
                        }
                    })
                })
                .collect();
            while movers.iter().any(|mover| !mover.is_finished()) {
                for direction in [Direction::Forward, Direction::Backward] {
                    assert_eq!(sum(&store.snapshot(), direction), total);
                }
            }
        });
        store.advance_safe_point(store.now()).unwrap();
        assert_eq!(locks(&store), 0);
        assert_eq!(sum(&store.snapshot(), Direction::Forward), total);
    }
}

#[test]
fn rows_that_a_scan_finds_locked_count_once() {
    let mut place = Place::new(14);
    let store = open(&mut place, false);
    put(&store, b"a", b"1");
    put(&store, b"b", b"1");
    let prewritten = writes(&store, &["a"], b"2").prewrite().unwrap();
    // The scan is at a later timestamp than the lock.
    put(&store, b"c", b"1");
    let before = store.read_stats();
    let mut rows = store
        .snapshot()
        .scan(None, None, Direction::Forward)
        .unwrap();
    assert_eq!(rows.by_ref().count(), 3);
    let scanned = rows.stats();
    drop(rows);
    let after = store.read_stats();
    assert_eq!(scanned.processed, 3);
    assert_eq!(after.processed - before.processed, scanned.processed);
    assert_eq!(after.seek - before.seek, scanned.seek);
    prewritten.rollback();
}

/// The most bytes that a group of the engine has written.
#[derive(Default)]
struct LargestGroup(AtomicU64);

impl CommitHook for LargestGroup {
    fn before_publish(&self, _: SequenceNumber, operations: &CommittedOps<'_>) {
        let size = |op: BatchOp<'_>| match op {
            BatchOp::Put { value, .. } => value.len() as u64,
            _ => 0,
        };
        let bytes = operations.iter().map(|(_, op)| size(op)).sum();
        self.0.fetch_max(bytes, Ordering::SeqCst);
    }

    fn on_bypass(&self, _: &BypassedRange<'_>, _: SequenceNumber) {}
}

#[test]
fn no_step_of_a_large_commit_writes_more_than_one_batch_may_have() {
    const VALUE: usize = 10_000;
    for async_commit in [false, true] {
        let mut place = Place::new(12);
        let largest = Arc::new(LargestGroup::default());
        place.options.db.commit_hook = Some(Arc::clone(&largest) as Arc<dyn CommitHook>);
        place.options.transactions.async_commit = async_commit;
        place.options.transactions.one_batch_bytes = 3 * VALUE;
        let store = place.open();
        let large = |value: u8| {
            let mut transaction = store.begin();
            (0..20).for_each(|key| transaction.put(&[key], &[value; VALUE]));
            transaction.prewrite().unwrap()
        };
        large(1).commit().unwrap();
        // The locks that are left to others.
        let committed = large(2).commit_primary().unwrap();
        let (start, commit) = (committed.start(), committed.timestamp());
        drop(committed);
        let calls = store.percolator();
        calls.resolve_lock(start, Some(commit), None).unwrap();
        assert_eq!(locks(&store), 0);
        let rows = store
            .snapshot()
            .scan(None, None, Direction::Forward)
            .unwrap();
        let values = rows.map(|row| row.unwrap().value.fetch().unwrap());
        assert!(values.eq(vec![vec![2; VALUE]; 20]));
        let largest = largest.0.load(Ordering::SeqCst);
        // The records of locks are beside the values.
        assert!(largest < 3 * VALUE as u64 + 2_000, "{largest} bytes");
    }
}

/// Its owner has got an error and may not come back, so nobody would end them before their time to live is over.
#[test]
fn a_commit_that_does_not_wait_for_a_stall_leaves_no_locks() {
    let mut place = Place::new(31);
    place.options.write.no_slowdown = true;
    place.options.versions.level0_file_num_compaction_trigger = 2;
    place.options.versions.level0_slowdown_writes_trigger = 2;
    let store = open(&mut place, false);
    let prewritten = writes(&store, KEYS, b"1").prewrite().unwrap();
    let versions = store.db().column_family("versions").unwrap();
    // Two flushes make a compaction due, which delays writes until it may create its table.
    let (release, released) = std::sync::mpsc::channel::<()>();
    let (released, created) = (std::sync::Mutex::new(released), AtomicU64::new(0));
    place.vfs.set_hook(move |call| {
        let is_table = call.path.extension().is_some_and(|e| e == "sst");
        let creates = call.kind == OpKind::Create && is_table;
        if creates && created.fetch_add(1, Ordering::SeqCst) >= 2 {
            let _ = released.lock().unwrap().recv();
        }
    });
    for value in [b"1", b"2"] {
        put(&store, b"other", value);
        versions.flush().unwrap();
    }
    let is_delayed = || {
        let families = store.db().metrics().families;
        families.iter().any(|it| it.stall != StallEvent::Normal)
    };
    while !is_delayed() {
        std::thread::yield_now();
    }
    let refused = prewritten.commit().unwrap_err();
    assert!(
        matches!(&refused, Error::Engine(e) if e.kind() == ErrorKind::Busy),
        "{refused}"
    );
    assert_eq!(locks(&store), 0);
    drop(release);
    store.db().wait_idle().unwrap();
    assert_eq!(values(&store, KEYS), [None, None, None]);
    assert_eq!(store.advance_safe_point(store.now()).unwrap(), store.now());
    writes(&store, KEYS, b"2").commit().unwrap();
    assert_eq!(locks(&store), 0);
}
