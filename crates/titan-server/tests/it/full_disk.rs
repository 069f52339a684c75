//! A disk that is almost full, and full: who is refused, and how it goes on.

use titan_server::proto::errorpb;
use titan_server::proto::kvrpcpb::{self, *};

use crate::cluster::Cluster;
use crate::place::Place;

fn mutation(key: &str, op: Op) -> kvrpcpb::Mutation {
    kvrpcpb::Mutation {
        op: op.into(),
        key: key.to_owned().into(),
        value: if op == Op::Put { "v" } else { "" }.into(),
        ..kvrpcpb::Mutation::default()
    }
}

fn prewrite(context: Option<Context>, key: &str, start: u64) -> PrewriteRequest {
    PrewriteRequest {
        context,
        mutations: vec![mutation(key, Op::Put)],
        primary_lock: key.to_owned().into(),
        start_version: start,
        lock_ttl: 3000,
        ..PrewriteRequest::default()
    }
}

fn commit(cluster: &Cluster, key: &str, start: u64) -> CommitResponse {
    let request = CommitRequest {
        context: cluster.context(),
        start_version: start,
        keys: vec![key.to_owned().into()],
        commit_version: cluster.ts(),
    };
    let answer = cluster.runtime.block_on(cluster.tikv().kv_commit(request));
    answer.unwrap().into_inner()
}

fn get(cluster: &Cluster, key: &str) -> GetResponse {
    let request = GetRequest {
        context: cluster.context(),
        key: key.to_owned().into(),
        version: cluster.ts(),
    };
    let answer = cluster.runtime.block_on(cluster.tikv().kv_get(request));
    answer.unwrap().into_inner()
}

fn raw_put(cluster: &Cluster, key: &str, value: Vec<u8>) -> RawPutResponse {
    let request = RawPutRequest {
        context: cluster.context(),
        key: key.to_owned().into(),
        value: value.into(),
        ..RawPutRequest::default()
    };
    let answer = cluster.runtime.block_on(cluster.tikv().raw_put(request));
    answer.unwrap().into_inner()
}

fn assert_full(error: Option<errorpb::Error>) {
    let full = error.unwrap().disk_full.unwrap();
    assert_eq!(full.store_id, [1]);
    assert_ne!(full.reason, "");
}

/// A node with a megabyte of raw keys, a committed row `row`, and one that is locked, `open`.
fn filled(place: &Place) -> (Cluster, u64) {
    let cluster = place.start();
    let (runtime, mut tikv) = (&cluster.runtime, cluster.tikv());
    for n in 0..16 {
        let key = format!("raw{n:02}");
        let answer = raw_put(&cluster, &key, vec![n; 64 << 10]);
        assert_eq!(answer, RawPutResponse::default());
    }
    for key in ["row", "open"] {
        let start = cluster.ts();
        let request = prewrite(cluster.context(), key, start);
        let answer = runtime.block_on(tikv.kv_prewrite(request)).unwrap();
        assert_eq!(answer.into_inner(), PrewriteResponse::default());
        if key == "open" {
            return (cluster, start);
        }
        assert_eq!(commit(&cluster, key, start).region_error, None);
    }
    unreachable!()
}

#[test]
fn an_almost_full_disk_refuses_what_begins_something_and_nothing_else() {
    let place = Place::new();
    let (cluster, open) = filled(&place);
    // A fiftieth is left.
    place.vfs.set_capacity(Some(place.vfs.used() * 50 / 49));
    let (runtime, mut tikv) = (&cluster.runtime, cluster.tikv());
    let context = cluster.context();

    assert_full(raw_put(&cluster, "k", Vec::new()).region_error);
    let put = RawBatchPutRequest {
        context: context.clone(),
        ..RawBatchPutRequest::default()
    };
    let answer = runtime.block_on(tikv.raw_batch_put(put)).unwrap();
    assert_full(answer.into_inner().region_error);
    let swap = RawCasRequest {
        context: context.clone(),
        key: "k".into(),
        previous_not_exist: true,
        ..RawCasRequest::default()
    };
    let answer = runtime.block_on(tikv.raw_compare_and_swap(swap)).unwrap();
    assert_full(answer.into_inner().region_error);
    let request = prewrite(context.clone(), "k", cluster.ts());
    let answer = runtime.block_on(tikv.kv_prewrite(request)).unwrap();
    assert_full(answer.into_inner().region_error);
    let start = cluster.ts();
    let lock = PessimisticLockRequest {
        context: context.clone(),
        mutations: vec![mutation("k", Op::PessimisticLock)],
        primary_lock: "k".into(),
        start_version: start,
        for_update_ts: start,
        lock_ttl: 3000,
        ..PessimisticLockRequest::default()
    };
    let answer = runtime.block_on(tikv.kv_pessimistic_lock(lock)).unwrap();
    assert_full(answer.into_inner().region_error);

    // Reads, ends of transactions, and deletions go on.
    assert_eq!(get(&cluster, "row").value, "v");
    let beat = TxnHeartBeatRequest {
        context: context.clone(),
        primary_lock: "open".into(),
        start_version: open,
        advise_lock_ttl: 9000,
    };
    let answer = runtime.block_on(tikv.kv_txn_heart_beat(beat)).unwrap();
    assert_eq!(answer.into_inner().lock_ttl, 9000);
    assert_eq!(commit(&cluster, "open", open).region_error, None);
    assert_eq!(get(&cluster, "open").value, "v");
    let insisting = Context {
        disk_full_opt: DiskFullOpt::AllowedOnAlmostFull.into(),
        ..context.clone().unwrap()
    };
    let start = cluster.ts();
    let request = prewrite(Some(insisting), "k", start);
    let answer = runtime.block_on(tikv.kv_prewrite(request)).unwrap();
    assert_eq!(answer.into_inner(), PrewriteResponse::default());
    let resolve = ResolveLockRequest {
        context: context.clone(),
        start_version: start,
        ..ResolveLockRequest::default()
    };
    let answer = runtime.block_on(tikv.kv_resolve_lock(resolve)).unwrap();
    assert_eq!(answer.into_inner(), ResolveLockResponse::default());
    assert!(get(&cluster, "k").not_found);
    let delete = RawDeleteRequest {
        context: context.clone(),
        key: "raw00".into(),
        ..RawDeleteRequest::default()
    };
    let answer = runtime.block_on(tikv.raw_delete(delete)).unwrap();
    assert_eq!(answer.into_inner(), RawDeleteResponse::default());

    place.vfs.set_capacity(None);
    let answer = raw_put(&cluster, "k", Vec::new());
    assert_eq!(answer, RawPutResponse::default());
}

#[test]
fn a_full_disk_refuses_writes_and_they_go_on_when_there_is_room() {
    let place = Place::new();
    let (cluster, open) = filled(&place);
    place.vfs.set_capacity(Some(place.vfs.used()));
    assert_full(raw_put(&cluster, "k", Vec::new()).region_error);
    // The first commit finds that its log has no room, which is all that is known of it.
    let error = commit(&cluster, "open", open).region_error.unwrap();
    assert!(error.undetermined_result.is_some(), "{error:?}");
    assert_eq!(get(&cluster, "row").value, "v");
    assert!(get(&cluster, "open").error.unwrap().locked.is_some());
    place.vfs.set_capacity(None);
    while commit(&cluster, "open", open).region_error.is_some() {
        std::thread::yield_now();
    }
    assert_eq!(get(&cluster, "open").value, "v");
    while raw_put(&cluster, "k", Vec::new()).region_error.is_some() {
        std::thread::yield_now();
    }
}
