//! The steps of a commit: pieces, failures between them, and other threads.

use super::*;

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

/// Its owner has got an error and may not come back, so nobody would end them before their time to
/// live is over.
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
