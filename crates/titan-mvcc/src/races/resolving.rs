//! A reader is stopped at a lock, and the transaction that has it goes on; or the commit is
//! stopped, and a reader comes.

use titan_testkit::gates::{come_to, race};

use super::{Raced, get, put};
use crate::{Error, Timestamp};

/// Ends the transaction whose lock a reader has found. The timestamp is one from before the reader.
type End = fn(&Raced, Timestamp, Timestamp);

const ENDS: [(&str, End, &str); 4] = [
    (
        "committed before the reader",
        |raced, start, at| raced.commit(b"a", start, at).unwrap(),
        "new",
    ),
    (
        "rolled back",
        |raced, start, _| {
            raced
                .store
                .percolator()
                .batch_rollback(&[b"a"], start)
                .unwrap();
        },
        "old",
    ),
    (
        "committed before the reader, and overwritten after it",
        |raced, start, at| {
            raced.commit(b"a", start, at).unwrap();
            put(&raced.store, b"a", b"newer");
        },
        "new",
    ),
    (
        "rolled back, and locked by another transaction",
        |raced, start, _| {
            raced
                .store
                .percolator()
                .batch_rollback(&[b"a"], start)
                .unwrap();
            raced.prewrite(b"a", b"newer", raced.next()).unwrap();
        },
        "old",
    ),
];

#[test]
fn a_reader_finds_what_was_decided_while_it_looked_at_the_lock() {
    for (what, end, expected) in ENDS {
        race(move |gates| {
            let raced = Raced::new(gates);
            put(&raced.store, b"a", b"old");
            let start = raced.next();
            raced.prewrite(b"a", b"new", start).unwrap();
            let (commit, at) = (raced.next(), raced.next());
            let snapshot = raced.store.snapshot_at(at).unwrap();
            let stop = gates.stop_at("read: has found a lock");
            let own = snapshot.clone();
            let reader = raced.spawn("reader", move |_| get(&own, b"a"));
            stop.reached();
            end(&raced, start, commit);
            stop.open();
            assert_eq!(reader.join().as_deref(), Some(expected), "{what}");
            assert_eq!(get(&snapshot, b"a").as_deref(), Some(expected), "{what}");
            drop(snapshot);
            raced.finish();
        });
    }
}

#[test]
fn a_commit_that_a_reader_has_pushed_is_after_the_reader() {
    race(|gates| {
        let raced = Raced::new(gates);
        put(&raced.store, b"a", b"old");
        let start = raced.next();
        raced.prewrite(b"a", b"new", start).unwrap();
        let (commit, at) = (raced.next(), raced.next());
        let snapshot = raced.store.snapshot_at(at).unwrap();
        let stop = gates.stop_at("read: has pushed");
        let own = snapshot.clone();
        let reader = raced.spawn("reader", move |_| get(&own, b"a"));
        stop.reached();
        match raced.commit(b"a", start, commit) {
            Err(Error::CommitTsExpired { min_commit, .. }) => assert!(min_commit > at),
            other => panic!("{other:?}"),
        }
        raced.commit(b"a", start, raced.next()).unwrap();
        stop.open();
        assert_eq!(reader.join().as_deref(), Some("old"));
        assert_eq!(get(&snapshot, b"a").as_deref(), Some("old"));
        drop(snapshot);
        let now = raced.store.snapshot();
        assert_eq!(get(&now, b"a").as_deref(), Some("new"));
        drop(now);
        raced.finish();
    });
}

#[test]
fn a_reader_waits_for_a_commit_before_it_that_is_being_written() {
    race(|gates| {
        let raced = Raced::new(gates);
        put(&raced.store, b"a", b"old");
        let start = raced.next();
        raced.prewrite(b"a", b"new", start).unwrap();
        let (commit, at) = (raced.next(), raced.next());
        let stop = gates.stop_at("commit: chosen");
        let owner = raced.spawn("owner", move |store| {
            store.percolator().commit(&[b"a"], start, commit)
        });
        stop.reached();
        let snapshot = raced.store.snapshot_at(at).unwrap();
        let own = snapshot.clone();
        let reader = raced.spawn("reader", move |_| {
            let found = get(&own, b"a");
            come_to("reader: has read");
            found
        });
        let outcomes = ["read: waits for a commit", "reader: has read"];
        assert_eq!(gates.first_of(&outcomes), outcomes[0]);
        stop.open();
        owner.join().unwrap();
        assert_eq!(reader.join().as_deref(), Some("new"));
        drop(snapshot);
        raced.finish();
    });
}
