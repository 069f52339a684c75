//! The memory of requests and answers; clients that do not read, or do not send.

use std::pin::Pin;
use std::task::{Context as Waker, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body as _, Frame};
use prost::Message;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::body::Body;
use tonic::client::GrpcService;
use tonic::{Code, Status, Streaming};

use titan_server::Limits;
use titan_server::proto::kvrpcpb::*;
use titan_server::proto::tikvpb::batch_commands_request::Request as Asked;
use titan_server::proto::tikvpb::batch_commands_request::request::Cmd;
use titan_server::proto::tikvpb::batch_commands_response::response::Cmd as Told;
use titan_server::proto::tikvpb::{BatchCommandsRequest, BatchCommandsResponse};

use crate::cluster::Cluster;
use crate::limits::with;

#[test]
fn elements_count_with_the_memory_that_they_take() {
    const PAIRS: usize = 50_000;
    let cluster = with(Limits {
        bytes_in_flight: 1 << 20,
        answer_bytes: 1 << 20,
        ..Limits::default()
    });
    let (runtime, mut tikv) = (&cluster.runtime, cluster.tikv());
    // Two bytes of a message for each pair.
    let put = RawBatchPutRequest {
        context: cluster.context(),
        pairs: vec![KvPair::default(); PAIRS],
        ..RawBatchPutRequest::default()
    };
    assert!(put.encoded_len() < 1 << 17);
    let refused = runtime.block_on(tikv.raw_batch_put(put)).unwrap();
    let error = refused.into_inner().region_error.unwrap();
    assert!(error.raft_entry_too_large.is_some(), "{error:?}");
    // The pair of a locked key has an error, which takes far more than the key.
    let keys: Vec<String> = (0..2000).map(|n| format!("{n:04}")).collect();
    let lock = |key: &String| titan_server::proto::kvrpcpb::Mutation {
        op: Op::Put.into(),
        key: key.clone().into(),
        ..Default::default()
    };
    let request = PrewriteRequest {
        context: cluster.context(),
        mutations: keys.iter().map(lock).collect(),
        primary_lock: "0000".into(),
        start_version: cluster.ts(),
        lock_ttl: 3000,
        ..PrewriteRequest::default()
    };
    let answer = runtime.block_on(tikv.kv_prewrite(request)).unwrap();
    assert_eq!(answer.into_inner(), PrewriteResponse::default());
    let scan = ScanRequest {
        context: cluster.context(),
        limit: u32::MAX,
        version: cluster.ts(),
        ..ScanRequest::default()
    };
    let refused = runtime.block_on(tikv.kv_scan(scan)).unwrap();
    let error = refused.into_inner().region_error.unwrap();
    assert!(error.raft_entry_too_large.is_some(), "{error:?}");
}

#[test]
fn a_client_that_does_not_read_loses_its_stream_and_nobody_else_waits() {
    const CALLS: u64 = 10_000;
    let mut cluster = Cluster::new();
    let put = put(&cluster, 1 << 20);
    cluster
        .runtime
        .block_on(cluster.tikv().raw_put(put))
        .unwrap();
    cluster.lose_patience();
    let get = Cmd::RawGet(Box::new(get(&cluster)));
    let empty = || batch(0, [Cmd::Empty(Box::default())]);
    let answered = cluster.runtime.block_on(async {
        let (beside, mut others) = batches(&cluster).await;
        beside.send(empty()).await.unwrap();
        others.message().await.unwrap().unwrap();
        let (send, mut answers) = batches(&cluster).await;
        // Far more than the transport and the node hold.
        for id in 0..CALLS {
            send.send(batch(id, [get.clone()])).await.unwrap();
        }
        cluster.wait_for("answers_unread_total 1");
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

/// A put of a value of so many bytes.
fn put(cluster: &Cluster, bytes: usize) -> RawPutRequest {
    RawPutRequest {
        context: cluster.context(),
        key: "k".into(),
        value: vec![1; bytes].into(),
        ..RawPutRequest::default()
    }
}

/// A message with calls, numbered from `first` on.
pub fn batch(first: u64, calls: impl IntoIterator<Item = Cmd>) -> BatchCommandsRequest {
    let asked = |cmd| Asked { cmd: Some(cmd) };
    let requests: Vec<Asked> = calls.into_iter().map(asked).collect();
    BatchCommandsRequest {
        request_ids: (first..first + requests.len() as u64).collect(),
        requests,
    }
}

/// A stream of batches, and that of their answers.
pub async fn batches(
    cluster: &Cluster,
) -> (
    mpsc::Sender<BatchCommandsRequest>,
    Streaming<BatchCommandsResponse>,
) {
    let (send, asked) = mpsc::channel(1);
    let asked = ReceiverStream::new(asked);
    let answers = cluster.tikv().batch_commands(asked).await.unwrap();
    (send, answers.into_inner())
}

/// A request of the transport.
fn request(cluster: &Cluster, call: &str, body: Body) -> http::Request<Body> {
    http::Request::post(format!("http://{}/tikvpb.Tikv/{call}", cluster.address()))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(body)
        .unwrap()
}

/// A message as the transport has it.
pub fn framed(message: &impl Message) -> Bytes {
    let message = message.encode_to_vec();
    let length = (message.len() as u32).to_be_bytes();
    Bytes::from([&[0], &length[..], &message].concat())
}

/// Makes a call whose body comes in pieces. Its answer is not read yet.
pub async fn call(
    cluster: &Cluster,
    name: &str,
    pieces: mpsc::Receiver<Bytes>,
) -> http::Response<Body> {
    let mut channel = cluster.channel.clone();
    let ready = std::future::poll_fn(|waker| channel.poll_ready(waker));
    ready.await.unwrap();
    let request = request(cluster, name, Body::new(Pieces(pieces)));
    channel.call(request).await.unwrap()
}

/// Reads an answer to its end. Returns the status of its trailers.
pub async fn status(answer: http::Response<Body>) -> String {
    let mut body = answer.into_body();
    loop {
        let next = std::future::poll_fn(|waker| Pin::new(&mut body).poll_frame(waker));
        if let Ok(trailers) = next.await.unwrap().unwrap().into_trailers() {
            break trailers["grpc-status"].to_str().unwrap().to_owned();
        }
    }
}

pub const LARGE: usize = 8 << 20;

pub fn put_large(cluster: &Cluster) {
    let put = put(cluster, LARGE);
    let mut tikv = cluster.tikv();
    let answer = cluster.runtime.block_on(tikv.raw_put(put)).unwrap();
    assert_eq!(answer.into_inner(), RawPutResponse::default());
}

pub fn get(cluster: &Cluster) -> RawGetRequest {
    RawGetRequest {
        context: cluster.context(),
        key: "k".into(),
        ..RawGetRequest::default()
    }
}

#[test]
fn one_large_answer_that_is_not_read_ends() {
    let mut cluster = Cluster::new();
    put_large(&cluster);
    cluster.lose_patience();
    let get = get(&cluster);
    let in_batch = batch(0, [Cmd::RawGet(Box::new(get.clone()))]);
    let calls = [
        ("RawGet", framed(&get)),
        ("BatchCommands", framed(&in_batch)),
    ];
    cluster.runtime.block_on(async {
        for (count, (name, message)) in (1..).zip(calls) {
            let (send, pieces) = mpsc::channel(1);
            send.send(message).await.unwrap();
            // A batch goes on, a call by itself does not.
            let send = (name == "BatchCommands").then_some(send);
            let answer = call(&cluster, name, pieces).await;
            let unread = format!("answers_unread_total {count}\n");
            cluster.wait_for(&unread);
            let cancelled = (Code::Cancelled as i32).to_string();
            assert_eq!(status(answer).await, cancelled, "{name}");
            drop(send);
        }
    });
}

#[test]
fn an_answer_counts_until_it_is_read() {
    let cluster = with(Limits {
        bytes_in_flight: LARGE + (1 << 20),
        answer_bytes: LARGE + (1 << 20),
        ..Limits::default()
    });
    put_large(&cluster);
    let get = get(&cluster);
    let is_busy = async || {
        let answer = cluster.tikv().raw_get(get.clone()).await.unwrap();
        answer.into_inner().region_error.is_some()
    };
    cluster.runtime.block_on(async {
        let (send, pieces) = mpsc::channel(1);
        send.send(framed(&get)).await.unwrap();
        drop(send);
        let unread = call(&cluster, "RawGet", pieces).await;
        assert!(is_busy().await);
        assert_eq!(status(unread).await, "0");
        while is_busy().await {}
    });
}

#[test]
fn the_calls_of_a_batch_count_together_before_they_run() {
    const CALLS: u64 = 2000;
    let cluster = with(Limits {
        bytes_in_flight: 1 << 20,
        ..Limits::default()
    });
    let get = Cmd::RawGet(Box::new(get(&cluster)));
    cluster.runtime.block_on(async {
        let (send, mut answers) = batches(&cluster).await;
        // Each takes a kibibyte.
        for (calls, too_many) in [(CALLS, CALLS - 1024), (10, 0)] {
            let gets = (0..calls).map(|_| get.clone());
            send.send(batch(0, gets)).await.unwrap();
            let (mut answered, mut busy) = (0, 0);
            while answered < calls {
                let message = answers.message().await.unwrap().unwrap();
                for answer in message.responses {
                    let Some(Told::RawGet(get)) = answer.cmd else {
                        panic!("{answer:?}");
                    };
                    busy += u64::from(get.region_error.is_some());
                    answered += 1;
                }
            }
            assert_eq!(busy, too_many);
        }
    });
}

#[test]
fn only_calls_beyond_the_bytes_in_flight_are_refused() {
    let cluster = with(Limits {
        bytes_in_flight: 100_000,
        ..Limits::default()
    });
    let put = |bytes| Cmd::RawPut(Box::new(put(&cluster, bytes)));
    let puts = [put(60_000), put(200_000), put(60_000), put(100)];
    let told = cluster.runtime.block_on(async {
        let (send, mut answers) = batches(&cluster).await;
        send.send(batch(0, puts)).await.unwrap();
        let mut told = [const { None }; 4];
        while told.contains(&None) {
            let message = answers.message().await.unwrap().unwrap();
            for (answer, id) in message.responses.into_iter().zip(message.request_ids) {
                let Some(Told::RawPut(put)) = answer.cmd else {
                    panic!("{answer:?}");
                };
                assert_eq!(put.error, "");
                told[id as usize] = Some(put.region_error.unwrap_or_default());
            }
        }
        told.map(Option::unwrap)
    });
    let [first, too_large, one_too_many, last] = told;
    assert_eq!([first, last], <[_; 2]>::default());
    // It fits when the others are done; the other one never does.
    assert!(one_too_many.server_is_busy.unwrap().backoff_ms > 0);
    assert!(too_large.raft_entry_too_large.unwrap().entry_size > 200_000);
    assert_eq!(too_large.server_is_busy, None);
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
    let put = put(&cluster, VALUE);
    let framed = framed(&put);
    let is_refused = |result: Result<_, Status>| match result {
        Ok(_) => false,
        Err(status) => {
            assert_eq!(status.code(), Code::Unavailable, "{status}");
            true
        }
    };
    cluster.runtime.block_on(async {
        let (send, pieces) = mpsc::channel(1);
        let mut channel = cluster.channel.clone();
        std::future::poll_fn(|waker| channel.poll_ready(waker))
            .await
            .unwrap();
        let asked = request(&cluster, "RawPut", Body::new(Pieces(pieces)));
        let slow = tokio::spawn(channel.call(asked));
        send.send(framed.slice(..100_000)).await.unwrap();
        // There is no room for as much once more.
        cluster.wait_for("arriving_bytes 100352\n");
        assert!(is_refused(tikv.raw_put(put.clone()).await));
        send.send(framed.slice(100_000..)).await.unwrap();
        drop(send);
        assert_eq!(slow.await.unwrap().unwrap().status(), 200);
        assert!(!is_refused(tikv.raw_put(put).await));
    });
}

#[test]
fn a_message_that_stalls_gives_its_memory_back() {
    let cluster = with(Limits {
        unread: Duration::from_secs(1),
        ..Limits::default()
    });
    cluster.runtime.block_on(async {
        let (send, pieces) = mpsc::channel(1);
        send.send(Bytes::from(vec![0, 0, 1, 0, 0, 7]))
            .await
            .unwrap();
        let answer = call(&cluster, "RawPut", pieces).await;
        let late = (Code::DeadlineExceeded as i32).to_string();
        assert_eq!(answer.headers()["grpc-status"].to_str().unwrap(), late);
        cluster.wait_for("arriving_bytes 0\n");
        drop(send);
    });
}

#[test]
fn a_connection_outlives_what_is_sent_to_refused_calls() {
    const FRAMES: usize = 3000;
    let cluster = with(Limits {
        bytes_in_flight: 100_000,
        request_bytes: 100_000,
        ..Limits::default()
    });
    let empty = || batch(0, [Cmd::Empty(Box::default())]);
    cluster.runtime.block_on(async {
        let (beside, mut others) = batches(&cluster).await;
        for name in ["RawPut", "BatchCommands", "RawPut"] {
            let (send, pieces) = mpsc::channel(FRAMES);
            // A message of 32 MiB, of which too much arrives at once.
            send.send(Bytes::from(vec![0, 2, 0, 0, 0])).await.unwrap();
            send.send(vec![0; 200_000].into()).await.unwrap();
            for _ in 2..FRAMES {
                send.send(Bytes::from_static(b"0")).await.unwrap();
            }
            let answer = call(&cluster, name, pieces).await;
            let told = match answer.headers().get("grpc-status") {
                Some(told) => told.to_str().unwrap().to_owned(),
                None => status(answer).await,
            };
            assert_ne!(told, "0", "{name}");
            drop(send);
            beside.send(empty()).await.unwrap();
            others.message().await.unwrap().unwrap();
        }
    });
}
