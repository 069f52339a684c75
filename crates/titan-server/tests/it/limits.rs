//! Malformed and huge requests, clients that do not read, deadlines.

use std::time::{Duration, Instant};

use std::pin::Pin;
use std::task::{Context as Waker, Poll};

use bytes::Bytes;
use http_body::Frame;
use prost::Message;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::body::Body;
use tonic::client::GrpcService;
use tonic::{Code, Request, Status};

use titan_server::proto::kvrpcpb::*;
use titan_server::proto::tikvpb::batch_commands_request::Request as Asked;
use titan_server::proto::tikvpb::batch_commands_request::request::Cmd;
use titan_server::proto::tikvpb::{BatchCommandsEmptyRequest, BatchCommandsRequest};
use titan_server::{Limits, NodeOptions};

use crate::cluster::{Cluster, options};
use crate::dynamic;

fn with(limits: Limits) -> Cluster {
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
    let mut tikv = cluster.tikv();
    let put = |key: Vec<u8>, value: Vec<u8>| RawPutRequest {
        context: cluster.context(),
        key: key.into(),
        value: value.into(),
        ..RawPutRequest::default()
    };
    let runtime = &cluster.runtime;
    let huge = runtime.block_on(tikv.raw_put(put(b"k".into(), vec![0; 2 << 20])));
    assert_eq!(huge.unwrap_err().code(), Code::OutOfRange);
    let value = runtime.block_on(tikv.raw_put(put(b"k".into(), vec![0; 1001])));
    let error = value.unwrap().into_inner().region_error.unwrap();
    assert_eq!(error.raft_entry_too_large.unwrap().entry_size, 1001);
    let key = runtime.block_on(tikv.raw_put(put(vec![b'k'; 101], vec![])));
    assert!(key.unwrap().into_inner().error.contains("too large"));
    for n in 0..20 {
        let answer = runtime.block_on(tikv.raw_put(put(vec![b'a' + n], vec![0; 1000])));
        assert_eq!(answer.unwrap().into_inner().error, "");
    }
    // It does not end early: that would look like the end of the region.
    let scan = |limit| RawScanRequest {
        context: cluster.context(),
        limit,
        ..RawScanRequest::default()
    };
    let all = runtime.block_on(tikv.raw_scan(scan(100)));
    assert_eq!(all.unwrap_err().code(), Code::ResourceExhausted);
    let some = runtime
        .block_on(tikv.raw_scan(scan(9)))
        .unwrap()
        .into_inner();
    assert_eq!(some.kvs.len(), 9);
}

#[test]
fn a_call_ends_at_its_deadline() {
    let cluster = Cluster::new();
    let mut tikv = cluster.tikv();
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
    cluster
        .runtime
        .block_on(tikv.raw_batch_put(request))
        .unwrap();
    let mut context = cluster.context_at(b"");
    context.max_execution_duration_ms = 1;
    let ranges = KeyRange::default();
    let request = RawBatchScanRequest {
        context: Some(context),
        ranges: vec![ranges; 1000],
        each_limit: 2000,
        ..RawBatchScanRequest::default()
    };
    let late = cluster
        .runtime
        .block_on(tikv.raw_batch_scan(request.clone()));
    let error = late.unwrap().into_inner().region_error.unwrap();
    assert_eq!(error.server_is_busy.unwrap().reason, "deadline is exceeded");
    // The deadline of the transport.
    let mut request = Request::new(RawBatchScanRequest {
        context: cluster.context(),
        ..request
    });
    request.set_timeout(Duration::from_millis(2));
    let began = Instant::now();
    let late = cluster.runtime.block_on(tikv.raw_batch_scan(request));
    let is_late = match late {
        Ok(answer) => answer.into_inner().region_error.is_some(),
        Err(status) => matches!(status.code(), Code::Cancelled | Code::DeadlineExceeded),
    };
    assert!(is_late);
    assert!(began.elapsed() < Duration::from_secs(10));
}

#[test]
fn a_client_that_does_not_read_loses_its_stream_and_nobody_else_waits() {
    const CALLS: u64 = 10_000;
    let cluster = with(Limits {
        unread: Duration::from_millis(100),
        ..Limits::default()
    });
    let mut tikv = cluster.tikv();
    let put = RawPutRequest {
        context: cluster.context(),
        key: "k".into(),
        value: vec![1; 1 << 20].into(),
        ..RawPutRequest::default()
    };
    cluster.runtime.block_on(tikv.raw_put(put)).unwrap();
    let get = Cmd::RawGet(RawGetRequest {
        context: cluster.context(),
        key: "k".into(),
        ..RawGetRequest::default()
    });
    let empty = || BatchCommandsRequest {
        requests: vec![Asked {
            cmd: Some(Cmd::Empty(BatchCommandsEmptyRequest::default())),
        }],
        request_ids: vec![0],
    };
    let answered = cluster.runtime.block_on(async {
        let (beside, asked) = mpsc::channel(1);
        let others = cluster
            .tikv()
            .batch_commands(ReceiverStream::new(asked))
            .await;
        let mut others = others.unwrap().into_inner();
        beside.send(empty()).await.unwrap();
        others.message().await.unwrap().unwrap();
        let (send, asked) = mpsc::channel(1);
        let answers = tikv
            .batch_commands(ReceiverStream::new(asked))
            .await
            .unwrap();
        let mut answers = answers.into_inner();
        // Far more than the transport and the node hold.
        for id in 0..CALLS {
            let batch = BatchCommandsRequest {
                requests: vec![Asked {
                    cmd: Some(get.clone()),
                }],
                request_ids: vec![id],
            };
            send.send(batch).await.unwrap();
        }
        while !cluster.metrics().contains("streams_unread_total 1") {}
        // What was on its way is read; then the stream ends.
        let mut answered = 0;
        loop {
            match answers.message().await {
                Ok(Some(some)) => answered += some.request_ids.len(),
                Ok(None) => panic!("the stream ended well"),
                Err(status) => break assert_eq!(status.code(), Code::Cancelled, "{status}"),
            }
        }
        // The other stream of the connection goes on.
        beside.send(empty()).await.unwrap();
        others.message().await.unwrap().unwrap();
        answered
    });
    assert!(answered < CALLS as usize, "{answered}");
}

#[test]
fn calls_beyond_the_bytes_in_flight_are_told_to_wait() {
    let cluster = with(Limits {
        bytes_in_flight: 100_000,
        ..Limits::default()
    });
    let mut tikv = cluster.tikv();
    let put = RawPutRequest {
        context: cluster.context(),
        key: "k".into(),
        value: vec![1; 200_000].into(),
        ..RawPutRequest::default()
    };
    let busy = cluster.runtime.block_on(tikv.raw_put(put)).unwrap();
    let error = busy.into_inner().region_error.unwrap();
    assert!(error.server_is_busy.unwrap().backoff_ms > 0);
}

/// A body whose pieces a test sends.
struct Pieces(mpsc::Receiver<Bytes>);

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        waker: &mut Waker<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let piece = self.0.poll_recv(waker);
        piece.map(|piece| piece.map(|bytes| Ok(Frame::data(bytes))))
    }
}

#[test]
fn messages_that_arrive_slowly_share_a_limit_before_they_are_decoded() {
    const VALUE: usize = 150_000;
    let cluster = with(Limits {
        bytes_in_flight: 200_000,
        request_bytes: 200_000,
        ..Limits::default()
    });
    let mut tikv = cluster.tikv();
    let put = RawPutRequest {
        context: cluster.context(),
        key: "k".into(),
        value: vec![1; VALUE].into(),
        ..RawPutRequest::default()
    };
    let message = put.encode_to_vec();
    let length = (message.len() as u32).to_be_bytes();
    let framed = Bytes::from([&[0], &length[..], &message].concat());
    let request = |body: Body| {
        http::Request::post(format!("http://{}/tikvpb.Tikv/RawPut", cluster.address()))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(body)
            .unwrap()
    };
    let is_refused = |result: Result<_, Status>| match result {
        Ok(_) => false,
        Err(status) => {
            assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
            true
        }
    };
    cluster.runtime.block_on(async {
        let (send, pieces) = mpsc::channel(1);
        let mut channel = cluster.channel.clone();
        std::future::poll_fn(|waker| channel.poll_ready(waker))
            .await
            .unwrap();
        let slow = tokio::spawn(channel.call(request(Body::new(Pieces(pieces)))));
        send.send(framed.slice(..100_000)).await.unwrap();
        // There is no room for as much once more.
        while !cluster.metrics().contains("arriving_bytes 100352\n") {}
        assert!(is_refused(tikv.raw_put(put.clone()).await));
        send.send(framed.slice(100_000..)).await.unwrap();
        drop(send);
        assert_eq!(slow.await.unwrap().unwrap().status(), 200);
        assert!(!is_refused(tikv.raw_put(put).await));
    });
}
