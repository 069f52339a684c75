//! A client that has left gets no lock.

use std::time::Duration;

use titan_server::proto::kvrpcpb::{self, *};

use crate::cluster::Cluster;

fn lock(cluster: &Cluster, wait_timeout: i64) -> PessimisticLockRequest {
    let start = cluster.ts();
    PessimisticLockRequest {
        context: cluster.context(),
        mutations: vec![kvrpcpb::Mutation {
            op: Op::PessimisticLock.into(),
            key: "k".into(),
            ..kvrpcpb::Mutation::default()
        }],
        primary_lock: "k".into(),
        start_version: start,
        for_update_ts: start,
        lock_ttl: 20_000,
        wait_timeout,
        ..PessimisticLockRequest::default()
    }
}

#[test]
fn a_wait_whose_client_has_left_takes_no_lock() {
    let cluster = Cluster::new();
    let (first, second) = (lock(&cluster, -1), lock(&cluster, 0));
    let release = PessimisticRollbackRequest {
        context: cluster.context(),
        start_version: first.start_version,
        for_update_ts: first.for_update_ts,
        keys: vec!["k".into()],
    };
    let locks = async || {
        let scan = ScanLockRequest {
            context: second.context.clone(),
            max_version: u64::MAX,
            ..ScanLockRequest::default()
        };
        let found = cluster.tikv().kv_scan_lock(scan).await.unwrap();
        found.into_inner().locks.len()
    };
    cluster.runtime.block_on(async {
        let taken = cluster.tikv().kv_pessimistic_lock(first).await.unwrap();
        assert_eq!(taken.into_inner().errors, []);
        let mut tikv = cluster.tikv();
        let request = second.clone();
        let waiting = tokio::spawn(async move { tikv.kv_pessimistic_lock(request).await });
        cluster.wait_for("titan_serve_calls_running 1\n");
        // It finds the lock, and waits for it.
        tokio::time::sleep(Duration::from_millis(200)).await;
        waiting.abort();
        cluster.wait_for("titan_serve_calls_running 0\n");
        let mut tikv = cluster.tikv();
        tikv.kv_pessimistic_rollback(release).await.unwrap();
        for _ in 0..20 {
            assert_eq!(locks().await, 0);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
}
