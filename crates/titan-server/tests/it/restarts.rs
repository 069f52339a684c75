//! The state of a node after it was stopped.

use std::time::Duration;

use titan_server::proto::kvrpcpb::{self, *};
use titan_server::proto::pdpb::{GetMembersRequest, UpdateServiceGcSafePointRequest};
use titan_server::{NodeOptions, StorageOptions};

use crate::cluster::{Cluster, options, unsynced};

#[test]
fn a_restarted_node_has_its_cluster_and_goes_on_with_later_timestamps() {
    let mut cluster = Cluster::new();
    let before = cluster.timestamps(1000) + 999;
    let id = cluster.id;
    cluster.restart();
    let members = cluster
        .runtime
        .block_on(cluster.pd().get_members(GetMembersRequest::default()));
    let header = members.unwrap().into_inner().header.unwrap();
    assert_eq!(header.cluster_id, id);
    assert!(cluster.ts() > before);
}

#[test]
fn a_transaction_goes_on_after_a_restart_between_its_phases() {
    let mut cluster = Cluster::new();
    let start = cluster.ts();
    let prewrite = PrewriteRequest {
        context: cluster.context(),
        mutations: vec![kvrpcpb::Mutation {
            op: Op::Put.into(),
            key: "k".into(),
            value: "v".into(),
            ..kvrpcpb::Mutation::default()
        }],
        primary_lock: "k".into(),
        start_version: start,
        lock_ttl: 60_000,
        ..PrewriteRequest::default()
    };
    let answer = cluster
        .runtime
        .block_on(cluster.tikv().kv_prewrite(prewrite));
    assert_eq!(answer.unwrap().into_inner().errors, []);
    cluster.restart();
    let get = |version| GetRequest {
        context: cluster.context(),
        key: "k".into(),
        version,
    };
    let mut tikv = cluster.tikv();
    let answer = cluster.runtime.block_on(tikv.kv_get(get(cluster.ts())));
    assert!(answer.unwrap().into_inner().error.unwrap().locked.is_some());
    let commit = CommitRequest {
        context: cluster.context(),
        start_version: start,
        keys: vec!["k".into()],
        commit_version: cluster.ts(),
    };
    let answer = cluster.runtime.block_on(tikv.kv_commit(commit));
    assert_eq!(answer.unwrap().into_inner().error, None);
    let answer = cluster.runtime.block_on(tikv.kv_get(get(cluster.ts())));
    assert_eq!(answer.unwrap().into_inner().value, "v");
}

#[test]
fn a_service_keeps_its_safe_point_over_a_restart_whatever_the_retention() {
    let mut cluster = Cluster::with(NodeOptions {
        storage: StorageOptions {
            retention: Some(Duration::from_millis(1)),
            ..unsynced()
        },
        ..options()
    });
    let (mut tikv, at) = (cluster.tikv(), cluster.ts());
    let put = |cluster: &Cluster, value: &'static str| PrewriteRequest {
        context: cluster.context(),
        mutations: vec![kvrpcpb::Mutation {
            op: Op::Put.into(),
            key: "k".into(),
            value: value.into(),
            ..kvrpcpb::Mutation::default()
        }],
        primary_lock: "k".into(),
        start_version: cluster.ts(),
        lock_ttl: 1000,
        try_one_pc: true,
        ..PrewriteRequest::default()
    };
    let service = |cluster: &Cluster, at| {
        let request = UpdateServiceGcSafePointRequest {
            header: cluster.header(),
            service_id: "backup".into(),
            ttl: 3600,
            safe_point: at,
        };
        let mut pd = cluster.pd();
        let answer = cluster
            .runtime
            .block_on(pd.update_service_gc_safe_point(request));
        answer.unwrap().into_inner().min_safe_point
    };
    assert_eq!(service(&cluster, at), at);
    let answer = cluster
        .runtime
        .block_on(tikv.kv_prewrite(put(&cluster, "1")));
    assert_eq!(answer.unwrap().into_inner().errors, []);
    cluster.restart();
    let mut tikv = cluster.tikv();
    let answer = cluster
        .runtime
        .block_on(tikv.kv_prewrite(put(&cluster, "2")));
    assert_eq!(answer.unwrap().into_inner().errors, []);
    let get = GetRequest {
        context: cluster.context(),
        key: "k".into(),
        version: at,
    };
    let answer = cluster
        .runtime
        .block_on(tikv.kv_get(get))
        .unwrap()
        .into_inner();
    assert_eq!((answer.error, answer.not_found), (None, true));
    // An earlier point than the oldest is not promised.
    assert_eq!(service(&cluster, 5), at);
}
