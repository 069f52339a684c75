//! The local oracle: it never repeats a timestamp, even if the clock jumps.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use titan::SystemClock;
use titan_mvcc::{Error, Result, Store, StoreOptions, Timestamp, TimestampOracle};

use super::setup::{DIR, Place, put, seeds};

const HOUR_MS: i64 = 3_600_000;

#[test]
fn timestamps_follow_the_clock() {
    let place = Place::new(1);
    let store = place.open();
    place.clock.jump_ms(HOUR_MS);
    // Threads in the background let time pass too.
    let before = place.clock.unix_time();
    let timestamp = store.oracle().next().unwrap();
    assert!((before..=place.clock.unix_time()).contains(&timestamp.unix_time()));
    assert!(timestamp < store.oracle().next().unwrap());
}

#[test]
fn a_run_of_timestamps_is_of_one_millisecond_and_nobody_else_gets_them() {
    const MOST: u64 = 1 << 18;
    let place = Place::new(15);
    let store = place.open();
    let mut after = store.oracle().next().unwrap();
    for count in [1, 2, 1000, MOST, MOST - 1, 3, 0] {
        let first = store.oracle().next_run(count).unwrap();
        let last = Timestamp(first.0 + count.max(1) - 1);
        assert!(after < first, "{count}");
        assert_eq!(first.unix_time(), last.unix_time(), "{count}");
        // A commit follows all of them.
        after = put(&store, b"k", b"v");
        assert!(last < after, "{count}");
    }
    let too_many = store.oracle().next_run(MOST + 1);
    assert!(matches!(too_many, Err(Error::Oracle { .. })));
    store.close().unwrap();
    drop(store);
    assert!(after < place.open().oracle().next().unwrap());
}

#[test]
fn only_a_timestamp_near_the_end_of_the_lease_may_wait() {
    let mut place = Place::new(18);
    // Waits of other threads last as long as they say.
    place.options.db.clock = Arc::new(place.clock.with_waits(|_| false));
    let store = place.open();
    place.clock.jump_ms(HOUR_MS);
    // The lease is behind the clock.
    assert!(store.oracle().may_wait());
    let now = store.oracle().next().unwrap();
    assert!(!store.oracle().may_wait() && !store.may_wait_for(now));
    place.clock.advance(Duration::from_millis(2_950));
    assert!(store.oracle().may_wait() && store.may_wait_for(now));
    let committed = put(&store, b"k", b"v");
    assert!(!store.may_wait_for(committed));
}

/// Locks expire by timestamps, so a client that asks for many must not move time.
#[test]
fn runs_of_timestamps_outpace_the_clock_by_two_seconds_whatever_is_done_to_it() {
    const MOST: u64 = 1 << 18;
    let mut place = Place::new(17);
    place.options.db.clock = Arc::new(place.clock.with_waits(|_| false));
    let mut store = place.open();
    for step in 0..5 {
        let mut taken = 0;
        let refused = loop {
            match store.oracle().next_run(MOST) {
                Ok(_) => taken += 1,
                Err(e) => break e,
            }
            assert!(taken < 2_010, "step {step}");
        };
        assert!(
            refused.to_string().contains("ahead of the clock"),
            "{refused}"
        );
        assert!(taken > 1_990, "step {step}: {taken}");
        // Commits and single timestamps go on.
        put(&store, b"k", b"v");
        match step {
            0 => {}
            1 => place.clock.jump_ms(-HOUR_MS),
            _ => {
                store.close().unwrap();
                drop(store);
                store = place.open();
            }
        }
        // The clock catches up with the runs, not with the hour.
        place.clock.advance(Duration::from_secs(3));
    }
}

#[test]
fn a_given_oracle_gives_single_timestamps_or_its_own_runs() {
    struct Single(AtomicU64);
    impl TimestampOracle for Single {
        fn next(&self) -> Result<Timestamp> {
            Ok(Timestamp(self.0.fetch_add(1, Ordering::Relaxed)))
        }
    }
    let mut place = Place::new(16);
    place.options.oracle = Some(Arc::new(Single(AtomicU64::new(1 << 40))));
    let store = place.open();
    let one = store.oracle().next_run(1).unwrap();
    assert!(one < store.oracle().next().unwrap());
    let run = store.oracle().next_run(2);
    assert!(matches!(run, Err(Error::Oracle { .. })));
}

#[test]
fn a_clock_that_is_set_back_an_hour_stops_no_commit_and_repeats_no_timestamp() {
    let place = Place::new(2);
    let store = place.open();
    let first = put(&store, b"a", b"1");
    place.clock.jump_ms(-HOUR_MS);
    let second = put(&store, b"a", b"2");
    assert!(first < second);
    store.close().unwrap();
    drop(store);
    let store = place.open();
    let third = put(&store, b"a", b"3");
    assert!(second < third);
    // Ahead of the clock by the hour and one lease of three seconds, no more.
    let ahead = third.unix_time().saturating_sub(place.clock.unix_time());
    assert!(
        ahead <= Duration::from_millis(HOUR_MS as u64 + 3_001),
        "{ahead:?}"
    );
    for (at, value) in [(first, b"1"), (second, b"2"), (third, b"3")] {
        let snapshot = store.snapshot_at(at).unwrap();
        assert_eq!(snapshot.get(b"a").unwrap().as_deref(), Some(&value[..]));
    }
}

#[test]
fn however_often_a_store_is_opened_its_timestamps_are_ahead_of_the_clock_by_one_lease() {
    let place = Place::new(8);
    let mut last = Timestamp::ZERO;
    for _ in 0..50 {
        let store = place.open();
        let commit = put(&store, b"a", b"");
        assert!(last < commit);
        last = commit;
        store.close().unwrap();
    }
    // And by some of the milliseconds that are leased where the timestamps are a whole lease ahead.
    let ahead = last.unix_time().saturating_sub(place.clock.unix_time());
    assert!(ahead <= Duration::from_secs(4), "{ahead:?}");
}

#[test]
fn timestamps_ascend_over_jumps_and_restarts() {
    for seed in seeds(20) {
        let mut rng = fastrand::Rng::with_seed(seed);
        let place = Place::new(seed);
        let mut last = Timestamp::ZERO;
        for _ in 0..10 {
            // A store that is not closed is like a process that was killed: unsynced writes are in
            // the log.
            let store = place.open();
            for _ in 0..rng.usize(..200) {
                place.clock.jump_ms(match rng.u32(..20) {
                    0 => HOUR_MS,
                    1 => -HOUR_MS,
                    _ => rng.i64(-50..50),
                });
                let next = store.oracle().next().unwrap();
                assert!(last < next, "seed {seed}: {next} after {last}");
                last = next;
            }
            assert!(last < put(&store, b"a", b""), "seed {seed}");
        }
    }
}

#[test]
fn a_lease_is_written_once_in_three_seconds() {
    let place = Place::new(3);
    let store = place.open();
    let leases = || {
        let lease = store.db().get(b"timestamps leased").unwrap().unwrap();
        u64::from_be_bytes(lease[..].try_into().unwrap())
    };
    let (mut written, mut last) = (0, leases());
    let begun = place.clock.unix_time();
    for _ in 0..10_000 {
        place.clock.advance(Duration::from_millis(3));
        store.oracle().next().unwrap();
        written += u32::from(last != leases());
        last = leases();
    }
    let passed = (place.clock.unix_time() - begun).as_secs() as u32;
    assert!(
        (9..=passed / 3 + 1).contains(&written),
        "{written} in {passed} s"
    );
}

#[test]
fn a_clock_beyond_the_last_timestamp_is_an_error_of_the_oracle() {
    let place = Place::new(4);
    let store = place.open();
    place.clock.jump_ms(1 << 46);
    let mut transaction = store.begin();
    transaction.put(b"a", b"1");
    let refused = transaction.commit().unwrap_err();
    assert!(matches!(refused, Error::Oracle { .. }), "{refused}");
    place.clock.jump_ms(-(1 << 46));
    assert_eq!(store.snapshot().get(b"a").unwrap(), None);
    put(&store, b"a", b"1");
}

#[test]
fn an_opening_under_a_clock_far_ahead_says_so_and_can_be_refused() {
    const DAY_MS: i64 = 24 * HOUR_MS;
    // Half a day more than whole days, because threads in the background let time pass, too, and
    // leases take some.
    const FAR_MS: i64 = 80 * 365 * DAY_MS + 12 * HOUR_MS;
    let mut place = Place::new(9);
    // There is nothing to compare the first opening with.
    place.options.refuse_clock_jump = true;
    let store = place.open();
    let first = put(&store, b"a", b"1");
    assert_eq!(store.clock_jump(), None);
    store.close().unwrap();
    place.clock.jump_ms(300 * DAY_MS);
    let store = place.open();
    assert_eq!(store.clock_jump(), None);
    let second = put(&store, b"a", b"2");
    store.close().unwrap();
    place.clock.jump_ms(FAR_MS);
    for _ in 0..2 {
        let refused = Store::open(DIR, &place.options).unwrap_err();
        assert!(matches!(refused, Error::ClockAhead { .. }), "{refused}");
        assert!(refused.to_string().contains("29200 days"), "{refused}");
    }
    // Nothing was written, so the timestamps are where they were.
    place.clock.jump_ms(-FAR_MS);
    let store = place.open();
    let third = put(&store, b"a", b"3");
    assert!(third.unix_time() - second.unix_time() < Duration::from_secs(3600));
    store.close().unwrap();
    // Without the refusal it is as far ahead as the clock, and says so.
    place.clock.jump_ms(FAR_MS);
    place.options.refuse_clock_jump = false;
    let store = place.open();
    let jump = store.clock_jump().unwrap();
    assert_eq!(jump.as_secs() / (24 * 3600), 80 * 365);
    assert!(put(&store, b"a", b"4").unix_time() - first.unix_time() > jump);
    store.close().unwrap();
    assert_eq!(place.open().clock_jump(), None);
    assert_eq!(place.open().clock_lag(), None);
    // The same of a program's oracle.
    place.options.max_clock_jump = Duration::from_secs(10);
    place.options.refuse_clock_jump = true;
    let lease = place.clock.unix_time() + Duration::from_secs(60);
    let oracle = Remote(AtomicU64::new(Timestamp::at(lease).unwrap().0));
    place.options.oracle = Some(Arc::new(oracle));
    let refused = Store::open(DIR, &place.options).unwrap_err();
    assert!(matches!(refused, Error::ClockAhead { .. }), "{refused}");
}

/// The clock under which a store was made cannot be compared with anything, so the right one shows
/// that it was far ahead.
#[test]
fn an_opening_of_a_store_that_is_far_ahead_of_the_clock_says_so_and_can_be_refused() {
    const DAY_MS: i64 = 24 * HOUR_MS;
    // Half a day more than whole days, as above.
    const FAR_MS: i64 = 80 * 365 * DAY_MS + 12 * HOUR_MS;
    let mut place = Place::new(12);
    place.clock.jump_ms(FAR_MS);
    let store = place.open();
    let first = put(&store, b"a", b"1");
    assert_eq!((store.clock_jump(), store.clock_lag()), (None, None));
    store.close().unwrap();
    place.clock.jump_ms(-FAR_MS);
    place.options.refuse_clock_jump = true;
    let refused = Store::open(DIR, &place.options).unwrap_err();
    assert!(matches!(refused, Error::ClockBehind { .. }), "{refused}");
    assert!(
        refused.to_string().contains("29200 days after the clock"),
        "{refused}"
    );
    place.options.refuse_clock_jump = false;
    for _ in 0..2 {
        let store = place.open();
        let lag = store.clock_lag().unwrap();
        assert_eq!(lag.as_secs() / (24 * 3600), 80 * 365);
        assert_eq!(store.clock_jump(), None);
        assert!(put(&store, b"a", b"2") > first);
        store.close().unwrap();
    }
    // A clock that was set back by less is no matter.
    place.clock.jump_ms(FAR_MS - 300 * DAY_MS);
    assert_eq!(place.open().clock_lag(), None);
}

/// There is no timestamp for another commit, and all that was committed can be read and taken
/// elsewhere.
#[test]
fn a_store_whose_timestamps_end_can_be_read_and_exported() {
    for left in [0, 1, 2, 1_000] {
        let mut place = Place::new(10);
        let oracle = Arc::new(Remote(AtomicU64::new(u64::MAX - left - 20)));
        place.options.oracle = Some(Arc::clone(&oracle) as Arc<dyn TimestampOracle>);
        let store = place.open();
        let mut last = Timestamp::ZERO;
        for n in 0..15_u8 {
            last = put(&store, &[n], &[n]);
        }
        store.close().unwrap();
        drop(store);
        place.options.oracle = None;
        let refused = Store::open(DIR, &place.options).unwrap_err();
        assert!(matches!(refused, Error::Oracle { .. }), "{refused}");
        let store = Store::open_read_only(DIR, &place.options).unwrap();
        for snapshot in [store.snapshot(), store.snapshot_at(last).unwrap()] {
            let rows = snapshot.scan(None, None, titan_mvcc::Direction::Forward);
            let rows: Vec<_> = rows.unwrap().map(|row| row.unwrap().key).collect();
            assert_eq!(rows, (0..15).map(|n| vec![n]).collect::<Vec<_>>());
        }
        assert_eq!(store.snapshot().get(&[3]).unwrap().unwrap(), &[3_u8][..]);
        assert_eq!(store.versions(&[3]).unwrap().count(), 1);
        assert_eq!(store.check(&mut |_| {}).unwrap().problems, []);
    }
    // A clock that is past the last timestamp is no matter for reads.
    let place = Place::new(11);
    let store = place.open();
    put(&store, b"a", b"1");
    store.close().unwrap();
    drop(store);
    place.clock.jump_ms(1 << 46);
    assert!(Store::open(DIR, &place.options).is_err());
    let store = Store::open_read_only(DIR, &place.options).unwrap();
    assert_eq!(store.snapshot().get(b"a").unwrap().unwrap(), "1");
}

/// An oracle as a server would be: it counts, and may be unreachable (0) or go back.
struct Remote(AtomicU64);

impl TimestampOracle for Remote {
    fn next(&self) -> Result<Timestamp> {
        match self.0.load(Ordering::SeqCst) {
            0 => Err(Error::oracle("unreachable")),
            _ => Ok(Timestamp(self.0.fetch_add(1, Ordering::SeqCst))),
        }
    }
}

#[test]
fn an_oracle_that_is_unreachable_or_goes_back_fails_what_needs_it() {
    let place = Place::new(5);
    let remote = Arc::new(Remote(AtomicU64::new(100)));
    let options = StoreOptions {
        oracle: Some(Arc::clone(&remote) as Arc<dyn TimestampOracle>),
        ..place.options.clone()
    };
    let store = Store::open(DIR, &options).unwrap();
    let first = put(&store, b"a", b"1");
    assert_eq!(first, Timestamp(101));
    for broken in [0, 50] {
        remote.0.store(broken, Ordering::SeqCst);
        let mut transaction = store.begin();
        transaction.put(b"a", b"2");
        let refused = transaction.commit().unwrap_err();
        assert!(matches!(refused, Error::Oracle { .. }), "{refused}");
        let found = store.snapshot().get(b"a").unwrap();
        assert_eq!(found.as_deref(), Some(&b"1"[..]));
    }
    remote.0.store(200, Ordering::SeqCst);
    let second = put(&store, b"a", b"2");
    store.advance_safe_point(second).unwrap();
    store.close().unwrap();
    // An oracle that is at an earlier timestamp than the store would hide it.
    remote.0.store(150, Ordering::SeqCst);
    let refused = Store::open(DIR, &options).unwrap_err();
    assert!(
        refused.to_string().contains("before the safe point"),
        "{refused}"
    );
}

#[test]
fn an_oracle_comes_to_its_end_without_harm() {
    let place = Place::new(9);
    let last = Arc::new(Remote(AtomicU64::new(u64::MAX - 5)));
    let options = StoreOptions {
        oracle: Some(last),
        ..place.options.clone()
    };
    let store = Store::open(DIR, &options).unwrap();
    let commit = put(&store, b"a", b"1");
    assert!(commit < Timestamp::MAX);
    let refused = loop {
        let mut transaction = store.begin();
        transaction.put(b"b", b"1");
        if let Err(refused) = transaction.commit() {
            break refused;
        }
    };
    assert!(matches!(refused, Error::Oracle { .. }), "{refused}");
    assert!(refused.to_string().contains("all timestamps"), "{refused}");
    store.advance_safe_point(store.now()).unwrap();
    let report = store.check(&mut |_| {}).unwrap();
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    store.close().unwrap();
    drop(store);
    // The store can be read for ever.
    let store = Store::open_read_only(DIR, &options).unwrap();
    assert_eq!(
        store.snapshot().get(b"a").unwrap().as_deref(),
        Some(&b"1"[..])
    );
}

#[test]
fn an_oracle_that_goes_back_after_a_transaction_took_its_name_fails_the_commit() {
    for (one_batch_bytes, async_commit) in [(1 << 20, false), (0, false), (0, true)] {
        let mut place = Place::new(6);
        place.options.transactions.one_batch_bytes = one_batch_bytes;
        place.options.transactions.async_commit = async_commit;
        let remote = Arc::new(Remote(AtomicU64::new(100)));
        let options = StoreOptions {
            oracle: Some(Arc::clone(&remote) as Arc<dyn TimestampOracle>),
            ..place.options.clone()
        };
        let store = Store::open(DIR, &options).unwrap();
        put(&store, b"a", b"1");
        remote.0.store(1000, Ordering::SeqCst);
        let mut transaction = store.begin_pessimistic().unwrap();
        assert_eq!(transaction.start(), Timestamp(1000));
        transaction.put(b"a", b"2").unwrap();
        // After everything that was committed, and before the name.
        remote.0.store(500, Ordering::SeqCst);
        let refused = transaction.commit().unwrap_err();
        assert!(matches!(refused, Error::Oracle { .. }), "{refused}");
        let locks = store.percolator().scan_locks(Timestamp::MAX, b"", 1);
        assert!(locks.is_empty(), "{locks:?}");
        remote.0.store(2000, Ordering::SeqCst);
        let found = store.snapshot().get(b"a").unwrap();
        assert_eq!(found.as_deref(), Some(&b"1"[..]));
        put(&store, b"a", b"3");
    }
}

#[test]
fn timestamps_ascend_from_one_oracle_to_the_next() {
    let place = Place::new(7);
    let with = |oracle: &Arc<Remote>| StoreOptions {
        oracle: Some(Arc::clone(oracle) as Arc<dyn TimestampOracle>),
        ..place.options.clone()
    };
    let first = put(&place.open(), b"a", b"1");
    // The clock of a server may be ahead.
    let ahead = Timestamp::at(place.clock.unix_time() + Duration::from_secs(3600)).unwrap();
    let remote = Arc::new(Remote(AtomicU64::new(ahead.0)));
    let store = Store::open(DIR, &with(&remote)).unwrap();
    let second = put(&store, b"a", b"2");
    store.advance_safe_point(second).unwrap();
    assert!(first < second && ahead < second);
    store.close().unwrap();
    drop(store);
    let found = |store: &Store| store.snapshot().get(b"a").unwrap().unwrap();
    let reader = Store::open_read_only(DIR, &place.options).unwrap();
    assert_eq!(found(&reader), "2");
    drop(reader);
    let store = place.open();
    assert_eq!(found(&store), "2");
    let report = store.check(&mut |_| {}).unwrap();
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    assert!(put(&store, b"a", b"3") > second);
    assert_eq!(found(&store), "3");
    store.close().unwrap();
    drop(store);
    // Newer versions would hide its commits.
    let earlier = Arc::new(Remote(AtomicU64::new(second.0)));
    let refused = Store::open(DIR, &with(&earlier)).unwrap_err();
    assert!(matches!(refused, Error::Oracle { .. }), "{refused}");
    assert_eq!(found(&place.open()), "3");
}
