//! What a node has after it was stopped.

use titan_server::proto::kvrpcpb::{self, *};
use titan_server::proto::pdpb::GetMembersRequest;

use crate::cluster::Cluster;

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
