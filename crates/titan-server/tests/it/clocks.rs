//! A clock of the system that jumps: what timestamps, locks and times to live make of it.

use titan_server::proto::kvrpcpb::*;
use titan_server::{Error, Node};

use crate::cluster::{Cluster, ask};
use crate::place::{NOW, Place};

const HOUR: u64 = 3600;
const YEAR: u64 = 366 * 24 * HOUR;

/// Seconds since 1970 of a timestamp.
fn seconds(timestamp: u64) -> u64 {
    (timestamp >> 18) / 1000
}

#[test]
fn timestamps_go_on_when_the_clock_goes_back_also_over_a_restart() {
    let place = Place::new();
    let mut cluster = place.start();
    let mut last = cluster.ts();
    assert_eq!(seconds(last), NOW);
    let mut later = |cluster: &Cluster, count| {
        let first = cluster.timestamps(count);
        assert!(first > last, "{first} after {last}");
        last = first + u64::from(count) - 1;
        last
    };
    place.clock.set(NOW - HOUR);
    for count in [1, 1000, 1, 200_000, 1] {
        later(&cluster, count);
    }
    cluster.restart();
    // The time of timestamps stands still. An opening begins at the end of the last lease.
    assert!((NOW..NOW + 5).contains(&seconds(later(&cluster, 1))));
    place.clock.set(1);
    cluster.restart();
    assert!((NOW..NOW + 5).contains(&seconds(later(&cluster, 1))));
    place.clock.set(NOW + HOUR);
    assert_eq!(seconds(later(&cluster, 1)), NOW + HOUR);
}

#[test]
fn a_start_with_a_clock_that_is_far_ahead_is_reported_or_refused() {
    let place = Place::new();
    let cluster = place.start();
    let last = cluster.ts();
    drop(cluster);
    place.clock.set(NOW + 2 * YEAR);
    let mut refusing = place.options();
    refusing.storage.refuse_clock_jump = true;
    let refused = match Node::start("/node", &refusing) {
        Ok(_) => panic!("the node has started"),
        Err(error) => error,
    };
    let is_clock =
        |error: &Error| matches!(error, Error::Store(titan_mvcc::Error::ClockAhead { .. }));
    assert!(is_clock(&refused), "{refused}");
    // Nothing was taken: with the right clock the node goes on.
    place.clock.set(NOW + 5);
    let cluster = place.start_with(refusing);
    let next = cluster.ts();
    assert!(next > last && seconds(next) == NOW + 5);
    drop(cluster);
    place.clock.set(NOW + 2 * YEAR);
    let node = Node::start("/node", &place.options()).unwrap();
    let jump = node.clock_jump().unwrap();
    assert!((2 * YEAR - 10..2 * YEAR).contains(&jump.as_secs()));
    node.stop().unwrap();
}

/// The action of another client that meets the lock of the key `k` now.
fn meet(cluster: &Cluster, start: u64) -> Action {
    let now = cluster.ts();
    let request = CheckTxnStatusRequest {
        context: cluster.context(),
        primary_key: "k".into(),
        lock_ts: start,
        caller_start_ts: now,
        current_ts: now,
        ..CheckTxnStatusRequest::default()
    };
    ask!(cluster, kv_check_txn_status, request).action()
}

#[test]
fn a_clock_that_goes_back_ends_no_lock_early_and_a_later_time_ends_it() {
    let place = Place::new();
    let cluster = place.start();
    let start = cluster.prewrite("k");
    place.clock.set(NOW - HOUR);
    assert_eq!(meet(&cluster, start), Action::MinCommitTsPushed);
    place.clock.set(NOW + 2);
    assert_eq!(meet(&cluster, start), Action::MinCommitTsPushed);
    place.clock.set(NOW + 4);
    assert_eq!(meet(&cluster, start), Action::TtlExpireRollback);
    // A lock that begins while timestamps are ahead of the clock has its whole time.
    place.clock.set(NOW - HOUR);
    let start = cluster.prewrite("k");
    assert_eq!(meet(&cluster, start), Action::MinCommitTsPushed);
    place.clock.set(seconds(start) + 4);
    assert_eq!(meet(&cluster, start), Action::TtlExpireRollback);
}

#[test]
fn raw_values_expire_by_the_time_of_day() {
    let place = Place::new();
    let cluster = place.start();
    let put = RawPutRequest {
        context: cluster.context(),
        key: "k".into(),
        value: "v".into(),
        ttl: 10,
        ..RawPutRequest::default()
    };
    assert_eq!(ask!(cluster, raw_put, put), RawPutResponse::default());
    let left = || {
        let request = RawGetKeyTtlRequest {
            context: cluster.context(),
            key: "k".into(),
            ..RawGetKeyTtlRequest::default()
        };
        let answer = ask!(cluster, raw_get_key_ttl, request);
        (!answer.not_found).then_some(answer.ttl)
    };
    place.clock.set(NOW + 4);
    assert_eq!(left(), Some(6));
    place.clock.set(NOW - 5);
    assert_eq!(left(), Some(15));
    place.clock.set(NOW + 10);
    assert_eq!(left(), None);
}
