//! Inputs to start from: calls in an order that makes sense.

use std::collections::BTreeSet;

use prost::Message;
use titan_server::proto::kvrpcpb::{self, *};
use titan_server::proto::tikvpb::BatchCommandsRequest;
use titan_server::proto::tikvpb::batch_commands_request::Request;
use titan_server::proto::tikvpb::batch_commands_request::request::Cmd;
use titan_server::proto::{etcdserverpb, pdpb};

use super::methods::{CALLS, ETCD, PLACEMENT};
use super::place::{NOW, context};

/// The number of a call, and its request.
type Call = (u8, Vec<u8>);

/// The inputs of a target to start from; none for a target of something else.
pub fn seeds(target: &str) -> BTreeSet<Vec<u8>> {
    let lists = match target {
        "calls" => key_value(),
        "placement" => vec![placement()],
        "requests" => {
            let requests = key_value().into_iter().flatten().chain(placement());
            return requests.map(|(_, request)| request).collect();
        }
        _ => Vec::new(),
    };
    let mut seeds = BTreeSet::new();
    for list in lists {
        // The whole list, and its beginnings.
        for len in 1..=list.len() {
            seeds.insert(list[..len].iter().flat_map(input).collect());
        }
    }
    seeds
}

/// A call in the form of an input.
fn input((number, request): &Call) -> Vec<u8> {
    let length = request.len() as u8;
    [&[number | 128, length], &request[..length.into()]].concat()
}

fn call(path: &str, request: &impl Message) -> Call {
    let at = CALLS.iter().position(|method| method.path.ends_with(path));
    // The last one is that of batches.
    (at.unwrap_or(CALLS.len()) as u8, request.encode_to_vec())
}

/// A timestamp of a new node.
fn ts(n: u64) -> u64 {
    ((NOW * 1000) << 18) + n
}

fn mutation(op: Op, key: &'static str) -> kvrpcpb::Mutation {
    kvrpcpb::Mutation {
        op: op.into(),
        key: key.into(),
        value: "v".into(),
        ..kvrpcpb::Mutation::default()
    }
}

fn prewrite(start: u64) -> PrewriteRequest {
    PrewriteRequest {
        mutations: vec![mutation(Op::Put, "a"), mutation(Op::Del, "b")],
        primary_lock: "a".into(),
        start_version: ts(start),
        lock_ttl: 3000,
        ..PrewriteRequest::default()
    }
}

fn scan(version: u64) -> ScanRequest {
    ScanRequest {
        limit: 10,
        version,
        ..ScanRequest::default()
    }
}

fn key_value() -> Vec<Vec<Call>> {
    let keys = || vec!["a".into(), "b".into()];
    let commit = |start: u64, at: u64| CommitRequest {
        start_version: ts(start),
        keys: keys(),
        commit_version: ts(at),
        ..CommitRequest::default()
    };
    let two_phases = vec![
        call("KvPrewrite", &prewrite(10)),
        call("KvScan", &scan(u64::MAX)),
        call("KvCommit", &commit(10, 20)),
        call("KvScan", &scan(ts(30))),
        call("KvPrewrite", &prewrite(40)),
        call(
            "KvBatchRollback",
            &BatchRollbackRequest {
                start_version: ts(40),
                keys: keys(),
                ..BatchRollbackRequest::default()
            },
        ),
    ];
    let others = vec![
        call(
            "KvPrewrite",
            &PrewriteRequest {
                try_one_pc: true,
                ..prewrite(10)
            },
        ),
        call(
            "KvPrewrite",
            &PrewriteRequest {
                use_async_commit: true,
                secondaries: vec!["b".into()],
                ..prewrite(1000)
            },
        ),
        call(
            "KvCheckSecondaryLocks",
            &CheckSecondaryLocksRequest {
                keys: keys(),
                start_version: ts(1000),
                ..CheckSecondaryLocksRequest::default()
            },
        ),
        call(
            "KvCheckTxnStatus",
            &CheckTxnStatusRequest {
                primary_key: "a".into(),
                lock_ts: ts(1000),
                caller_start_ts: ts(2000),
                current_ts: ts(2000),
                ..CheckTxnStatusRequest::default()
            },
        ),
        call(
            "KvResolveLock",
            &ResolveLockRequest {
                start_version: ts(1000),
                commit_version: ts(3000),
                ..ResolveLockRequest::default()
            },
        ),
    ];
    let pessimistic = vec![
        call(
            "KvPessimisticLock",
            &PessimisticLockRequest {
                mutations: vec![mutation(Op::PessimisticLock, "a")],
                primary_lock: "a".into(),
                start_version: ts(10),
                for_update_ts: ts(10),
                lock_ttl: 3000,
                wait_timeout: -1,
                return_values: true,
                ..PessimisticLockRequest::default()
            },
        ),
        call(
            "KvTxnHeartBeat",
            &TxnHeartBeatRequest {
                primary_lock: "a".into(),
                start_version: ts(10),
                advise_lock_ttl: 9000,
                ..TxnHeartBeatRequest::default()
            },
        ),
        call(
            "KvScanLock",
            &ScanLockRequest {
                max_version: u64::MAX,
                ..ScanLockRequest::default()
            },
        ),
        call(
            "KvPrewrite",
            &PrewriteRequest {
                for_update_ts: ts(10),
                pessimistic_actions: vec![1, 0],
                ..prewrite(10)
            },
        ),
        call("KvCommit", &commit(10, 20)),
    ];
    let raw = vec![
        call(
            "RawPut",
            &RawPutRequest {
                key: "a".into(),
                value: "v".into(),
                ttl: 10,
                ..RawPutRequest::default()
            },
        ),
        call(
            "RawCompareAndSwap",
            &RawCasRequest {
                key: "a".into(),
                value: "w".into(),
                previous_value: "v".into(),
                ..RawCasRequest::default()
            },
        ),
        call(
            "RawScan",
            &RawScanRequest {
                limit: 10,
                ..RawScanRequest::default()
            },
        ),
        call(
            "SplitRegion",
            &SplitRegionRequest {
                split_keys: keys(),
                is_raw_kv: true,
                ..SplitRegionRequest::default()
            },
        ),
        call(
            "RawDeleteRange",
            &RawDeleteRangeRequest {
                start_key: "a".into(),
                end_key: "b".into(),
                ..RawDeleteRangeRequest::default()
            },
        ),
        call(
            "UnsafeDestroyRange",
            &UnsafeDestroyRangeRequest {
                start_key: "a".into(),
                end_key: "b".into(),
                ..UnsafeDestroyRangeRequest::default()
            },
        ),
    ];
    let commands = [
        Cmd::Prewrite(Box::new(PrewriteRequest {
            context: Some(context()),
            ..prewrite(10)
        })),
        Cmd::Scan(Box::new(ScanRequest {
            context: Some(context()),
            ..scan(u64::MAX)
        })),
        Cmd::Empty(Box::default()),
    ];
    let requests = commands.map(|cmd| Request { cmd: Some(cmd) });
    let batch = BatchCommandsRequest {
        requests: requests.into(),
        request_ids: vec![1, 2, 3],
    };
    let batches = vec![
        call("BatchCommands", &batch),
        call("KvCommit", &commit(10, 20)),
    ];
    vec![two_phases, others, pessimistic, raw, batches]
}

fn placement() -> Vec<Call> {
    let methods = || PLACEMENT.iter().map(|method| method.path);
    // The stream of timestamps comes between.
    let paths = methods().chain(["/pdpb.PD/Tso"]);
    let paths: Vec<&str> = paths.chain(ETCD.iter().map(|method| method.path)).collect();
    let call = |path: &str, request: Vec<u8>| {
        let at = paths.iter().position(|known| known.ends_with(path));
        (at.unwrap_or_default() as u8, request)
    };
    let split = pdpb::SplitRegionsRequest {
        split_keys: vec!["a".into(), "m".into()],
        ..pdpb::SplitRegionsRequest::default()
    };
    let regions = pdpb::ScanRegionsRequest {
        limit: 10,
        ..pdpb::ScanRegionsRequest::default()
    };
    let timestamps = pdpb::TsoRequest {
        count: 10,
        ..pdpb::TsoRequest::default()
    };
    let service = pdpb::UpdateServiceGcSafePointRequest {
        service_id: "backup".into(),
        ttl: 100,
        safe_point: ts(5),
        ..pdpb::UpdateServiceGcSafePointRequest::default()
    };
    let safe_point = pdpb::UpdateGcSafePointRequest {
        safe_point: ts(8),
        ..pdpb::UpdateGcSafePointRequest::default()
    };
    let put = etcdserverpb::PutRequest {
        key: "k".into(),
        value: "v".into(),
        prev_kv: true,
        ..etcdserverpb::PutRequest::default()
    };
    let range = etcdserverpb::RangeRequest {
        key: "a".into(),
        range_end: "z".into(),
        ..etcdserverpb::RangeRequest::default()
    };
    let delete = etcdserverpb::DeleteRangeRequest {
        key: "k".into(),
        ..etcdserverpb::DeleteRangeRequest::default()
    };
    let mut calls = vec![
        call("/AllocID", Vec::new()),
        call("/SplitRegions", split.encode_to_vec()),
        call("/ScanRegions", regions.encode_to_vec()),
        call("/Tso", timestamps.encode_to_vec()),
        call("/UpdateServiceGCSafePoint", service.encode_to_vec()),
        call("/UpdateGCSafePoint", safe_point.encode_to_vec()),
        call("/Put", put.encode_to_vec()),
        call("/Range", range.encode_to_vec()),
        call("/DeleteRange", delete.encode_to_vec()),
    ];
    calls.extend(methods().map(|path| call(path, Vec::new())));
    calls
}
