//! Sessions, unknown fates and failures, which only a cluster has.

#![allow(clippy::unwrap_used, reason = "these are tests")]

use rustix::io::Errno;

use titan_testkit::setup::eventually;

use super::node::TestNode;
use super::*;
use crate::kv::{Commit, Direction, begin_making};

fn put(store: &TikvKv, key: &[u8], value: &[u8]) -> Result<Commit> {
    let mut transaction = store.begin()?;
    transaction.put(Space::Meta, key, value)?;
    transaction.commit()
}

/// A store whose lease nobody renews.
fn without_upkeep(url: &RemoteUrl) -> TikvKv {
    let store = TikvKv::open(url).unwrap();
    store.upkeep.lock().take();
    store
}

/// Opens the store when the lease of another one has ended.
fn take_over(url: &RemoteUrl) -> TikvKv {
    loop {
        match TikvKv::open(url) {
            Ok(store) => return store,
            Err(e) => assert_eq!(e.errno(), Errno::BUSY, "{e}"),
        }
    }
}

#[test]
fn a_second_process_is_told_who_has_the_volume() {
    let node = TestNode::new();
    let url = node.url("lease=1h");
    let first = TikvKv::open(&url).unwrap();
    let refused = TikvKv::open(&url).err().unwrap();
    let process = format!("process {} of ", std::process::id());
    assert_eq!(refused.errno(), Errno::BUSY);
    assert!(refused.to_string().contains(&process), "{refused}");
    let reader = TikvKv::open_read_only(&url).unwrap();
    let holder = reader.holder().unwrap().unwrap();
    assert!(
        holder.is_here && holder.to_string().contains(&process),
        "{holder}"
    );
    assert_eq!(reader.begin().err().unwrap().errno(), Errno::ROFS);
    // Another volume is free.
    let mut other = url.clone();
    other.name = "volume2".to_owned();
    TikvKv::open(&other).unwrap().close().unwrap();
    first.close().unwrap();
    assert!(put(&first, b"k", b"late").is_err());
    assert_eq!(reader.holder().unwrap(), None);
    TikvKv::open(&url).unwrap().close().unwrap();
}

#[test]
fn a_transaction_of_an_old_session_conflicts_whenever_it_commits() {
    let node = TestNode::new();
    let url = node.url("lease=1s");
    let old = without_upkeep(&url);
    let mut late = old.begin().unwrap();
    late.put(Space::Meta, b"late", b"value").unwrap();
    let new = take_over(&node.url("lease=1h"));
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
fn a_process_that_was_stopped_goes_on_if_nobody_took_over() {
    let node = TestNode::new();
    let store = without_upkeep(&node.url("lease=1s"));
    let is_over = || {
        let cluster = &store.shared.cluster;
        let now = client::timestamp(cluster, cluster.deadline());
        !store.shared.session.as_ref().unwrap().covers(&now.unwrap())
    };
    eventually("the lease ends", is_over);
    assert_eq!(put(&store, b"k", b"v").unwrap(), Commit::Committed);
    store.close().unwrap();
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
fn a_cluster_that_is_gone_is_named_and_the_store_goes_on_when_it_is_back() {
    let mut node = TestNode::new();
    let url = node.url("timeout=1s&lease=1h");
    let mut opened = None;
    eventually("the volume is free", || {
        opened = TikvKv::open(&url).ok();
        opened.is_some()
    });
    let store = opened.unwrap();
    let is_stored = |value: &[u8]| matches!(put(&store, b"k", value), Ok(Commit::Committed));
    eventually("a value is stored", || is_stored(b"v"));
    node.stop();
    let error = store.get(Space::Meta, b"k").unwrap_err();
    assert_eq!(error.errno(), Errno::TIMEDOUT);
    assert!(error.to_string().contains("check that it runs"), "{error}");
    let error = TikvKv::open(&url).err().unwrap();
    assert!(
        error.to_string().contains("cannot reach the cluster at"),
        "{error}"
    );
    node.restart();
    let mut value = None;
    eventually("the value is read", || {
        value = store.get(Space::Meta, b"k").ok().flatten();
        value.is_some()
    });
    assert_eq!(value.as_deref(), Some(&b"v"[..]));
    eventually("a value is stored", || is_stored(b"w"));
    eventually("the volume is given up", || store.close().is_ok());
}

#[test]
fn large_transactions_and_scans_are_cut_to_what_a_cluster_takes() {
    let node = TestNode::new();
    let store = TikvKv::open(&node.url("")).unwrap();
    let mut transaction = store.begin().unwrap();
    for number in 0..100u16 {
        let block = vec![number as u8 + 1; 100_000];
        transaction
            .put(Space::Data, &number.to_be_bytes(), &block)
            .unwrap();
    }
    for number in 0..3000u16 {
        transaction
            .put(Space::Meta, &number.to_be_bytes(), b"small")
            .unwrap();
    }
    assert_eq!(transaction.commit().unwrap(), Commit::Committed);
    let blocks = store.scan(&Scan::prefix(Space::Data, b"")).unwrap();
    assert_eq!(blocks.len(), 100);
    assert!(blocks.iter().all(|(_, block)| block.len() == 100_000));
    let keys: Vec<Vec<u8>> = blocks.iter().map(|(key, _)| key.to_vec()).collect();
    let values = store.multi_get(Space::Data, &keys).unwrap();
    assert!(
        values
            .iter()
            .zip(&blocks)
            .all(|(value, (_, block))| value.as_ref() == Some(block))
    );
    let backward = Scan {
        direction: crate::kv::Direction::Backward,
        ..Scan::prefix(Space::Meta, b"").limit(2500)
    };
    let found = store.scan(&backward).unwrap();
    assert_eq!(found.len(), 2500);
    assert_eq!(found[2499].0[..], 500u16.to_be_bytes());
    gc::drop_replaced(&store.shared, std::time::Duration::ZERO).unwrap();
    store.close().unwrap();
}

#[test]
fn a_volume_that_was_not_made_to_its_end_is_made_anew() {
    let node = TestNode::new();
    let url = node.url("");
    let store = TikvKv::open(&url).unwrap();
    begin_making(&store, b"S").unwrap();
    assert_eq!(put(&store, b"part", b"v").unwrap(), Commit::Committed);
    store.close().unwrap();
    let store = TikvKv::open(&url).unwrap();
    begin_making(&store, b"S").unwrap();
    assert_eq!(store.get(Space::Meta, b"part").unwrap(), None);
    assert_eq!(put(&store, b"S", b"v").unwrap(), Commit::Committed);
    store.finish_making().unwrap();
    let error = begin_making(&store, b"S").unwrap_err();
    assert!(error.to_string().contains("has a volume"), "{error}");
    // Nobody says that it is not complete, so nothing is removed.
    assert_eq!(put(&store, b"root", b"v").unwrap(), Commit::Committed);
    let mut transaction = store.begin().unwrap();
    transaction.delete(Space::Meta, b"S").unwrap();
    assert_eq!(transaction.commit().unwrap(), Commit::Committed);
    let error = begin_making(&store, b"S").unwrap_err();
    assert!(error.to_string().contains("damaged volume"), "{error}");
    assert!(store.get(Space::Meta, b"root").unwrap().is_some());
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
    let new = take_over(&node.url("lease=1h"));
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
fn a_cluster_that_was_silent_is_not_waited_for_again() {
    let mut node = TestNode::new();
    let store = TikvKv::open(&node.url("timeout=5s&lease=1h")).unwrap();
    node.stop();
    let error = store.get(Space::Meta, b"k").unwrap_err();
    assert_eq!(error.errno(), Errno::TIMEDOUT);
    let began = std::time::Instant::now();
    for _ in 0..3 {
        assert!(store.get(Space::Meta, b"k").is_err());
    }
    assert!(began.elapsed().as_secs() < 5, "{:?}", began.elapsed());
    node.restart();
    eventually("a value is stored", || {
        matches!(put(&store, b"k", b"v"), Ok(Commit::Committed))
    });
    eventually("the volume is given up", || store.close().is_ok());
}
