//! The state of a node after it was stopped.

use std::time::Duration;

use titan_server::proto::kvrpcpb::PrewriteRequest;
use titan_server::proto::pdpb::{GetMembersRequest, UpdateServiceGcSafePointRequest};
use titan_server::{NodeOptions, StorageOptions};

use crate::cluster::{Cluster, ask, options, put, unsynced};

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
    let start = cluster.prewrite("k");
    cluster.restart();
    assert!(cluster.get("k").error.unwrap().locked.is_some());
    assert_eq!(cluster.commit("k", start).error, None);
    assert_eq!(cluster.get("k").value, "v");
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
    let at = cluster.ts();
    let put = |cluster: &Cluster, value: &'static str| {
        let request = PrewriteRequest {
            try_one_pc: true,
            ..cluster.prewriting(vec![put("k", value)])
        };
        assert_eq!(ask!(cluster, kv_prewrite, request).errors, []);
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
    put(&cluster, "1");
    cluster.restart();
    put(&cluster, "2");
    let answer = cluster.get_at("k", at);
    assert_eq!((answer.error, answer.not_found), (None, true));
    // An earlier point than the oldest is not promised.
    assert_eq!(service(&cluster, 5), at);
}
