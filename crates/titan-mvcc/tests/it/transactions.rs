//! Transactions: own writes, conflicts, locks.

use std::time::Duration;

use titan::{Reader, Retry};
use titan_mvcc::{Direction, Error, Store, StoreOptions, Transaction};

use super::setup::{Place, delete, put};

fn keys(transaction: &Transaction, from: &str, to: &str, direction: Direction) -> Vec<String> {
    let (from, to) = (Some(from.as_bytes()), Some(to.as_bytes()));
    let scan = transaction.scan(from, to, direction).unwrap();
    let row = |row: titan_mvcc::Row| {
        let text = [&row.key[..], b"=", &row.value.fetch().unwrap()].concat();
        String::from_utf8(text).unwrap()
    };
    scan.map(|found| row(found.unwrap())).collect()
}

fn conflicts(transaction: Transaction, key: &[u8]) {
    match transaction.commit() {
        Err(Error::Conflict {
            key: found,
            start,
            committed,
            ..
        }) => {
            assert_eq!(found, key);
            assert!(start < committed);
        }
        other => panic!("no conflict: {other:?}"),
    }
}

#[test]
fn a_transaction_reads_its_own_writes_and_nobody_else_does() {
    let place = Place::new(1);
    let store = place.open();
    for key in ["a", "b", "c", "d"] {
        put(&store, key.as_bytes(), b"0");
    }
    let mut transaction = store.begin();
    transaction.put(b"b", b"1");
    transaction.put(b"bb", b"1");
    transaction.delete(b"c");
    transaction.lock(b"d");
    transaction.put(b"e", b"1");
    transaction.lock(b"e");
    put(&store, b"a", b"2");
    assert_eq!(transaction.get(b"a").unwrap().as_deref(), Some(&b"0"[..]));
    assert_eq!(transaction.get(b"c").unwrap(), None);
    assert_eq!(transaction.get(b"d").unwrap().as_deref(), Some(&b"0"[..]));
    let batch = transaction.batch_get(&["e", "x"]).unwrap();
    assert_eq!(batch, [Some("1".into()), None]);
    let mut expected = vec!["a=0", "b=1", "bb=1", "d=0", "e=1"];
    assert_eq!(keys(&transaction, "", "z", Direction::Forward), expected);
    expected.reverse();
    assert_eq!(keys(&transaction, "", "z", Direction::Backward), expected);
    assert_eq!(
        keys(&transaction, "b", "c", Direction::Backward),
        ["bb=1", "b=1"]
    );
    for (from, to) in [("c", "b"), ("b", "b")] {
        assert_eq!(keys(&transaction, from, to, Direction::Forward), [""; 0]);
    }
    assert_eq!(store.snapshot().get(b"e").unwrap(), None);
    let committed = transaction.commit().unwrap();
    assert_eq!(store.now(), committed);
    let found = store.snapshot().batch_get(&["a", "b", "c", "e"]).unwrap();
    let expected = [Some("2".into()), Some("1".into()), None, Some("1".into())];
    assert_eq!(found, expected);
}

#[test]
fn every_kind_of_write_conflicts_with_every_other() {
    let place = Place::new(2);
    let store = place.open();
    let kinds: [fn(&mut Transaction); 3] = [
        |it| it.put(b"k", b"v"),
        |it| it.delete(b"k"),
        |it| it.lock(b"k"),
    ];
    for first in kinds {
        for second in kinds {
            let (mut a, mut b) = (store.begin(), store.begin());
            first(&mut a);
            second(&mut b);
            b.put(b"other", b"b");
            a.commit().unwrap();
            conflicts(b, b"k");
            assert_eq!(store.snapshot().get(b"other").unwrap(), None);
        }
    }
}

#[test]
fn what_does_not_overlap_does_not_conflict() {
    let place = Place::new(3);
    let store = place.open();
    put(&store, b"a", b"1");
    let (mut a, mut b, reader) = (store.begin(), store.begin(), store.begin());
    a.put(b"a", b"2");
    b.put(b"b", b"2");
    a.commit().unwrap();
    b.commit().unwrap();
    let start = reader.start();
    assert_eq!(reader.commit().unwrap(), start);
    let mut later = store.begin();
    later.put(b"a", b"3");
    later.commit().unwrap();
    let mut dropped = store.begin();
    dropped.put(b"a", b"4");
    dropped.rollback();
    assert_eq!(
        store.snapshot().get(b"a").unwrap().as_deref(),
        Some(&b"3"[..])
    );
}

#[test]
fn locks_prevent_write_skew() {
    let place = Place::new(4);
    let store = place.open();
    put(&store, b"on duty: a", b"yes");
    put(&store, b"on duty: b", b"yes");
    for locked in [false, true] {
        let (mut a, mut b) = (store.begin(), store.begin());
        if locked {
            a.lock(b"on duty: b");
            b.lock(b"on duty: a");
        }
        a.put(b"on duty: a", b"no");
        b.put(b"on duty: b", b"no");
        a.commit().unwrap();
        match locked {
            false => drop(b.commit().unwrap()),
            true => conflicts(b, b"on duty: a"),
        }
    }
}

#[test]
fn a_conflict_is_found_in_tables_after_compactions() {
    let place = Place::new(5);
    let store = place.open();
    let mut old = store.begin();
    old.put(b"k", b"old");
    delete(&store, b"k");
    store.db().flush_all().unwrap();
    store.drop_old_versions().unwrap();
    conflicts(old, b"k");
}

/// The content that a reader shows, by each method of the interface that it shares with the engine.
fn shown<R: Reader>(reader: &R) -> Vec<String> {
    let text = |row: Result<(titan::Bytes, titan::LazyValue), R::Error>| {
        let (key, value) = row.unwrap();
        let value = value.fetch().unwrap();
        assert_eq!(reader.get(&key).unwrap().unwrap(), value);
        assert!(reader.contains(&key).unwrap());
        format!("{}={}", key.escape_ascii(), value.escape_ascii())
    };
    let forward: Vec<String> = reader
        .scan(Some(b"a"), Some(b"z"))
        .unwrap()
        .map(text)
        .collect();
    let backward = reader.scan_backward(Some(b"a"), Some(b"z")).unwrap();
    let mut backward: Vec<String> = backward.map(text).collect();
    backward.reverse();
    assert_eq!(forward, backward);
    assert!(!reader.contains(b"nowhere").unwrap());
    forward
}

#[test]
fn snapshots_and_transactions_read_by_one_interface() {
    let place = Place::new(3);
    let store = place.open();
    put(&store, b"a", b"1");
    put(&store, b"b", b"2");
    let before = store.snapshot();
    let mut optimistic = store.begin();
    optimistic.put(b"c", b"own");
    optimistic.delete(b"a");
    put(&store, b"b", b"3");
    let mut pessimistic = store.begin_pessimistic().unwrap();
    pessimistic.put(b"d", b"own").unwrap();
    assert_eq!(shown(&before), ["a=1", "b=2"]);
    assert_eq!(shown(&store.snapshot()), ["a=1", "b=3"]);
    assert_eq!(shown(&optimistic), ["b=2", "c=own"]);
    assert_eq!(shown(&pessimistic), ["a=1", "b=3", "d=own"]);
}

#[test]
fn a_transaction_is_run_again_until_nobody_is_in_the_way() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), &StoreOptions::default()).unwrap();
    let next = |before: Option<titan::Bytes>| [before.map_or(0, |value| value[0]) + 1];
    let patient = Retry {
        attempts: 1000,
        ..Retry::default()
    };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..25 {
                    let added = store.transaction_with(&patient, |t| {
                        let sum = next(t.get(b"sum")?);
                        std::thread::yield_now();
                        t.put(b"sum", &sum);
                        Ok::<_, Error>(())
                    });
                    added.unwrap();
                    let added = store.pessimistic_transaction_with(&patient, |t| {
                        let sum = next(t.get_for_update(b"sum")?);
                        t.put(b"sum", &sum)
                    });
                    added.unwrap();
                }
            });
        }
    });
    assert_eq!(store.snapshot().get(b"sum").unwrap().unwrap(), [100][..]);

    // Its commit comes after another one, each time.
    let mut runs = 0;
    let few = Retry {
        attempts: 3,
        longest_wait: Duration::ZERO,
        ..Retry::default()
    };
    let outcome = store.transaction_with(&few, |t| {
        runs += 1;
        t.put(b"sum", b"lost");
        put(&store, b"sum", b"won");
        Ok::<_, Error>(())
    });
    let error = outcome.unwrap_err();
    assert!(
        error.is_retryable() && matches!(error, Error::Conflict { .. }),
        "{error}"
    );
    assert_eq!(runs, 3);
    // An error that lasts ends it at once.
    let mut runs = 0;
    let outcome = store.transaction(|_| {
        runs += 1;
        Err::<(), _>(Error::oracle("for the test"))
    });
    assert!(outcome.is_err() && runs == 1);
}
