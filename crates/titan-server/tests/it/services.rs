//! Streams, times, several clients: beyond the recorded calls.

use std::collections::HashSet;
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use titan_server::proto::kvrpcpb::*;
use titan_server::proto::pdpb::TsoRequest;
use titan_server::proto::tikvpb::batch_commands_request::Request as Asked;
use titan_server::proto::tikvpb::batch_commands_request::request::Cmd;
use titan_server::proto::tikvpb::batch_commands_response::response::Cmd as Answer;
use titan_server::proto::tikvpb::{BatchCommandsEmptyRequest, BatchCommandsRequest};
use titan_server::{NodeOptions, RegionSizes};

use crate::cluster::{Cluster, ask, options, put};

#[test]
fn timestamps_come_in_order_and_runs_do_not_overlap() {
    let cluster = Cluster::new();
    let mut last = 0;
    for count in [1, 10, 3, 200_000, 1] {
        let first = cluster.timestamps(count);
        assert!(first > last);
        last = first + u64::from(count) - 1;
    }
    // Many requests of one stream, answered in their order.
    let header = cluster.header();
    let mut pd = cluster.pd();
    cluster.runtime.block_on(async move {
        let (send, asked) = mpsc::channel(100);
        let answers = pd.tso(ReceiverStream::new(asked)).await.unwrap();
        let mut answers = answers.into_inner();
        for count in 1..=50 {
            let request = TsoRequest {
                header,
                count,
                dc_location: String::new(),
            };
            send.send(request).await.unwrap();
        }
        for count in 1..=50 {
            let answer = answers.message().await.unwrap().unwrap();
            assert_eq!(answer.count, count);
            let at = answer.timestamp.unwrap();
            let ts = ((at.physical as u64) << 18) + at.logical as u64;
            assert!(ts > last);
            last = ts;
        }
        // Nobody gets none.
        let request = TsoRequest {
            header,
            ..TsoRequest::default()
        };
        send.send(request).await.unwrap();
        let refused = answers.message().await.unwrap_err();
        assert_eq!(refused.code(), tonic::Code::InvalidArgument);
    });
}

#[test]
fn a_batch_answers_every_call_by_its_number_in_any_order() {
    let cluster = Cluster::new();
    let context = cluster.context();
    let version = cluster.ts();
    let mut tikv = cluster.tikv();
    cluster.runtime.block_on(async move {
        let (send, asked) = mpsc::channel(100);
        let answers = tikv
            .batch_commands(ReceiverStream::new(asked))
            .await
            .unwrap();
        let mut answers = answers.into_inner();
        let slow = Cmd::Empty(Box::new(BatchCommandsEmptyRequest {
            test_id: 9,
            delay_time: 300,
        }));
        let get = Cmd::Get(Box::new(GetRequest {
            context: context.clone(),
            key: "k".into(),
            version,
        }));
        let large = Cmd::RawPut(Box::new(RawPutRequest {
            context: context.clone(),
            key: "large".into(),
            value: vec![7; 300_000].into(),
            ..RawPutRequest::default()
        }));
        let unknown = Asked { cmd: None };
        let mut requests = vec![Asked { cmd: Some(slow) }, unknown];
        requests.push(Asked { cmd: Some(large) });
        requests.extend((0..100).map(|_| Asked {
            cmd: Some(get.clone()),
        }));
        let request_ids = (0..requests.len() as u64).collect();
        let batch = BatchCommandsRequest {
            requests,
            request_ids,
        };
        send.send(batch).await.unwrap();
        let mut seen = HashSet::new();
        let mut last = None;
        while seen.len() < 103 {
            let message = answers.message().await.unwrap().unwrap();
            assert_eq!(message.responses.len(), message.request_ids.len());
            for (answer, id) in message.responses.into_iter().zip(message.request_ids) {
                assert!(seen.insert(id));
                match (id, answer.cmd) {
                    (0, Some(Answer::Empty(empty))) => assert_eq!(empty.test_id, 9),
                    (1, None) => {}
                    (2, Some(Answer::RawPut(put))) => assert_eq!(put.error, ""),
                    (3.., Some(Answer::Get(get))) => assert!(get.not_found),
                    other => panic!("{other:?}"),
                }
                last = Some(id);
            }
        }
        // Nobody waited for the slow one.
        assert_eq!(last, Some(0));
        // Calls without numbers end the stream.
        let broken = BatchCommandsRequest {
            requests: vec![Asked { cmd: None }],
            request_ids: Vec::new(),
        };
        send.send(broken).await.unwrap();
        let refused = answers.message().await.unwrap_err();
        assert_eq!(refused.code(), tonic::Code::InvalidArgument);
    });
}

#[test]
fn a_lock_is_waited_for_and_its_owner_can_go_on() {
    let cluster = Cluster::new();
    let context = cluster.context();
    let lock = |start, wait| cluster.locking(start, "k", wait);
    let (first, second) = (cluster.ts(), cluster.ts());
    ask!(cluster, kv_pessimistic_lock, lock(first, -1));
    // It does not wait for ever.
    let began = Instant::now();
    let locked = ask!(cluster, kv_pessimistic_lock, lock(second, 200));
    assert!(locked.errors[0].locked.is_some());
    assert!(began.elapsed() >= Duration::from_millis(200));
    thread::scope(|scope| {
        let waiting = scope.spawn(|| ask!(cluster, kv_pessimistic_lock, lock(second, 0)));
        let release = PessimisticRollbackRequest {
            context: context.clone(),
            start_version: first,
            for_update_ts: first,
            keys: vec!["k".into()],
        };
        ask!(cluster, kv_pessimistic_rollback, release);
        assert_eq!(waiting.join().unwrap().errors, []);
    });
}

#[test]
fn regions_are_split_by_size_and_by_keys() {
    let sizes = RegionSizes {
        bytes: 200_000,
        keys: 1000,
    };
    let cluster = Cluster::with(NodeOptions {
        regions: sizes,
        ..options()
    });
    for batch in 0..40 {
        let mutations = (0..10).map(|n| put(format!("key{batch:03}{n}"), "v".repeat(2000)));
        let request = cluster.prewriting(mutations.collect());
        let key = titan_mvcc::codec::encode_key(&request.primary_lock);
        let request = PrewriteRequest {
            context: Some(cluster.context_at(&key)),
            try_one_pc: true,
            ..request
        };
        let answer = ask!(cluster, kv_prewrite, request);
        // A split may come between the look-up and the call.
        if answer.region_error.is_none() {
            assert_eq!(answer.errors, [], "{batch}");
        }
    }
    let deadline = Instant::now() + Duration::from_secs(60);
    let regions = loop {
        let request = titan_server::proto::pdpb::ScanRegionsRequest {
            header: cluster.header(),
            ..Default::default()
        };
        let answer = cluster.runtime.block_on(cluster.pd().scan_regions(request));
        let regions = answer.unwrap().into_inner().region_metas;
        if regions.len() >= 3 {
            break regions;
        }
        assert!(Instant::now() < deadline, "{} regions", regions.len());
        thread::yield_now();
    };
    assert_eq!(regions[0].start_key, "");
    for pair in regions.windows(2) {
        assert_eq!(pair[0].end_key, pair[1].start_key);
        assert!(titan_mvcc::codec::decode_key(&pair[1].start_key).is_some());
    }
}

#[test]
fn the_transaction_that_closes_a_circle_of_waits_is_told_who_waits_for_whom() {
    let cluster = Cluster::new();
    let context = cluster.context();
    let lock = |start, key, wait| cluster.locking(start, key, wait);
    let (first, second) = (cluster.ts(), cluster.ts());
    let take = |request| {
        let answer = ask!(cluster, kv_pessimistic_lock, request);
        assert_eq!(answer.region_error, None);
        answer.errors
    };
    assert_eq!(take(lock(first, "a", -1)), []);
    assert_eq!(take(lock(second, "b", -1)), []);
    thread::scope(|scope| {
        // It may close the circle itself, where its wait begins later: then it asks again.
        scope.spawn(|| while !take(lock(first, "b", 1000)).is_empty() {});
        let deadlock = loop {
            let errors = take(lock(second, "a", 1));
            if let Some(deadlock) = errors[0].deadlock.clone() {
                break deadlock;
            }
        };
        assert_eq!((&*deadlock.lock_key, deadlock.lock_ts), (&b"a"[..], first));
        let waits = deadlock.wait_chain.iter();
        let waits: Vec<_> = waits.map(|w| (w.txn, w.wait_for_txn, &*w.key)).collect();
        assert_eq!(waits, [(first, second, &b"b"[..]), (second, first, b"a")]);
        let release = PessimisticRollbackRequest {
            context: context.clone(),
            start_version: second,
            for_update_ts: second,
            keys: vec!["b".into()],
        };
        ask!(cluster, kv_pessimistic_rollback, release);
    });
}

#[test]
fn the_safe_timestamp_is_before_what_may_still_commit() {
    let cluster = Cluster::new();
    let safe = || ask!(cluster, get_store_safe_ts, StoreSafeTsRequest::default()).safe_ts;
    let start = cluster.prewrite("k");
    // Another one commits in the meantime.
    let request = PrewriteRequest {
        try_one_pc: true,
        ..cluster.prewriting(vec![put("l", "v")])
    };
    assert!(ask!(cluster, kv_prewrite, request).one_pc_commit_ts > start);
    assert!(safe() < start);
    let before = cluster.ts();
    assert_eq!(cluster.commit("k", start).error, None);
    assert!(safe() > before);
}
