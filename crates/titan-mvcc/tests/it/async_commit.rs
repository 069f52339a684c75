//! Async commits: decided by the prewrites alone.

use std::time::Duration;

use titan_mvcc::{Direction, Error, Mutation, Prewrite};

use super::percolator::{Bench, TTL, request};
use super::setup::{Place, put};
use super::two_phase::{locks, open, scan, values, writes};

#[test]
fn an_async_commit_is_acknowledged_after_the_first_phase() {
    for reopen in [false, true] {
        let mut place = Place::new(1);
        let store = open(&mut place, true);
        put(&store, b"b", b"old");
        let before = store.snapshot();
        let prewritten = writes(&store, &["a", "b", "c"], b"new").prewrite().unwrap();
        let commit = prewritten.committed().unwrap();
        // Its owner dies: it has committed.
        drop(prewritten);
        assert_eq!(store.now(), commit);
        assert_eq!(
            before.batch_get(&["a", "b"]).unwrap(),
            [None, Some("old".into())]
        );
        assert_eq!(locks(&store), 3);
        drop(before);
        let store = match reopen {
            false => store,
            true => {
                store.close().unwrap();
                place.open()
            }
        };
        assert_eq!(
            scan(&store, Direction::Forward),
            ["a=new", "b=new", "c=new"]
        );
        assert_eq!(locks(&store), 0);
        let at = store.snapshot_at(commit).unwrap();
        assert_eq!(at.get(b"c").unwrap().as_deref(), Some(&b"new"[..]));
    }
}

#[test]
fn a_writer_finishes_an_async_commit_whose_owner_is_gone() {
    let mut place = Place::new(2);
    let store = open(&mut place, true);
    drop(writes(&store, &["a", "b"], b"1").prewrite().unwrap());
    writes(&store, &["b"], b"2").commit().unwrap();
    assert_eq!(
        values(&store, &["a", "b"]),
        [Some("1".into()), Some("2".into())]
    );
}

/// Prewrites some keys of an async commit of `p`, `s1` and `s2`.
fn prewrite(
    bench: &Bench,
    start: titan_mvcc::Timestamp,
    keys: &[&'static [u8]],
) -> titan_mvcc::Timestamp {
    let secondaries = [b"s1".to_vec().into(), b"s2".to_vec().into()];
    let puts: Vec<_> = keys
        .iter()
        .map(|key| Mutation::Put { key, value: b"v" })
        .collect();
    let request = Prewrite {
        secondaries: Some(&secondaries),
        ..request(start, b"p", &puts)
    };
    bench.calls.prewrite(&request).unwrap().min_commit
}

#[test]
fn an_async_commit_that_lacks_a_key_is_not_seen_and_is_later_than_every_read() {
    let bench = Bench::new(3);
    let start = bench.ts();
    prewrite(&bench, start, &[b"p", b"s1"]);
    let reader = bench.store.snapshot_at(bench.ts()).unwrap();
    assert_eq!(
        reader.batch_get(&["p", "s1", "s2"]).unwrap(),
        [None, None, None]
    );
    assert_eq!(
        reader.scan(None, None, Direction::Forward).unwrap().count(),
        0
    );
    let commit = prewrite(&bench, start, &[b"s2"]);
    assert!(commit > reader.timestamp());
    assert_eq!(
        reader.batch_get(&["p", "s1", "s2"]).unwrap(),
        [None, None, None]
    );
    for key in ["s1", "s2", "p"] {
        assert_eq!(bench.read(key.as_bytes()).unwrap(), b"v");
    }
    assert!(bench.locks().is_empty());
}

#[test]
fn an_async_commit_that_lacks_a_key_is_rolled_back_when_its_time_is_over() {
    let bench = Bench::new(4);
    let start = bench.ts();
    prewrite(&bench, start, &[b"p", b"s2"]);
    let blocked = {
        let mut writer = bench.store.begin();
        writer.put(b"s2", b"other");
        bench.place.clock.advance(TTL / 2);
        writer.commit()
    };
    // The wait for it let its time pass, or did not.
    assert!(matches!(blocked, Err(Error::KeyIsLocked(_))), "{blocked:?}");
    bench.place.clock.advance(TTL + Duration::from_secs(1));
    put(&bench.store, b"s2", b"other");
    assert_eq!(bench.read(b"p"), None);
    assert_eq!(bench.read(b"s2").unwrap(), b"other");
    assert!(bench.locks().is_empty());
    let late = bench.put(start, &[b"s1"]).unwrap_err();
    assert!(matches!(late, Error::RolledBack { .. }), "{late}");
}
