//! A commit is stopped between its timestamp and its publication.

use titan_testkit::gates::{come_to, race};

use super::{Raced, get, put};

#[test]
fn a_later_commit_is_neither_seen_nor_acknowledged_before_it() {
    race(|gates| {
        let raced = Raced::new(gates);
        let stop = gates.stop_at("commit: has its timestamp");
        let older = raced.spawn("older", |store| put(store, b"a", b"1"));
        stop.reached();
        let later = raced.spawn("later", |store| {
            let commit = put(store, b"b", b"2");
            come_to("later: acknowledged");
            commit
        });
        let outcomes = ["order: waits", "later: acknowledged"];
        assert_eq!(gates.first_of(&outcomes), outcomes[0]);
        let between = raced.store.snapshot();
        let seen = [&b"a"[..], b"b"].map(|key| get(&between, key));
        assert_eq!(seen, [None, None]);
        stop.open();
        let [older, later] = [older, later].map(|actor| actor.join());
        assert!(between.timestamp() < older && older < later);
        // The same again, and all that was acknowledged.
        let seen = [&b"a"[..], b"b"].map(|key| get(&between, key));
        assert_eq!(seen, [None, None]);
        let now = raced.store.snapshot();
        assert_eq!(now.timestamp(), later);
        let seen = [&b"a"[..], b"b"].map(|key| get(&now, key).unwrap());
        assert_eq!(seen, ["1", "2"]);
        raced.finish();
    });
}

/// A reader at a timestamp after both waits for the older one.
#[test]
fn a_reader_at_a_later_timestamp_waits_for_it() {
    race(|gates| {
        let raced = Raced::new(gates);
        let stop = gates.stop_at("commit: has its timestamp");
        let older = raced.spawn("older", |store| put(store, b"a", b"1"));
        stop.reached();
        let at = raced.next();
        let reader = raced.spawn("reader", move |store| {
            let snapshot = store.snapshot_at(at).unwrap();
            come_to("reader: reads");
            get(&snapshot, b"a")
        });
        let outcomes = ["order: waits", "reader: reads"];
        assert_eq!(gates.first_of(&outcomes), outcomes[0]);
        stop.open();
        assert!(older.join() < at);
        assert_eq!(reader.join().as_deref(), Some("1"));
        raced.finish();
    });
}
