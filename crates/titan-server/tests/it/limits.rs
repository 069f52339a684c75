//! Malformed and huge requests, deadlines.

use std::time::{Duration, Instant};

use tonic::{Code, Request};

use titan_server::proto::kvrpcpb::*;
use titan_server::proto::pdpb::{ScanRegionsRequest, SplitRegionsRequest};
use titan_server::{Limits, NodeOptions};

use crate::cluster::{Cluster, ask, options, put};
use crate::dynamic;

/// A node with these limits.
pub fn with(limits: Limits) -> Cluster {
    Cluster::with(NodeOptions {
        limits,
        ..options()
    })
}

#[test]
fn bytes_that_are_no_request_are_refused_and_the_node_goes_on() {
    let cluster = Cluster::new();
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    let calls = [
        "KvGet",
        "KvPrewrite",
        "KvScan",
        "RawBatchPut",
        "GetRegion",
        "Range",
        "SplitRegion",
    ];
    for _ in 0..400 {
        let method = dynamic::method(random.choice(calls).unwrap());
        let len = random.usize(1..60);
        let bytes: Vec<u8> = (0..len).map(|_| random.u8(..)).collect();
        // Some bytes are a request by accident: an answer is as good.
        let call = dynamic::call(&cluster.channel, &method, bytes);
        if let Err(status) = cluster.runtime.block_on(call) {
            let is_refused = matches!(
                status.code(),
                Code::Internal | Code::InvalidArgument | Code::FailedPrecondition
            );
            assert!(is_refused, "seed {seed}: {status:?}");
        }
    }
    assert!(cluster.ts() > 0);
}

#[test]
fn what_is_too_large_is_refused_with_its_reason() {
    let cluster = with(Limits {
        request_bytes: 1 << 20,
        value_bytes: 1000,
        key_bytes: 100,
        answer_bytes: 10_000,
        ..Limits::default()
    });
    let put = |key: Vec<u8>, value: Vec<u8>| RawPutRequest {
        context: cluster.context(),
        key: key.into(),
        value: value.into(),
        ..RawPutRequest::default()
    };
    let huge = put(b"k".into(), vec![0; 2 << 20]);
    let huge = cluster.runtime.block_on(cluster.tikv().raw_put(huge));
    let huge = huge.unwrap_err();
    assert_eq!(huge.code(), Code::ResourceExhausted);
    assert!(huge.message().contains("larger than max"), "{huge}");
    let value = ask!(cluster, raw_put, put(b"k".into(), vec![0; 1001]));
    let error = value.region_error.unwrap();
    let error = error.raft_entry_too_large.unwrap();
    assert_eq!(error.entry_size, 1001);
    assert_eq!(error.region_id, cluster.context_at(b"").region_id);
    let key = ask!(cluster, raw_put, put(vec![b'k'; 101], vec![]));
    let error = key.region_error.unwrap();
    assert!(error.message.contains("too large"), "{error:?}");
    for n in 0..20 {
        let answer = ask!(cluster, raw_put, put(vec![b'a' + n], vec![0; 1000]));
        assert_eq!(answer.error, "");
    }
    // It does not end early: that would look like the end of the region.
    let scan = |limit| RawScanRequest {
        context: cluster.context(),
        limit,
        ..RawScanRequest::default()
    };
    let error = ask!(cluster, raw_scan, scan(100)).region_error.unwrap();
    // A client would repeat a call with another error.
    assert_eq!(error.server_is_busy, None);
    assert!(error.raft_entry_too_large.unwrap().entry_size > 10_000);
    assert_eq!(ask!(cluster, raw_scan, scan(9)).kvs.len(), 9);
}

#[test]
fn keys_whose_values_exceed_the_answer_are_not_locked() {
    let cluster = with(Limits {
        answer_bytes: 10_000,
        ..Limits::default()
    });
    let puts = (0..20).map(|n| put(vec![b'a' + n], vec![7; 1000]));
    let prewrite = PrewriteRequest {
        try_one_pc: true,
        ..cluster.prewriting(puts.collect())
    };
    assert!(ask!(cluster, kv_prewrite, prewrite).one_pc_commit_ts > 0);
    let ts = cluster.ts();
    for (keys, is_refused) in [(20, true), (5, false)] {
        let mutations = (0..keys).map(|n| Mutation {
            op: Op::PessimisticLock.into(),
            ..put(vec![b'a' + n], "")
        });
        let lock = PessimisticLockRequest {
            mutations: mutations.collect(),
            return_values: true,
            ..cluster.locking(ts, "a", -1)
        };
        let answer = ask!(cluster, kv_pessimistic_lock, lock);
        let error = answer.region_error.unwrap_or_default();
        assert_eq!(error.raft_entry_too_large.is_some(), is_refused);
        let scan = ScanLockRequest {
            context: cluster.context(),
            max_version: u64::MAX,
            ..ScanLockRequest::default()
        };
        let locks = ask!(cluster, kv_scan_lock, scan).locks.len();
        assert_eq!(locks, if is_refused { 0 } else { 5 });
        assert_eq!(answer.values.len(), locks);
    }
}

#[test]
fn boundaries_that_no_key_has_are_refused() {
    let mut cluster = with(Limits {
        key_bytes: 100,
        ..Limits::default()
    });
    let count = |cluster: &Cluster| {
        let request = ScanRegionsRequest {
            header: cluster.header(),
            ..ScanRegionsRequest::default()
        };
        let answer = cluster.runtime.block_on(cluster.pd().scan_regions(request));
        answer.unwrap().into_inner().region_metas.len()
    };
    for is_raw_kv in [false, true] {
        let split = |cluster: &Cluster, key: Vec<u8>| {
            let request = SplitRegionRequest {
                context: Some(cluster.context_at(b"y")),
                split_keys: vec![key.into()],
                is_raw_kv,
                ..SplitRegionRequest::default()
            };
            cluster
                .runtime
                .block_on(cluster.tikv().split_region(request))
        };
        let refused = split(&cluster, vec![b'z'; 101]).unwrap().into_inner();
        let error = refused.region_error.unwrap();
        assert!(error.raft_entry_too_large.is_some(), "{error:?}");
        split(&cluster, vec![b'z'; 100]).unwrap();
    }
    let split = |cluster: &Cluster, key: Vec<u8>| {
        let request = SplitRegionsRequest {
            header: cluster.header(),
            split_keys: vec![key.into()],
            ..SplitRegionsRequest::default()
        };
        cluster
            .runtime
            .block_on(cluster.pd().split_regions(request))
    };
    let longest = titan_mvcc::codec::encode_key(&[b'a'; 100]);
    let refused = split(&cluster, [&*longest, b"\0"].concat()).unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
    split(&cluster, longest).unwrap();
    assert_eq!(count(&cluster), 4);
    cluster.restart();
    assert_eq!(count(&cluster), 4);
}

#[test]
fn a_call_ends_at_its_deadline() {
    let cluster = Cluster::new();
    let pairs = (0..2000u32).map(|n| KvPair {
        key: format!("{n:05}").into(),
        value: "v".into(),
        error: None,
    });
    let request = RawBatchPutRequest {
        context: cluster.context(),
        pairs: pairs.collect(),
        ..RawBatchPutRequest::default()
    };
    ask!(cluster, raw_batch_put, request);
    let mut context = cluster.context_at(b"");
    context.max_execution_duration_ms = 1;
    let ranges = KeyRange::default();
    let request = RawBatchScanRequest {
        context: Some(context),
        ranges: vec![ranges; 1000],
        each_limit: 2000,
        ..RawBatchScanRequest::default()
    };
    let late = ask!(cluster, raw_batch_scan, request.clone());
    let error = late.region_error.unwrap();
    assert_eq!(error.server_is_busy.unwrap().reason, "deadline is exceeded");
    // The deadline of the transport.
    let mut request = Request::new(RawBatchScanRequest {
        context: cluster.context(),
        ..request
    });
    request.set_timeout(Duration::from_millis(2));
    let began = Instant::now();
    let mut tikv = cluster.tikv();
    let late = cluster.runtime.block_on(tikv.raw_batch_scan(request));
    let is_late = match late {
        Ok(answer) => answer.into_inner().region_error.is_some(),
        Err(status) => matches!(status.code(), Code::Cancelled | Code::DeadlineExceeded),
    };
    assert!(is_late);
    assert!(began.elapsed() < Duration::from_secs(10));
}
