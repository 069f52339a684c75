//! The promises of a store on a cluster, for every kind of cluster.

#![allow(clippy::unwrap_used, reason = "these are tests")]

use std::sync::Arc;

use rustix::io::Errno;
use titan_testkit::setup::eventually;

use super::url::RemoteUrl;
use super::{RemoteKv, begin_making};
use crate::error::Result;
use crate::kv::{Commit, Direction, Scan, Space, open_remote, open_remote_read_only};

/// A cluster of a test.
trait TestCluster {
    /// The address of a volume, with parameters.
    fn url(&self, parameters: &str) -> RemoteUrl;

    /// A store whose lease nobody renews.
    fn without_upkeep(&self, url: &RemoteUrl) -> Arc<dyn RemoteKv>;

    fn stop(&mut self);

    fn restart(&mut self);
}

#[cfg(feature = "tikv")]
impl TestCluster for crate::kv::tikv::node::TestNode {
    fn url(&self, parameters: &str) -> RemoteUrl {
        self.url(parameters)
    }

    fn without_upkeep(&self, url: &RemoteUrl) -> Arc<dyn RemoteKv> {
        let store = crate::kv::TikvKv::open(url).unwrap();
        store.stop_upkeep();
        Arc::new(store)
    }

    fn stop(&mut self) {
        self.stop();
    }

    fn restart(&mut self) {
        self.restart();
    }
}

#[cfg(feature = "etcd")]
impl TestCluster for tifs_testkit::etcd::Etcd {
    fn url(&self, parameters: &str) -> RemoteUrl {
        RemoteUrl::parse(&self.url("volume", parameters)).unwrap()
    }

    fn without_upkeep(&self, url: &RemoteUrl) -> Arc<dyn RemoteKv> {
        let store = crate::kv::EtcdKv::open(url).unwrap();
        store.stop_upkeep();
        Arc::new(store)
    }

    fn stop(&mut self) {
        self.kill(0);
    }

    fn restart(&mut self) {
        self.restart(0);
    }
}

/// Runs a check on a cluster of each kind.
fn every_cluster(check: impl Fn(&mut dyn TestCluster)) {
    #[cfg(feature = "tikv")]
    check(&mut crate::kv::tikv::node::TestNode::new());
    #[cfg(feature = "etcd")]
    if let Some(mut etcd) = tifs_testkit::etcd::Etcd::start(1, &[]) {
        check(&mut etcd);
    }
}

pub(in crate::kv) fn put(store: &dyn RemoteKv, key: &[u8], value: &[u8]) -> Result<Commit> {
    let mut transaction = store.begin()?;
    transaction.put(Space::Meta, key, value)?;
    transaction.commit()
}

/// Opens a store when the lease of another one has ended.
pub(in crate::kv) fn take_over<S>(open: impl Fn() -> Result<S>) -> S {
    loop {
        match open() {
            Ok(store) => return store,
            Err(e) => assert_eq!(e.errno(), Errno::BUSY, "{e}"),
        }
    }
}

#[test]
fn a_second_process_is_told_who_has_the_volume() {
    every_cluster(|cluster| {
        let url = cluster.url("lease=1h");
        let first = open_remote(&url).unwrap();
        let refused = open_remote(&url).err().unwrap();
        let process = format!("process {} of ", std::process::id());
        assert_eq!(refused.errno(), Errno::BUSY);
        assert!(refused.to_string().contains(&process), "{refused}");
        let reader = open_remote_read_only(&url).unwrap();
        let holder = reader.holder().unwrap().unwrap();
        let is_first = holder.is_here && holder.to_string().contains(&process);
        assert!(is_first, "{holder}");
        assert_eq!(reader.begin().err().unwrap().errno(), Errno::ROFS);
        // Another volume is free.
        let mut other = url.clone();
        other.name = "volume2".to_owned();
        open_remote(&other).unwrap().close().unwrap();
        first.close().unwrap();
        assert!(put(&*first, b"k", b"late").is_err());
        assert_eq!(reader.holder().unwrap(), None);
        open_remote(&url).unwrap().close().unwrap();
    });
}

#[test]
fn a_process_that_was_stopped_goes_on_if_nobody_took_over() {
    every_cluster(|cluster| {
        let store = cluster.without_upkeep(&cluster.url("lease=1s"));
        eventually("the lease ends", || store.holder().unwrap().is_none());
        assert_eq!(put(&*store, b"k", b"v").unwrap(), Commit::Committed);
        assert!(store.holder().unwrap().is_some());
        store.close().unwrap();
    });
}

#[test]
fn a_cluster_that_is_gone_is_named_and_the_store_goes_on_when_it_is_back() {
    every_cluster(|cluster| {
        let url = cluster.url("timeout=1s&lease=1h");
        let mut opened = None;
        eventually("the volume is free", || {
            opened = open_remote(&url).ok();
            opened.is_some()
        });
        let store = opened.unwrap();
        let is_stored = |value: &[u8]| matches!(put(&*store, b"k", value), Ok(Commit::Committed));
        eventually("a value is stored", || is_stored(b"v"));
        cluster.stop();
        let error = store.get(Space::Meta, b"k").unwrap_err();
        assert_eq!(error.errno(), Errno::TIMEDOUT);
        assert!(error.to_string().contains("check that it runs"), "{error}");
        let error = open_remote(&url).err().unwrap();
        let says = "cannot reach the cluster at";
        assert!(error.to_string().contains(says), "{error}");
        cluster.restart();
        let mut value = None;
        eventually("the value is read", || {
            value = store.get(Space::Meta, b"k").ok().flatten();
            value.is_some()
        });
        assert_eq!(value.as_deref(), Some(&b"v"[..]));
        eventually("a value is stored", || is_stored(b"w"));
        eventually("the volume is given up", || store.close().is_ok());
    });
}

#[test]
fn a_cluster_that_was_silent_is_not_waited_for_again() {
    every_cluster(|cluster| {
        let store = open_remote(&cluster.url("timeout=5s&lease=1h")).unwrap();
        cluster.stop();
        let error = store.get(Space::Meta, b"k").unwrap_err();
        assert_eq!(error.errno(), Errno::TIMEDOUT);
        let began = std::time::Instant::now();
        for _ in 0..3 {
            assert!(store.get(Space::Meta, b"k").is_err());
        }
        assert!(began.elapsed().as_secs() < 5, "{:?}", began.elapsed());
        cluster.restart();
        eventually("a value is stored", || {
            matches!(put(&*store, b"k", b"v"), Ok(Commit::Committed))
        });
        eventually("the volume is given up", || store.close().is_ok());
    });
}

#[test]
fn large_transactions_and_scans_are_cut_to_what_a_cluster_takes() {
    every_cluster(|cluster| {
        let store = open_remote(&cluster.url("")).unwrap();
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
        let same = values.iter().zip(&blocks);
        assert!({ same }.all(|(value, (_, block))| value.as_ref() == Some(block)));
        let backward = Scan {
            direction: Direction::Backward,
            ..Scan::prefix(Space::Meta, b"").limit(2500)
        };
        let found = store.scan(&backward).unwrap();
        assert_eq!(found.len(), 2500);
        assert_eq!(found[2499].0[..], 500u16.to_be_bytes());
        store.close().unwrap();
    });
}

#[test]
fn a_volume_that_was_not_made_to_its_end_is_made_anew() {
    every_cluster(|cluster| {
        let url = cluster.url("");
        let store = open_remote(&url).unwrap();
        begin_making(&*store, b"S").unwrap();
        assert_eq!(put(&*store, b"part", b"v").unwrap(), Commit::Committed);
        store.close().unwrap();
        let store = open_remote(&url).unwrap();
        begin_making(&*store, b"S").unwrap();
        assert_eq!(store.get(Space::Meta, b"part").unwrap(), None);
        assert_eq!(put(&*store, b"S", b"v").unwrap(), Commit::Committed);
        store.finish_making().unwrap();
        let error = begin_making(&*store, b"S").unwrap_err();
        assert!(error.to_string().contains("has a volume"), "{error}");
        // Nobody says that it is not complete, so nothing is removed.
        assert_eq!(put(&*store, b"root", b"v").unwrap(), Commit::Committed);
        let mut transaction = store.begin().unwrap();
        transaction.delete(Space::Meta, b"S").unwrap();
        assert_eq!(transaction.commit().unwrap(), Commit::Committed);
        let error = begin_making(&*store, b"S").unwrap_err();
        assert!(error.to_string().contains("damaged volume"), "{error}");
        assert!(store.get(Space::Meta, b"root").unwrap().is_some());
        store.close().unwrap();
    });
}
