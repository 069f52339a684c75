//! Keys beyond the limit, in every call that has some.

use titan_server::Limits;
use titan_server::proto::kvrpcpb::{Op, PrewriteRequest};

use crate::cluster::Cluster;
use crate::dynamic;
use crate::limits::with;

/// Calls with one long key, `K`.
const CALLS: &[&str] = &[
    r#"KvGet version: T key: "K""#,
    r#"KvBatchGet version: T keys: "a" keys: "K""#,
    r#"KvScan version: T limit: 1 start_key: "K""#,
    r#"KvScan version: T limit: 1 start_key: "a" end_key: "K""#,
    r#"KvScan version: T limit: 1 reverse: true start_key: "K""#,
    r#"KvPrewrite start_version: T primary_lock: "a" mutations { key: "K" }"#,
    r#"KvPrewrite start_version: T primary_lock: "K" mutations { key: "a" }"#,
    r#"KvPrewrite start_version: T primary_lock: "a" mutations { key: "a" } use_async_commit: true secondaries: "K""#,
    r#"KvPessimisticLock start_version: T for_update_ts: T primary_lock: "a" mutations { op: PessimisticLock key: "K" }"#,
    r#"KvPessimisticLock start_version: T for_update_ts: T primary_lock: "K" mutations { op: PessimisticLock key: "a" }"#,
    r#"KVPessimisticRollback start_version: T for_update_ts: T keys: "K""#,
    r#"KvTxnHeartBeat start_version: T primary_lock: "K""#,
    r#"KvCheckTxnStatus lock_ts: T primary_key: "K" rollback_if_not_exist: true"#,
    r#"KvCheckSecondaryLocks start_version: T keys: "K""#,
    r#"KvCommit start_version: T commit_version: T keys: "K""#,
    r#"KvCleanup start_version: T key: "K""#,
    r#"KvBatchRollback start_version: T keys: "K""#,
    r#"KvScanLock max_version: T start_key: "K""#,
    r#"KvResolveLock start_version: T keys: "K""#,
    r#"KvDeleteRange start_key: "K""#,
    r#"KvDeleteRange start_key: "a" end_key: "K""#,
    r#"UnsafeDestroyRange start_key: "K" end_key: "z""#,
    r#"UnsafeDestroyRange start_key: "a" end_key: "K""#,
    r#"SplitRegion split_keys: "K""#,
    r#"RawGet key: "K""#,
    r#"RawBatchGet keys: "K""#,
    r#"RawGetKeyTTL key: "K""#,
    r#"RawPut key: "K""#,
    r#"RawBatchPut pairs { key: "K" }"#,
    r#"RawDelete key: "K""#,
    r#"RawBatchDelete keys: "K""#,
    r#"RawDeleteRange start_key: "K""#,
    r#"RawDeleteRange start_key: "a" end_key: "K""#,
    r#"RawScan limit: 1 start_key: "K""#,
    r#"RawBatchScan each_limit: 1 ranges { end_key: "K" }"#,
    r#"RawCompareAndSwap key: "K" previous_not_exist: true"#,
];

fn answer(cluster: &Cluster, line: &str) -> String {
    let (name, request) = line.split_once(' ').unwrap();
    let method = dynamic::method(name);
    let context = cluster.context().unwrap();
    let (epoch, peer) = (context.region_epoch.unwrap(), context.peer.unwrap());
    let text = format!(
        "{request} context {{ region_id: {} region_epoch {{ conf_ver: {} version: {} }} \
         peer {{ id: {} store_id: {} }} }}",
        context.region_id, epoch.conf_ver, epoch.version, peer.id, peer.store_id
    );
    let request = dynamic::request(&method, &text);
    let call = dynamic::call(&cluster.channel, &method, request);
    match cluster.runtime.block_on(call) {
        Ok(bytes) => dynamic::answer(&method, bytes),
        Err(status) => format!("{status}"),
    }
}

#[test]
fn every_call_refuses_keys_beyond_the_limit_and_takes_those_within() {
    let cluster = with(Limits {
        key_bytes: 100,
        ..Limits::default()
    });
    let line = |call: &str, len| {
        let name = call.split(' ').next().unwrap();
        let (_, rest) = call.split_once(' ').unwrap();
        let rest = rest.replace("\"K\"", &format!("\"{}\"", "k".repeat(len)));
        format!(
            "{name} {}",
            rest.replace(" T", &format!(" {}", cluster.ts()))
        )
    };
    for call in CALLS {
        // A bound may be an encoded key.
        let told = answer(&cluster, &line(call, 200));
        assert!(told.contains("raft_entry_too_large"), "{call}: {told}");
        let told = answer(&cluster, &line(call, 100));
        assert!(!told.contains("too_large"), "{call}: {told}");
    }
}

#[test]
fn secondary_keys_are_bounded_together() {
    let cluster = Cluster::new();
    let prewrite = |count: usize| {
        let request = PrewriteRequest {
            context: cluster.context(),
            mutations: vec![titan_server::proto::kvrpcpb::Mutation {
                op: Op::Put.into(),
                key: "k".into(),
                ..Default::default()
            }],
            primary_lock: "k".into(),
            start_version: cluster.ts(),
            lock_ttl: 0,
            use_async_commit: true,
            secondaries: vec![vec![b's'; 992].into(); count],
            ..PrewriteRequest::default()
        };
        let answer = cluster
            .runtime
            .block_on(cluster.tikv().kv_prewrite(request));
        answer.unwrap().into_inner()
    };
    // In memory each takes a kibibyte.
    let refused = prewrite((8 << 10) + 1).region_error.unwrap();
    assert!(refused.raft_entry_too_large.is_some(), "{refused:?}");
    let done = prewrite(8 << 10);
    assert!(done.min_commit_ts > 0, "{:?}", done.region_error);
}
