//! Old sessions, unknown fates, safe points and regions of TiKV. `kv::remote::tests` has the
//! promises of all clusters.

#![allow(clippy::unwrap_used, reason = "these are tests")]

use rustix::io::Errno;

use super::node::TestNode;
use super::*;
use crate::kv::remote::tests::{put, take_over};
use crate::kv::{Commit, Direction};

/// A store whose lease nobody renews.
fn without_upkeep(url: &RemoteUrl) -> TikvKv {
    let store = TikvKv::open(url).unwrap();
    store.stop_upkeep();
    store
}

#[test]
fn a_transaction_of_an_old_session_conflicts_whenever_it_commits() {
    let node = TestNode::new();
    let url = node.url("lease=1s");
    let old = without_upkeep(&url);
    let mut late = old.begin().unwrap();
    late.put(Space::Meta, b"late", b"value").unwrap();
    let new = take_over(|| TikvKv::open(&node.url("lease=1h")));
    assert_eq!(late.commit().unwrap(), Commit::Conflict);
    assert_eq!(new.get(Space::Meta, b"late").unwrap(), None);
    for refused in [
        put(&old, b"k", b"of the old one").map(drop),
        old.get(Space::Meta, b"k").map(drop),
        old.shared.renew(),
    ] {
        let refused = refused.unwrap_err();
        assert_eq!(refused.errno(), Errno::IO);
        assert!(refused.to_string().contains("taken over by"), "{refused}");
    }
    assert_eq!(
        put(&new, b"k", b"of the new one").unwrap(),
        Commit::Committed
    );
    // The end of the old one does not end the new one.
    old.close().unwrap();
    assert!(new.holder().unwrap().is_some());
    new.close().unwrap();
}

#[test]
fn the_fate_of_a_commit_is_found_out_and_stays() {
    let node = TestNode::new();
    let store = TikvKv::open(&node.url("")).unwrap();
    let shared = &*store.shared;
    let fate =
        |slot: &remote::slots::Slot<'_>| transaction::fate(shared, slot, shared.cluster.deadline());
    let begin = |slot: &remote::slots::Slot<'_>| {
        let deadline = shared.cluster.deadline();
        let mut begun = shared
            .cluster
            .call(deadline, async |client: TransactionClient| {
                client.begin_with_options(writing()).await
            })
            .unwrap();
        let (key, mark) = (shared.keys.slot(slot.number), slot.mark.encode());
        let put = shared.cluster.until(deadline, begun.put(key, mark));
        put.unwrap().unwrap();
        begun
    };
    let commit = |begun: &mut tikv_client::Transaction| {
        shared
            .cluster
            .until(shared.cluster.deadline(), begun.commit())
            .unwrap()
            .map_err(Box::new)
    };

    let slot = shared.slots.take().unwrap();
    commit(&mut begin(&slot)).unwrap();
    assert_eq!(fate(&slot), remote::slots::Fate::Committed);
    drop(slot);

    let slot = shared.slots.take().unwrap();
    let mut begun = begin(&slot);
    assert_eq!(fate(&slot), remote::slots::Fate::Nothing);
    // As if its request had been on its way all the time.
    let late = commit(&mut begun).unwrap_err();
    let start = tikv_client::TimestampExt::version(&begun.start_timestamp());
    assert!(failures::has_surely_failed(&late, start), "{late}");
    assert_eq!(fate(&slot), remote::slots::Fate::Nothing);
    drop(slot);
    store.close().unwrap();
}

#[test]
fn a_refusal_after_a_commit_of_unknown_fate_does_not_make_it_undone() {
    let node = TestNode::with(|options| options.limits.value_bytes = 10_000);
    let old = without_upkeep(&node.url("lease=1s"));
    let refused = put(&old, b"k", &[1; 20_000]).unwrap_err();
    assert_eq!(refused.errno(), Errno::IO, "{refused}");
    let mut late = old.begin().unwrap();
    late.put(Space::Meta, b"k", &[1; 20_000]).unwrap();
    // The slot has the mark of another mount now, so it does not tell.
    let new = take_over(|| TikvKv::open(&node.url("lease=1h")));
    assert_eq!(late.commit().unwrap(), Commit::Undetermined);
    new.close().unwrap();
}

#[test]
fn a_read_behind_what_another_mount_let_be_dropped_fails() {
    let node = TestNode::new();
    let store = TikvKv::open(&node.url("lease=1h")).unwrap();
    assert_eq!(put(&store, b"k", b"old").unwrap(), Commit::Committed);
    let reader = TikvKv::open_read_only(&node.url("gc=off")).unwrap();
    let snapshot = reader.snapshot().unwrap();
    let all = Scan::prefix(Space::Meta, b"");
    assert_eq!(snapshot.scan(&all).unwrap().len(), 1);
    assert_eq!(put(&store, b"k", b"new").unwrap(), Commit::Committed);
    // The node of the tests would refuse; a cluster does not.
    let safe_point = client::timestamp(&store.shared.cluster, store.shared.cluster.deadline());
    let safe_point = tikv_client::TimestampExt::version(&safe_point.unwrap());
    gc::note(&store.shared.cluster, safe_point).unwrap();
    let error = snapshot.scan(&all).unwrap_err();
    assert!(error.to_string().contains("longer gc=TIME"), "{error}");
    // An earlier point does not hide it.
    gc::note(&store.shared.cluster, 1).unwrap();
    assert!(snapshot.scan(&all).is_err());
    drop(snapshot);
    assert_eq!(reader.snapshot().unwrap().scan(&all).unwrap().len(), 1);
    store.close().unwrap();
}

#[test]
fn pages_of_a_scan_ask_few_regions_each() {
    const KEYS: u32 = 4000;
    let node = TestNode::with(|options| {
        options.metrics = Some(([127, 0, 0, 1], 0).into());
        options.regions.keys = 64;
    });
    let store = TikvKv::open(&node.url("lease=1h")).unwrap();
    let keys: Vec<u32> = (0..KEYS).collect();
    for keys in keys.chunks(500) {
        let mut transaction = store.begin().unwrap();
        for key in keys {
            transaction
                .put(Space::Data, &key.to_be_bytes(), b"block")
                .unwrap();
        }
        assert_eq!(transaction.commit().unwrap(), Commit::Committed);
    }
    let snapshot = store.snapshot().unwrap();
    for direction in [Direction::Forward, Direction::Backward] {
        let before = node.calls("scan");
        let mut scan = Scan {
            direction,
            ..Scan::prefix(Space::Data, b"").limit(100)
        };
        let (mut found, mut pages) = (0, 0);
        loop {
            let page = snapshot.scan(&scan).unwrap();
            (found, pages) = (found + page.len(), pages + 1);
            match (page.last(), direction) {
                (None, _) => break,
                (Some((last, _)), Direction::Forward) => scan.begin = [last, &[0][..]].concat(),
                (Some((last, _)), Direction::Backward) => scan.end = last.to_vec(),
            }
        }
        assert_eq!(found, KEYS as usize);
        let calls = node.calls("scan") - before;
        println!("{direction:?}: {calls} calls of {pages} pages");
        assert!(calls < 12 * pages, "{calls} calls of {pages} pages");
    }
    drop(snapshot);
    store.close().unwrap();
}

#[test]
fn values_that_were_replaced_are_dropped() {
    let node = TestNode::new();
    let store = TikvKv::open(&node.url("lease=1h")).unwrap();
    assert_eq!(put(&store, b"k", b"old").unwrap(), Commit::Committed);
    let old = store.snapshot().unwrap();
    assert_eq!(put(&store, b"k", b"new").unwrap(), Commit::Committed);
    gc::drop_replaced(&store.shared, std::time::Duration::ZERO).unwrap();
    assert!(old.get(Space::Meta, b"k").is_err());
    let value = store.get(Space::Meta, b"k").unwrap();
    assert_eq!(value.as_deref(), Some(&b"new"[..]));
    drop(old);
    store.close().unwrap();
}
