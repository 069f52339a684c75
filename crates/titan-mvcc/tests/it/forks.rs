//! Children that are forked while a store is open: they read, change nothing and wait for nothing.

use std::time::Duration;

use titan::ErrorKind;
use titan_mvcc::{
    Direction, Error, Mutation, PessimisticLock, Prewrite, Store, StoreOptions, Wait,
};
use titan_testkit::child::in_child;

use crate::setup::put;

const SECONDS: u32 = 60;

fn refused<T>(what: &str, outcome: Result<T, Error>) {
    match outcome {
        Ok(_) => panic!("{what}: it succeeded"),
        Err(Error::Engine(e)) if e.kind() == ErrorKind::ReadOnly => {}
        Err(e) => panic!("{what}: {e}"),
    }
}

fn read_all(store: &Store, expected: &[(Vec<u8>, Vec<u8>)]) {
    let snapshot = store.snapshot();
    for (key, value) in expected {
        assert_eq!(snapshot.get(key).unwrap().as_deref(), Some(&value[..]));
    }
    let scan = snapshot.scan(None, None, Direction::Forward).unwrap();
    let row = |row: titan_mvcc::Row| (row.key.to_vec(), row.value.fetch().unwrap().to_vec());
    let mut found: Vec<_> = scan.map(|found| row(found.unwrap())).collect();
    let ours = |(key, _): &(Vec<u8>, Vec<u8>)| key.starts_with(b"row");
    found.retain(ours);
    assert_eq!(found, expected);
}

/// Everything that would change the store, or wait for a thread of it.
fn refuses_changes(store: &Store) {
    let mut transaction = store.begin();
    transaction.put(b"row00", b"of the child");
    refused("commit", transaction.commit());
    let mut transaction = store.begin();
    transaction.put(b"child", b"1");
    refused("prewrite", transaction.prewrite());
    refused("begin_pessimistic", store.begin_pessimistic());
    let written = store.transaction(|transaction| {
        transaction.put(b"child", b"1");
        Ok(())
    });
    refused("transaction", written);
    let calls = store.percolator();
    let (start, key) = (store.now(), &b"child"[..]);
    let mutations = [Mutation::Put { key, value: b"1" }];
    let prewrite = calls.prewrite(&Prewrite {
        mutations: &mutations,
        primary: key,
        start,
        read_at: start,
        ttl: Duration::from_secs(1),
        txn_size: 1,
        min_commit: start,
        for_update: None,
        secondaries: None,
    });
    refused("prewrite of a client", prewrite);
    let lock = PessimisticLock {
        primary: key,
        start,
        for_update: start,
        since: start,
        ttl: Duration::from_secs(1),
        wait: Wait::For(Duration::from_secs(1000)),
        return_values: true,
    };
    refused("lock of a client", calls.pessimistic_lock(&[key], &lock));
    refused("commit of a client", calls.commit(&[key], start, start));
    refused("rollback", calls.batch_rollback(&[key], start));
    refused("rollback", calls.pessimistic_rollback(&[key], start, start));
    let released = calls.pessimistic_rollback_range(start, start, b"", None);
    refused("rollback of a range", released);
    refused("destroy_range", calls.destroy_range(b"", None));
    refused("cleanup", calls.cleanup(key, start, start));
    let status = calls.check_transaction_status(key, start, start, start, true);
    refused("status", status);
    refused("secondaries", calls.check_secondary_locks(&[key], start));
    refused("heartbeat", calls.heartbeat(key, start, Duration::MAX));
    refused("resolve", calls.resolve_lock(start, None, None));
    refused("advance_safe_point", store.advance_safe_point(store.now()));
    refused("drop_old_versions", store.drop_old_versions());
    refused("sweep", store.sweep());
    refused("space_report", store.space_report());
    refused("close", store.close());
}

#[test]
fn no_commit_of_a_parent_is_lost_to_its_children() {
    let place = tempfile::tempdir().unwrap();
    let options = StoreOptions::default();
    let store = Store::open(place.path(), &options).unwrap();
    let mut expected: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    for round in 0..10 {
        let key = format!("row{round:02}").into_bytes();
        put(&store, &key, b"of the parent");
        expected.push((key, b"of the parent".to_vec()));
        let mut of_child = Some(store.clone());
        in_child(SECONDS, || {
            let store = of_child.take().unwrap();
            read_all(&store, &expected);
            refuses_changes(&store);
            Ok(())
        })
        .unwrap();
    }
    store.close().unwrap();
    drop(store);
    let store = Store::open(place.path(), &options).unwrap();
    read_all(&store, &expected);
    assert_eq!(store.check(&mut |_| {}).unwrap().problems_found, 0);
}

/// Locks of the parent are in the child's memory, too. They belong to the parent's transactions.
#[test]
fn transactions_under_way_stay_with_the_parent() {
    let place = tempfile::tempdir().unwrap();
    let store = Store::open(place.path(), &StoreOptions::default()).unwrap();
    put(&store, b"row", b"before");
    let mut optimistic = store.begin();
    optimistic.put(b"optimistic", b"1");
    let mut pessimistic = store.begin_pessimistic().unwrap();
    pessimistic.put(b"pessimistic", b"1").unwrap();
    let mut large = store.begin();
    large.put(b"row", b"after");
    large.put(b"other", b"1");
    let prewritten = large.prewrite().unwrap();
    let mut committed = store.begin();
    committed.put(b"first", b"1");
    committed.put(b"second", b"1");
    let committed = committed.prewrite().unwrap().commit_primary().unwrap();
    let now = committed.timestamp();
    let mut handles = Some((store, optimistic, pessimistic, prewritten, committed));
    in_child(SECONDS, || {
        let (store, optimistic, mut pessimistic, prewritten, committed) = handles.take().unwrap();
        assert_eq!(store.now(), now);
        let snapshot = store.snapshot();
        for key in ["first", "second"] {
            let got = snapshot.get(key.as_bytes()).unwrap();
            assert_eq!(got.as_deref(), Some(&b"1"[..]), "{key}");
        }
        let beyond = store.snapshot_at(titan_mvcc::Timestamp(now.0 + 1));
        refused("snapshot_at", beyond);
        refused("commit", optimistic.commit());
        refused("get_for_update", pessimistic.get_for_update(b"x"));
        refused("put", pessimistic.put(b"x", b"1"));
        refused("heartbeat", pessimistic.heartbeat());
        refused("commit", pessimistic.commit());
        refused("commit", prewritten.commit());
        assert_eq!(committed.commit_secondaries(), now);
        drop((snapshot, store));
        Ok(())
    })
    .unwrap();
    let (store, optimistic, pessimistic, prewritten, committed) = handles.unwrap();
    committed.commit_secondaries();
    optimistic.commit().unwrap();
    pessimistic.commit().unwrap();
    prewritten.commit().unwrap();
    for (key, value) in [
        ("row", "after"),
        ("other", "1"),
        ("optimistic", "1"),
        ("pessimistic", "1"),
        ("first", "1"),
        ("second", "1"),
    ] {
        let got = store.snapshot().get(key.as_bytes()).unwrap();
        assert_eq!(got.as_deref(), Some(value.as_bytes()), "{key}");
    }
    store.close().unwrap();
}
