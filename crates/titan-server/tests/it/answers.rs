//! Answers beside those of reads count until they are sent.

use titan_server::Limits;
use titan_server::proto::kvrpcpb::*;
use titan_server::proto::pdpb::{ScanRegionsRequest, SplitRegionsRequest};
use tokio::sync::mpsc;

use crate::cluster::Cluster;
use crate::limits::with;
use crate::memory::{LARGE, call, framed, get, put_large, status};
use titan_mvcc::codec::encode_key;

#[test]
fn the_previous_value_of_a_swap_and_the_lock_of_an_error_count_until_they_are_read() {
    let cluster = with(Limits {
        bytes_in_flight: LARGE + (1 << 20),
        answer_bytes: LARGE + (1 << 20),
        ..Limits::default()
    });
    put_large(&cluster);
    let swap = RawCasRequest {
        context: cluster.context(),
        key: "k".into(),
        previous_not_exist: true,
        ..RawCasRequest::default()
    };
    let prewrite = PrewriteRequest {
        context: cluster.context(),
        mutations: vec![titan_server::proto::kvrpcpb::Mutation {
            op: Op::Put.into(),
            key: "row".into(),
            ..Default::default()
        }],
        primary_lock: "row".into(),
        start_version: cluster.ts(),
        lock_ttl: 1_000_000,
        use_async_commit: true,
        secondaries: vec![vec![b's'; 4096].into(); 1024],
        ..PrewriteRequest::default()
    };
    let locked = GetRequest {
        context: cluster.context(),
        key: "row".into(),
        version: u64::MAX,
    };
    let large = get(&cluster);
    let is_busy = async || {
        let answer = cluster.tikv().raw_get(large.clone()).await.unwrap();
        answer.into_inner().region_error.is_some()
    };
    cluster.runtime.block_on(async {
        let answer = cluster.tikv().kv_prewrite(prewrite).await.unwrap();
        assert!(answer.into_inner().min_commit_ts > 0);
        for (name, message) in [
            ("RawCompareAndSwap", framed(&swap)),
            ("KvGet", framed(&locked)),
        ] {
            let (send, pieces) = mpsc::channel(1);
            send.send(message).await.unwrap();
            drop(send);
            let unread = call(&cluster, name, pieces).await;
            assert!(is_busy().await, "{name}");
            assert_eq!(status(unread).await, "0");
            while is_busy().await {}
        }
    });
}

#[test]
fn regions_with_long_boundaries_come_in_pages() {
    const REGIONS: usize = 200;
    let cluster = Cluster::new();
    let boundary = |n: usize| encode_key(format!("{n:08000}").as_bytes()).into();
    let split = SplitRegionsRequest {
        header: cluster.header(),
        split_keys: (1..REGIONS).map(boundary).collect(),
        ..SplitRegionsRequest::default()
    };
    let runtime = &cluster.runtime;
    runtime.block_on(cluster.pd().split_regions(split)).unwrap();
    let (mut found, mut pages, mut from) = (0, 0, Default::default());
    loop {
        let scan = ScanRegionsRequest {
            header: cluster.header(),
            start_key: from,
            ..ScanRegionsRequest::default()
        };
        // A client with the usual limit of four mebibytes.
        let page = runtime.block_on(cluster.pd().scan_regions(scan)).unwrap();
        let page = page.into_inner();
        (found, pages) = (found + page.region_metas.len(), pages + 1);
        from = page.region_metas.last().unwrap().end_key.clone();
        if from.is_empty() {
            break;
        }
    }
    assert_eq!(found, REGIONS);
    assert!(pages > 1);
}
