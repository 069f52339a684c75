//! The contract of a store, for every implementation.

#![allow(clippy::unwrap_used, reason = "these are tests")]

use titan::DbOptions;

use super::{Commit, Direction, EngineKv, EngineOptions, Kv, MemoryKv, Scan, Space};

/// Runs a check on every implementation.
fn every_store(check: impl Fn(&dyn Kv)) {
    check(&MemoryKv::new());
    let dir = tempfile::tempdir().unwrap();
    let store = EngineKv::open(dir.path(), &EngineOptions::default()).unwrap();
    check(&store);
    store.close().unwrap();
    #[cfg(feature = "tikv")]
    {
        let node = super::tikv::node::TestNode::new();
        let store = super::TikvKv::open(&node.url("")).unwrap();
        check(&store);
        store.close().unwrap();
    }
    #[cfg(all(feature = "etcd", workspace))]
    if let Some(etcd) = tifs_testkit::etcd::Etcd::start(1, &[]) {
        let url = super::RemoteUrl::parse(&etcd.url("volume", "")).unwrap();
        let store = super::EtcdKv::open(&url).unwrap();
        check(&store);
        store.close().unwrap();
    }
}

fn put(store: &dyn Kv, space: Space, key: &[u8], value: &[u8]) {
    let mut transaction = store.begin().unwrap();
    transaction.put(space, key, value).unwrap();
    assert_eq!(transaction.commit().unwrap(), Commit::Committed);
}

fn keys(pairs: &[super::Pair]) -> Vec<&[u8]> {
    pairs.iter().map(|(key, _)| &key[..]).collect()
}

#[test]
fn a_transaction_sees_its_own_writes_and_the_moment_of_its_beginning() {
    every_store(|store| {
        put(store, Space::Meta, b"a", b"1");
        let mut transaction = store.begin().unwrap();
        put(store, Space::Meta, b"a", b"2");
        put(store, Space::Meta, b"c", b"2");
        transaction.put(Space::Meta, b"b", b"own").unwrap();
        let value = transaction.get(Space::Meta, b"a").unwrap();
        assert_eq!(value.as_deref(), Some(&b"1"[..]));
        let all = transaction.scan(&Scan::prefix(Space::Meta, b"")).unwrap();
        assert_eq!(keys(&all), [b"a", b"b"]);
        let lengths = [b"a".to_vec(), b"c".to_vec()];
        let lengths = transaction.value_lengths(Space::Meta, &lengths).unwrap();
        assert_eq!(lengths, [Some(1), None]);
        // Without a write of the same keys there is no conflict.
        assert_eq!(transaction.commit().unwrap(), Commit::Committed);
        let value = store.get(Space::Meta, b"b").unwrap();
        assert_eq!(value.as_deref(), Some(&b"own"[..]));
    });
}

#[test]
fn writes_and_guards_conflict_and_reads_do_not() {
    every_store(|store| {
        put(store, Space::Meta, b"a", b"1");
        for (touch, expected) in [
            ("read", Commit::Committed),
            ("guard", Commit::Conflict),
            ("write", Commit::Conflict),
            ("delete", Commit::Conflict),
        ] {
            let mut transaction = store.begin().unwrap();
            match touch {
                "read" => drop(transaction.get(Space::Meta, b"a").unwrap()),
                "guard" => transaction.guard(Space::Meta, b"a").unwrap(),
                "write" => transaction.put(Space::Meta, b"a", b"mine").unwrap(),
                _ => transaction.delete(Space::Meta, b"a").unwrap(),
            }
            transaction
                .put(Space::Data, b"x", touch.as_bytes())
                .unwrap();
            put(store, Space::Meta, b"a", b"theirs");
            assert_eq!(transaction.commit().unwrap(), expected, "{touch}");
            let a = store.get(Space::Meta, b"a").unwrap();
            assert_eq!(a.as_deref(), Some(&b"theirs"[..]), "{touch}");
            let x = store.get(Space::Data, b"x").unwrap();
            assert_eq!(x.as_deref(), Some(&b"read"[..]), "{touch}");
        }
    });
}

#[test]
fn scans_have_a_range_a_limit_two_directions_and_own_writes() {
    every_store(|store| {
        for key in [b"a1", b"a2", b"a3", b"b1"] {
            put(store, Space::Data, key, b"value");
        }
        put(store, Space::Meta, b"a9", b"another space");
        let mut transaction = store.begin().unwrap();
        transaction.delete(Space::Data, b"a2").unwrap();
        transaction.put(Space::Data, b"a4", b"own").unwrap();
        let scan = Scan::prefix(Space::Data, b"a");
        let forward = transaction.scan(&scan).unwrap();
        assert_eq!(keys(&forward), [b"a1", b"a3", b"a4"]);
        assert_eq!(&forward[2].1[..], b"own");
        let backward = Scan {
            direction: Direction::Backward,
            ..scan.clone().limit(2).keys_only()
        };
        let backward = transaction.scan(&backward).unwrap();
        assert_eq!(keys(&backward), [b"a4", b"a3"]);
        assert!(backward.iter().all(|(_, value)| value.is_empty()));
        let committed = store.scan(&scan).unwrap();
        assert_eq!(keys(&committed), [b"a1", b"a2", b"a3"]);
    });
}

#[test]
fn many_values_are_read_in_the_order_of_their_keys() {
    every_store(|store| {
        let block = vec![7; 100_000];
        put(store, Space::Data, b"b", &block);
        let asked = [b"c".to_vec(), b"b".to_vec()];
        let values = store.multi_get(Space::Data, &asked).unwrap();
        assert_eq!(values[0], None);
        assert_eq!(values[1].as_deref(), Some(&block[..]));
        let mut transaction = store.begin().unwrap();
        transaction.put(Space::Data, b"c", b"own").unwrap();
        let values = transaction.multi_get(Space::Data, &asked).unwrap();
        assert_eq!(values[0].as_deref(), Some(&b"own"[..]));
        let lengths = transaction.value_lengths(Space::Data, &asked).unwrap();
        assert_eq!(lengths, [None, Some(block.len())]);
    });
}

#[test]
fn what_was_committed_is_there_after_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let store = EngineKv::open(dir.path(), &EngineOptions::default()).unwrap();
    put(&store, Space::Meta, b"k", b"meta");
    put(&store, Space::Data, b"k", &[9; 70_000]);
    let refused = EngineKv::open(dir.path(), &EngineOptions::default());
    assert_eq!(refused.err().unwrap().errno(), rustix::io::Errno::BUSY);
    store.close().unwrap();
    assert!(store.get(Space::Meta, b"k").is_err());

    let missing = EngineOptions {
        db: DbOptions {
            create_if_missing: false,
            ..DbOptions::default()
        },
        ..EngineOptions::default()
    };
    let store = EngineKv::open(dir.path(), &missing).unwrap();
    let value = store.get(Space::Data, b"k").unwrap().unwrap();
    assert_eq!(value, vec![9; 70_000]);
    assert!(EngineKv::open(&dir.path().join("none"), &missing).is_err());
}

#[test]
fn a_store_that_is_open_for_reading_only_scans() {
    let dir = tempfile::tempdir().unwrap();
    let store = EngineKv::open(dir.path(), &EngineOptions::default()).unwrap();
    put(&store, Space::Meta, b"a", b"1");
    store.close().unwrap();
    let store = EngineKv::open_read_only(dir.path(), &EngineOptions::default()).unwrap();
    let all = store.scan(&Scan::prefix(Space::Meta, b"")).unwrap();
    assert_eq!(keys(&all), [b"a"]);
    assert!(store.begin().is_err());
}
