//! A disk that is almost full, and full: who is refused, and how it goes on.

use titan_server::proto::errorpb;
use titan_server::proto::kvrpcpb::*;

use crate::cluster::{Cluster, ask, put};
use crate::place::Place;

fn assert_full(error: Option<errorpb::Error>) {
    let full = error.unwrap().disk_full.unwrap();
    assert_eq!(full.store_id, [1]);
    assert_ne!(full.reason, "");
}

/// A node with a megabyte of raw keys, a committed row `row`, and one that is locked, `open`, and
/// its start.
fn filled(place: &Place) -> (Cluster, u64) {
    let cluster = place.start();
    for n in 0..16 {
        let answer = cluster.raw_put(&format!("raw{n:02}"), vec![n; 64 << 10]);
        assert_eq!(answer, RawPutResponse::default());
    }
    let row = cluster.prewrite("row");
    assert_eq!(cluster.commit("row", row).region_error, None);
    let open = cluster.prewrite("open");
    (cluster, open)
}

#[test]
fn an_almost_full_disk_refuses_what_begins_something_and_nothing_else() {
    let place = Place::new();
    let (cluster, open) = filled(&place);
    // A fiftieth is left.
    place.vfs.set_capacity(Some(place.vfs.used() * 50 / 49));
    let context = cluster.context();

    assert_full(cluster.raw_put("k", "").region_error);
    let batch = RawBatchPutRequest {
        context: context.clone(),
        ..RawBatchPutRequest::default()
    };
    assert_full(ask!(cluster, raw_batch_put, batch).region_error);
    let swap = RawCasRequest {
        context: context.clone(),
        key: "k".into(),
        previous_not_exist: true,
        ..RawCasRequest::default()
    };
    assert_full(ask!(cluster, raw_compare_and_swap, swap).region_error);
    let request = cluster.prewriting(vec![put("k", "v")]);
    assert_full(ask!(cluster, kv_prewrite, request).region_error);
    let lock = cluster.locking(cluster.ts(), "k", -1);
    assert_full(ask!(cluster, kv_pessimistic_lock, lock).region_error);

    // Reads, ends of transactions, and deletions go on.
    assert_eq!(cluster.get("row").value, "v");
    let beat = TxnHeartBeatRequest {
        context: context.clone(),
        primary_lock: "open".into(),
        start_version: open,
        advise_lock_ttl: 9000,
    };
    assert_eq!(ask!(cluster, kv_txn_heart_beat, beat).lock_ttl, 9000);
    assert_eq!(cluster.commit("open", open).region_error, None);
    assert_eq!(cluster.get("open").value, "v");
    let insisting = Context {
        disk_full_opt: DiskFullOpt::AllowedOnAlmostFull.into(),
        ..context.clone().unwrap()
    };
    let request = PrewriteRequest {
        context: Some(insisting),
        ..cluster.prewriting(vec![put("k", "v")])
    };
    let start = request.start_version;
    assert_eq!(
        ask!(cluster, kv_prewrite, request),
        PrewriteResponse::default()
    );
    let resolve = ResolveLockRequest {
        context: context.clone(),
        start_version: start,
        ..ResolveLockRequest::default()
    };
    assert_eq!(
        ask!(cluster, kv_resolve_lock, resolve),
        ResolveLockResponse::default()
    );
    assert!(cluster.get("k").not_found);
    let delete = RawDeleteRequest {
        context: context.clone(),
        key: "raw00".into(),
        ..RawDeleteRequest::default()
    };
    assert_eq!(
        ask!(cluster, raw_delete, delete),
        RawDeleteResponse::default()
    );

    place.vfs.set_capacity(None);
    let answer = cluster.raw_put("k", "");
    assert_eq!(answer, RawPutResponse::default());
}

#[test]
fn a_full_disk_refuses_writes_and_they_go_on_when_there_is_room() {
    let place = Place::new();
    let (cluster, open) = filled(&place);
    place.vfs.set_capacity(Some(place.vfs.used()));
    assert_full(cluster.raw_put("k", "").region_error);
    // The first commit finds that its log has no room, which is all that is known of it.
    let error = cluster.commit("open", open).region_error.unwrap();
    assert!(error.undetermined_result.is_some(), "{error:?}");
    assert_eq!(cluster.get("row").value, "v");
    assert!(cluster.get("open").error.unwrap().locked.is_some());
    place.vfs.set_capacity(None);
    while cluster.commit("open", open).region_error.is_some() {
        std::thread::yield_now();
    }
    assert_eq!(cluster.get("open").value, "v");
    while cluster.raw_put("k", "").region_error.is_some() {
        std::thread::yield_now();
    }
}
