//! Old sessions, unknown fates, limits and members of etcd. `kv::remote::tests` has the promises of
//! all clusters.

#![allow(clippy::unwrap_used, reason = "these are tests")]

mod objects;
mod servers;
mod silence;

use rustix::io::Errno;
use tifs_testkit::etcd::Etcd;
use titan_testkit::setup::eventually;

use super::client::EtcdClient;
use super::wire::{Compare, PutRequest, Request};
use super::*;
use crate::file_system::{Caller, Existing, FileSystem};
use crate::kv::Commit;
use crate::kv::remote::slots::Fate;
use crate::kv::remote::tests::{put, take_over};
use crate::schema::{InodeNumber, Key, with_format};
use crate::volume::{Volume, VolumeOptions};

fn put_in(store: &EtcdKv, space: Space, key: &[u8], value: &[u8]) -> Result<Commit> {
    let mut transaction = store.begin()?;
    transaction.put(space, key, value)?;
    transaction.commit()
}

fn url(etcd: &Etcd, parameters: &str) -> RemoteUrl {
    RemoteUrl::parse(&etcd.url("volume", parameters)).unwrap()
}

/// A store that renews and drops nothing by itself.
fn without_upkeep(url: &RemoteUrl) -> EtcdKv {
    let store = EtcdKv::open(url).unwrap();
    store.stop_upkeep();
    store
}

#[test]
fn a_transaction_of_an_old_session_does_nothing_whenever_it_commits() {
    let Some(etcd) = Etcd::start(1, &[]) else {
        return;
    };
    let old = without_upkeep(&url(&etcd, "lease=1s"));
    let mut late = old.begin().unwrap();
    late.put(Space::Meta, b"late", b"value").unwrap();
    let mut large = old.begin().unwrap();
    for key in 0..500u16 {
        large.put(Space::Meta, &key.to_be_bytes(), b"late").unwrap();
    }
    let new = take_over(|| EtcdKv::open(&url(&etcd, "lease=1h")));
    for late in [late, large] {
        let refused = late.commit().unwrap_err();
        assert!(refused.to_string().contains("taken over by"), "{refused}");
    }
    assert!(
        new.scan(&Scan::prefix(Space::Meta, b""))
            .unwrap()
            .is_empty()
    );
    for refused in [
        put(&old, b"k", b"of the old one").map(drop),
        old.get(Space::Meta, b"k").map(drop),
        {
            let base = &old.shared.base;
            old.shared
                .session()
                .unwrap()
                .renew(base, base.cluster.deadline())
        },
    ] {
        let refused = refused.unwrap_err();
        assert_eq!(refused.errno(), Errno::IO);
        assert!(refused.to_string().contains("taken over by"), "{refused}");
    }
    assert_eq!(put(&new, b"k", b"v").unwrap(), Commit::Committed);
    // The end of the old one does not end the new one.
    old.close().unwrap();
    assert!(new.holder().unwrap().is_some());
    new.close().unwrap();
}

#[test]
fn a_process_that_was_stopped_goes_on_if_nobody_took_over() {
    let Some(etcd) = Etcd::start(1, &[]) else {
        return;
    };
    let store = without_upkeep(&url(&etcd, "lease=1s"));
    let mut begun = store.begin().unwrap();
    begun.put(Space::Meta, b"begun", b"v").unwrap();
    eventually("the lease ends", || store.holder().unwrap().is_none());
    // The transaction that had begun conflicts, and the next attempt succeeds.
    assert_eq!(begun.commit().unwrap(), Commit::Conflict);
    assert_eq!(put(&store, b"k", b"v").unwrap(), Commit::Committed);
    assert!(store.holder().unwrap().is_some());
    store.close().unwrap();
}

#[test]
fn a_check_takes_nothing_from_a_process_that_was_stopped() {
    let Some(etcd) = Etcd::start(1, &[]) else {
        return;
    };
    let url = url(&etcd, "lease=1s");
    let store = without_upkeep(&url);
    assert_eq!(put(&store, b"k", b"v").unwrap(), Commit::Committed);
    eventually("the lease ends", || store.holder().unwrap().is_none());
    assert_eq!(collect(&url).unwrap(), None);
    assert_eq!(put(&store, b"k", b"w").unwrap(), Commit::Committed);
    eventually("the lease ends", || store.holder().unwrap().is_none());
    // Also one whose key went with the lease gives the volume up.
    store.close().unwrap();
    assert_eq!(collect(&url).unwrap(), Some(0));
    assert_eq!(collect(&url).unwrap(), Some(0));
}

#[test]
fn a_file_with_more_attributes_than_a_transaction_takes_is_deleted() {
    let Some(etcd) = Etcd::start(1, &[]) else {
        return;
    };
    let store = Arc::new(EtcdKv::open(&url(&etcd, "")).unwrap());
    Volume::make(&*store, &VolumeOptions::default()).unwrap();
    let volume = Volume::open(Arc::clone(&store) as _, VolumeOptions::default()).unwrap();
    let (caller, root) = (Caller { uid: 0, gid: 0 }, InodeNumber::ROOT);
    let file = { volume.make_node(&caller, root, b"f", 0o100644, 0, 0) }.unwrap();
    let any = Existing::Any;
    { volume.set_extended_attribute(file.number, b"user.first", b"v", any) }.unwrap();
    for hundreds in 0..40u16 {
        let mut transaction = store.begin().unwrap();
        for number in 0..100 {
            let name = format!("user.{}", hundreds * 100 + number);
            let key = Key::Attribute(file.number, name.as_bytes()).encode();
            { transaction.put(Space::Meta, &key, &with_format(b"v")) }.unwrap();
        }
        assert_eq!(transaction.commit().unwrap(), Commit::Committed);
    }
    volume.forget(file.number, 1);
    volume.unlink(root, b"f").unwrap();
    volume.reclaim_all().unwrap();
    let prefix = Key::Attribute(file.number, b"").encode();
    let left = store.scan(&Scan::prefix(Space::Meta, &prefix)).unwrap();
    assert!(left.is_empty(), "{} are left", left.len());
    volume.close().unwrap();
}

#[test]
fn the_fate_of_a_commit_is_found_out_and_stays() {
    let Some(etcd) = Etcd::start(1, &[]) else {
        return;
    };
    let store = EtcdKv::open(&url(&etcd, "")).unwrap();
    let shared = &*store.shared;
    let fate = |slot: &_| commit::fate(shared, slot, shared.base.cluster.deadline());
    // The request of a commit, without a look at its answer.
    let commit = |slot: &crate::kv::remote::slots::Slot<'_>, at: i64| {
        let key = shared.base.keys.slot(slot.number);
        let put = Request::Put(PutRequest {
            key: key.clone(),
            value: slot.mark.encode().into(),
            ..PutRequest::default()
        });
        let conditions = vec![Compare::not_after(key, at)];
        let deadline = shared.base.cluster.deadline();
        shared
            .base
            .change_if(conditions, vec![put], deadline)
            .unwrap()
    };
    let slot = shared.slots.take().unwrap();
    let at = shared.base.moments.open().revision;
    assert!(commit(&slot, at));
    assert_eq!(fate(&slot), Fate::Committed);
    drop(slot);

    let slot = shared.slots.take().unwrap();
    let at = shared.base.moments.open().revision;
    assert_eq!(fate(&slot), Fate::Nothing);
    // As if its request had been on its way all the time.
    assert!(!commit(&slot, at));
    assert_eq!(fate(&slot), Fate::Nothing);
    drop(slot);
    store.close().unwrap();
}

#[test]
fn a_large_commit_of_unknown_fate_never_happens_after_a_later_one() {
    let Some(etcd) = Etcd::start(1, &[]) else {
        return;
    };
    let store = EtcdKv::open(&url(&etcd, "timeout=2s&lease=1h")).unwrap();
    let shared = &*store.shared;
    // As if one had ended so.
    let slot = shared.slots.take().unwrap();
    let at = shared.base.moments.open().revision;
    let fence = shared.session().unwrap().fence();
    shared.is_one_late.store(true, Ordering::Relaxed);
    let key = 7u16.to_be_bytes();
    eventually("a value is stored", || {
        matches!(put(&store, &key, b"later"), Ok(Commit::Committed))
    });
    let put = Request::Put(PutRequest {
        key: shared.base.keys.of(Space::Meta, &key),
        value: Bytes::from_static(b"late"),
        ..PutRequest::default()
    });
    let conditions = vec![
        Compare::not_after(shared.base.keys.slot(slot.number), at),
        Compare::unchanged(shared.base.keys.session(), fence),
    ];
    let deadline = shared.base.cluster.far_deadline();
    let is_done = shared.base.change_if(conditions, vec![put], deadline);
    assert!(!is_done.unwrap());
    let value = store.get(Space::Meta, &key).unwrap();
    assert_eq!(value.as_deref(), Some(&b"later"[..]));
    drop(slot);
    store.close().unwrap();
}

#[test]
fn a_deletion_by_others_is_a_conflict_too() {
    let Some(etcd) = Etcd::start(1, &[]) else {
        return;
    };
    let store = EtcdKv::open(&url(&etcd, "")).unwrap();
    for count in [1u16, 500] {
        assert_eq!(put(&store, b"k", b"v").unwrap(), Commit::Committed);
        let mut blind = store.begin().unwrap();
        blind.put(Space::Meta, b"k", b"blind").unwrap();
        for key in 0..count {
            blind.put(Space::Meta, &key.to_be_bytes(), b"v").unwrap();
        }
        let mut other = store.begin().unwrap();
        other.delete(Space::Meta, b"k").unwrap();
        assert_eq!(other.commit().unwrap(), Commit::Committed);
        assert_eq!(blind.commit().unwrap(), Commit::Conflict, "{count}");
        assert_eq!(store.get(Space::Meta, b"k").unwrap(), None);
    }
    store.close().unwrap();
}

#[test]
fn a_transaction_beyond_what_etcd_takes_is_refused_as_a_whole() {
    let Some(etcd) = Etcd::start(1, &[]) else {
        return;
    };
    let store = EtcdKv::open(&url(&etcd, "")).unwrap();
    let key = 7u16.to_be_bytes();
    assert_eq!(put(&store, &key, b"small").unwrap(), Commit::Committed);
    let mut too_many = store.begin().unwrap();
    for number in 0..4000u16 {
        too_many
            .put(Space::Meta, &number.to_be_bytes(), b"more")
            .unwrap();
    }
    let refused = too_many.commit().unwrap_err();
    assert_eq!(refused.errno(), Errno::TOOBIG);
    assert!(refused.to_string().contains("4000 keys"), "{refused}");
    let mut too_large = store.begin().unwrap();
    for number in 0..500u16 {
        too_large
            .put(Space::Meta, &number.to_be_bytes(), &[1; 4096])
            .unwrap();
    }
    let refused = too_large.commit().unwrap_err();
    assert_eq!(refused.errno(), Errno::TOOBIG);
    let value = store.get(Space::Meta, &key).unwrap();
    assert_eq!(value.as_deref(), Some(&b"small"[..]));
    store.close().unwrap();
}

#[test]
fn a_read_whose_revision_was_compacted_begins_again() {
    let Some(etcd) = Etcd::start(1, &[]) else {
        return;
    };
    let store = EtcdKv::open(&url(&etcd, "lease=1h")).unwrap();
    assert_eq!(put(&store, b"k", b"v").unwrap(), Commit::Committed);
    let begun = store.begin().unwrap();
    // Another program moves on, and compacts.
    let other = EtcdKv::open(&RemoteUrl::parse(&etcd.url("other", "")).unwrap()).unwrap();
    assert_eq!(put(&other, b"k", b"v").unwrap(), Commit::Committed);
    let revision = other.shared.base.moments.open().revision;
    let deadline = other.shared.base.cluster.deadline();
    other
        .shared
        .base
        .cluster
        .call(deadline, async |client: EtcdClient| {
            client.compact(revision).await
        })
        .unwrap();
    assert!(begun.get(Space::Meta, b"k").unwrap_err().is_outdated());
    let value = store.get(Space::Meta, b"k").unwrap();
    assert_eq!(value.as_deref(), Some(&b"v"[..]));
    drop(begun);
    other.close().unwrap();
    store.close().unwrap();
}

#[test]
fn three_members_lose_one_and_go_on() {
    let Some(mut etcd) = Etcd::start(3, &[]) else {
        return;
    };
    let store = EtcdKv::open(&url(&etcd, "timeout=60s")).unwrap();
    let mut committed = Vec::new();
    let mut work = |what: &str| {
        let key = format!("{what}{}", committed.len()).into_bytes();
        eventually(what, || {
            matches!(put(&store, &key, b"v"), Ok(Commit::Committed))
        });
        committed.push(key);
    };
    work("all");
    let leader = etcd.leader().unwrap();
    etcd.kill(leader);
    work("without its leader");
    etcd.wait_for_leader();
    etcd.restart(leader);
    let follower = (etcd.leader().unwrap() + 1) % 3;
    etcd.stop(follower);
    work("without a follower");
    etcd.go_on(follower);
    let leader = etcd.leader().unwrap();
    etcd.stop(leader);
    work("with a leader that is stopped");
    etcd.go_on(leader);
    work("all");
    for key in &committed {
        assert!(store.get(Space::Meta, key).unwrap().is_some(), "{key:?}");
    }
    store.close().unwrap();
}

#[test]
fn a_majority_that_is_gone_is_named_and_the_store_goes_on_when_it_is_back() {
    let Some(mut etcd) = Etcd::start(3, &[]) else {
        return;
    };
    let store = EtcdKv::open(&url(&etcd, "timeout=2s&lease=1h")).unwrap();
    let is_stored = |value: &[u8]| matches!(put(&store, b"k", value), Ok(Commit::Committed));
    eventually("a value is stored", || is_stored(b"v"));
    for member in 0..2 {
        etcd.kill(member);
    }
    match put(&store, b"k", b"w") {
        Ok(Commit::Undetermined) => {}
        other => assert_eq!(other.unwrap_err().errno(), Errno::TIMEDOUT),
    }
    for member in 0..2 {
        etcd.restart(member);
    }
    eventually("a value is stored", || is_stored(b"x"));
    let value = store.get(Space::Meta, b"k").unwrap();
    assert_eq!(value.as_deref(), Some(&b"x"[..]));
    eventually("the volume is given up", || store.close().is_ok());
}

#[test]
fn a_silent_cluster_is_not_waited_for_again_after_the_lease_either() {
    let Some(mut etcd) = Etcd::start(1, &[]) else {
        return;
    };
    let store = EtcdKv::open(&url(&etcd, "timeout=8s&lease=1s")).unwrap();
    etcd.kill(0);
    eventually("the lease ends", || {
        !store.shared.session().unwrap().lasts()
    });
    let error = store.get(Space::Meta, b"k").unwrap_err();
    assert_eq!(error.errno(), Errno::TIMEDOUT);
    let began = std::time::Instant::now();
    for _ in 0..3 {
        assert!(store.get(Space::Meta, b"k").is_err());
    }
    assert!(began.elapsed().as_secs() < 8, "{:?}", began.elapsed());
    etcd.restart(0);
    eventually("the volume is given up", || store.close().is_ok());
}
