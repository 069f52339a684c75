//! Times and timestamps at their limits.

use std::time::Duration;

use titan_mvcc::{Demands, Error, Mutation, Prewrite, Timestamp, TransactionStatus};

use super::percolator::{Bench, request};
use super::setup::put;
use super::sweeps::by_hand;

const PUT: &[Mutation<'_>] = &[Mutation::Put {
    key: b"k",
    value: b"v",
}];

#[test]
fn a_lock_whose_time_to_live_is_for_ever_expires_at_no_timestamp() {
    let bench = Bench::new(1);
    let start = bench.ts();
    let for_ever = Prewrite {
        ttl: Duration::MAX,
        ..request(start, b"k", PUT)
    };
    bench.calls.prewrite(&for_ever).unwrap();
    let now = bench.ts();
    let status = bench
        .calls
        .check_transaction_status(b"k", start, now, now, true);
    assert!(
        matches!(status, Ok(TransactionStatus::Running { .. })),
        "{status:?}"
    );
    let held = bench.calls.cleanup(b"k", start, now);
    assert!(matches!(held, Err(Error::KeyIsLocked(_))), "{held:?}");
    bench.calls.cleanup(b"k", start, Timestamp::MAX).unwrap();
    assert_eq!(bench.read(b"k"), None);
}

#[test]
fn a_bound_may_be_one_after_the_last_timestamp_and_no_more() {
    for secondaries in [None, Some(&[][..])] {
        for one_phase in [false, true] {
            let bench = Bench::new(3);
            let start = bench.ts();
            let demands = Demands {
                one_phase,
                ..Demands::default()
            };
            let prewrite = |min_commit| {
                let request = Prewrite {
                    min_commit: Timestamp(min_commit),
                    secondaries,
                    ..request(start, b"k", PUT)
                };
                bench.calls.prewrite_with(&request, &demands)
            };
            let late = prewrite(start.0 + (3_600_000 << 18));
            assert!(matches!(late, Err(Error::InFuture { .. })), "{late:?}");
            let start_and_one = start.0 + 1;
            let prewritten = prewrite(start_and_one).unwrap();
            assert!(prewritten.min_commit.0 >= start_and_one);
            let own = prewritten.committed.is_some() || prewritten.is_async;
            assert!(!own || bench.ts() > prewritten.min_commit);
        }
    }
}

#[test]
fn a_status_for_a_reader_in_the_future_is_refused_and_pushes_nothing() {
    let bench = Bench::new(2);
    let start = bench.ts();
    bench.put(start, &[b"k"]).unwrap();
    let now = bench.ts();
    for reader in [
        Timestamp(now.0 + (3_600_000 << 18)),
        Timestamp(u64::MAX - 1),
    ] {
        let status = bench
            .calls
            .check_transaction_status(b"k", start, reader, now, true);
        assert!(matches!(status, Err(Error::InFuture { .. })), "{status:?}");
    }
    bench.calls.commit(&[b"k"], start, bench.ts()).unwrap();
    assert_eq!(bench.read(b"k").as_deref(), Some(&b"v"[..]));
}

#[test]
fn a_sweeper_whose_interval_is_for_ever_sweeps_when_it_is_woken() {
    let mut place = by_hand(3, Duration::ZERO);
    place.options.sweep_interval = Duration::MAX;
    let store = place.open();
    let swept = |times| {
        while store.sweep_stats().sweeps < times {
            std::thread::yield_now();
        }
    };
    swept(1);
    put(&store, b"k", b"1");
    let held = store.snapshot();
    put(&store, b"k", b"2");
    // Moving the safe point by hand wakes it. The snapshot leaves it something to wait for.
    store.advance_safe_point(store.now()).unwrap();
    swept(2);
    drop(held);
    store.advance_safe_point(store.now()).unwrap();
    swept(3);
    store.close().unwrap();
}
