//! Commits whose write fails: nobody is told that they surely failed, and all of each is there or
//! nothing.

use titan_server::proto::errorpb;
use titan_server::proto::kvrpcpb::*;
use titan_testkit::sim::{Fault, Loss, OpKind};

use crate::cluster::{Cluster, ask, put};
use crate::place::Place;

const KEYS: [&str; 2] = ["a", "b"];

/// A way to commit.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    TwoPhases,
    OnePhase,
    Async,
    RawBatch,
    RawSwap,
    RawDelete,
}

const WAYS: [Way; 6] = [
    Way::TwoPhases,
    Way::OnePhase,
    Way::Async,
    Way::RawBatch,
    Way::RawSwap,
    Way::RawDelete,
];

/// A failing write of a log, with each effect that it can have.
fn faults() -> Vec<Fault> {
    let on = |kind| Fault::on([kind]).path("*.log").forever();
    vec![
        on(OpKind::Append),
        on(OpKind::Append).after_writing(9),
        on(OpKind::Append).after_the_fact(),
        on(OpKind::Sync),
        on(OpKind::Sync).losing_pages(),
        on(OpKind::Sync).after_the_fact(),
    ]
}

fn prewrite(cluster: &Cluster, start: u64, value: &str, way: Way) -> PrewriteRequest {
    PrewriteRequest {
        start_version: start,
        try_one_pc: way == Way::OnePhase,
        use_async_commit: way == Way::Async,
        secondaries: vec![KEYS[1].into()],
        ..cluster.prewriting(KEYS.map(|key| put(key, value.to_owned())).into())
    }
}

/// Both values, as transactions or raw calls read them.
fn values(cluster: &Cluster, way: Way) -> Vec<String> {
    let texts = |pairs: Vec<KvPair>| {
        let text = |pair: KvPair| match pair.error {
            None => String::from_utf8(pair.value.into()).unwrap(),
            Some(error) => format!("{error:?}"),
        };
        pairs.into_iter().map(text).collect()
    };
    let (context, keys) = (cluster.context(), KEYS.map(Into::into).into());
    if is_raw(way) {
        let get = RawBatchGetRequest {
            context,
            keys,
            ..RawBatchGetRequest::default()
        };
        return texts(ask!(cluster, raw_batch_get, get).pairs);
    }
    let get = BatchGetRequest {
        context,
        keys,
        version: cluster.ts(),
    };
    texts(ask!(cluster, kv_batch_get, get).pairs)
}

fn is_raw(way: Way) -> bool {
    matches!(way, Way::RawBatch | Way::RawSwap | Way::RawDelete)
}

fn raw_put(cluster: &Cluster, value: &str) -> RawBatchPutRequest {
    let pair = |key: &str| KvPair {
        key: key.to_owned().into(),
        value: value.to_owned().into(),
        ..KvPair::default()
    };
    RawBatchPutRequest {
        context: cluster.context(),
        pairs: KEYS.map(pair).into(),
        ..RawBatchPutRequest::default()
    }
}

/// Writes the old values, and begins the transaction that writes the new ones. Returns its start.
fn begin(cluster: &Cluster, way: Way) -> u64 {
    ask!(cluster, raw_batch_put, raw_put(cluster, "old"));
    let old = prewrite(cluster, cluster.ts(), "old", Way::OnePhase);
    assert_ne!(ask!(cluster, kv_prewrite, old).one_pc_commit_ts, 0);
    let start = cluster.ts();
    if way == Way::TwoPhases {
        let first = prewrite(cluster, start, "new", way);
        let answer = ask!(cluster, kv_prewrite, first);
        assert_eq!(answer, PrewriteResponse::default());
    }
    start
}

/// Commits, and returns true if the answer is that nobody knows.
fn is_undetermined(cluster: &Cluster, way: Way, start: u64) -> bool {
    let (runtime, mut tikv) = (&cluster.runtime, cluster.tikv());
    let has_it = |error: Option<errorpb::Error>| {
        error.is_some_and(|error| error.undetermined_result.is_some())
    };
    match way {
        Way::TwoPhases => {
            let commit = CommitRequest {
                context: cluster.context(),
                start_version: start,
                keys: KEYS.map(Into::into).into(),
                commit_version: cluster.ts(),
            };
            has_it(ask!(cluster, kv_commit, commit).region_error)
        }
        Way::OnePhase | Way::Async => {
            let request = prewrite(cluster, start, "new", way);
            has_it(ask!(cluster, kv_prewrite, request).region_error)
        }
        // Raw calls have no value for it. A status without a meaning is taken for a lost answer.
        Way::RawBatch => {
            let put = raw_put(cluster, "new");
            let status = runtime.block_on(tikv.raw_batch_put(put)).unwrap_err();
            status.code() == tonic::Code::Unknown
        }
        Way::RawSwap => {
            let swap = RawCasRequest {
                context: cluster.context(),
                key: KEYS[0].into(),
                value: "new".into(),
                previous_value: "old".into(),
                ..RawCasRequest::default()
            };
            let status = runtime.block_on(tikv.raw_compare_and_swap(swap));
            status.unwrap_err().code() == tonic::Code::Unknown
        }
        Way::RawDelete => {
            let delete = RawBatchDeleteRequest {
                context: cluster.context(),
                keys: KEYS.map(Into::into).into(),
                ..RawBatchDeleteRequest::default()
            };
            let status = runtime.block_on(tikv.raw_batch_delete(delete));
            status.unwrap_err().code() == tonic::Code::Unknown
        }
    }
}

/// Ends the transaction as another client does that meets its locks.
fn resolve(cluster: &Cluster, way: Way, start: u64) {
    if is_raw(way) {
        return;
    }
    let (context, keys) = (cluster.context(), KEYS.map(Into::into).into());
    let commit_version = if way == Way::Async {
        let check = CheckSecondaryLocksRequest {
            context: context.clone(),
            keys,
            start_version: start,
        };
        let answer = ask!(cluster, kv_check_secondary_locks, check);
        match answer.locks.len() {
            2 => answer.locks.iter().map(|lock| lock.min_commit_ts).max(),
            _ => Some(answer.commit_ts),
        }
    } else {
        let check = CheckTxnStatusRequest {
            context: context.clone(),
            primary_key: KEYS[0].into(),
            lock_ts: start,
            caller_start_ts: cluster.ts(),
            current_ts: u64::MAX,
            rollback_if_not_exist: true,
            ..CheckTxnStatusRequest::default()
        };
        Some(ask!(cluster, kv_check_txn_status, check).commit_version)
    };
    let resolve = ResolveLockRequest {
        context,
        start_version: start,
        commit_version: commit_version.unwrap(),
        ..ResolveLockRequest::default()
    };
    let answer = ask!(cluster, kv_resolve_lock, resolve);
    assert_eq!(answer, ResolveLockResponse::default());
}

/// Writes another key, and returns true if that has succeeded.
fn writes_go_on(cluster: &Cluster, way: Way) -> bool {
    let (runtime, mut tikv) = (&cluster.runtime, cluster.tikv());
    if is_raw(way) {
        let put = RawPutRequest {
            context: cluster.context(),
            key: "other".into(),
            ..RawPutRequest::default()
        };
        let answer = runtime.block_on(tikv.raw_put(put));
        return answer.is_ok_and(|answer| answer.into_inner() == RawPutResponse::default());
    }
    let mut put = prewrite(cluster, cluster.ts(), "value", Way::OnePhase);
    put.mutations[0].key = "other".into();
    put.mutations.truncate(1);
    put.primary_lock = "other".into();
    ask!(cluster, kv_prewrite, put).one_pc_commit_ts > 0
}

/// All of the commit is there, or nothing. Returns which.
fn is_there(cluster: &Cluster, way: Way, what: &str) -> bool {
    let found = values(cluster, way);
    let new: &[&str] = match way {
        Way::RawSwap => &["new", "old"],
        Way::RawDelete => &[],
        _ => &["new", "new"],
    };
    assert!(found == new || found == ["old", "old"], "{what}: {found:?}");
    found == new
}

#[test]
fn a_commit_whose_write_fails_is_undetermined_and_whole_after_a_crash() {
    let mut outcomes = [0; 2];
    for way in WAYS {
        for fault in faults() {
            let what = format!("{way:?}, {fault}");
            let place = Place::new();
            let cluster = place.start();
            let start = begin(&cluster, way);
            let fault = place.vfs.inject(fault);
            assert!(is_undetermined(&cluster, way, start), "{what}");
            assert_ne!(fault.hits(), 0, "{what}");
            let images = [Loss::None, Loss::All].map(|loss| place.crashed(&loss));
            cluster.abandon();
            for image in images {
                let cluster = image.start();
                resolve(&cluster, way, start);
                outcomes[usize::from(is_there(&cluster, way, &what))] += 1;
            }
        }
    }
    assert!(outcomes.iter().all(|n| *n > 10), "{outcomes:?}");
}

#[test]
fn writes_go_on_when_the_disk_is_right_again_and_the_failed_commit_is_not_there() {
    let ways = [Way::TwoPhases, Way::OnePhase, Way::RawBatch];
    for (way, fault) in ways.into_iter().zip(faults().into_iter().step_by(2)) {
        let what = format!("{way:?}, {fault}");
        let place = Place::new();
        let cluster = place.start();
        let start = begin(&cluster, way);
        place.vfs.inject(fault);
        assert!(is_undetermined(&cluster, way, start), "{what}");
        assert!(!writes_go_on(&cluster, way), "{what}");
        place.vfs.clear_faults();
        while !writes_go_on(&cluster, way) {
            std::thread::yield_now();
        }
        resolve(&cluster, way, start);
        assert!(!is_there(&cluster, way, &what), "{what}");
    }
}
