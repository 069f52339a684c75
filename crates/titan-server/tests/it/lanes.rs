//! The lanes of calls: reads hold up no writes, and one connection not the reads of all.

use std::sync::Arc;
use std::time::Duration;

use titan::{DbOptions, EventListener};
use titan_server::proto::kvrpcpb::{RawGetRequest, RawPutRequest, RawScanRequest};
use titan_server::proto::tikvpb::BatchCommandsEmptyRequest;
use titan_server::proto::tikvpb::batch_commands_request::request::Cmd;
use titan_server::proto::tikvpb::tikv_client::TikvClient;
use titan_server::{Limits, NodeOptions, StorageOptions};
use tokio::time::timeout;
use tonic::transport::Channel;

use crate::cluster::Cluster;
use crate::held_up::{Flushed, Shut};
use crate::limits::with;
use crate::memory::{batch, batches};
use crate::place::Place;

const PATIENCE: Duration = Duration::from_secs(60);

/// A connection of its own.
async fn connected(cluster: &Cluster) -> TikvClient<Channel> {
    let endpoint = Channel::from_shared(format!("http://{}", cluster.address())).unwrap();
    TikvClient::new(endpoint.connect().await.unwrap())
}

#[test]
fn reads_of_one_connection_hold_up_no_writes_and_no_reads_of_others() {
    let place = Place::new();
    let flushed = Arc::new(Flushed::default());
    let options = place.options();
    let cluster = place.start_with(NodeOptions {
        limits: Limits {
            running: 2,
            ..options.limits
        },
        storage: StorageOptions {
            db: DbOptions {
                db_write_buffer_size: 64 << 10,
                listeners: vec![Arc::clone(&flushed) as Arc<dyn EventListener>],
                ..options.storage.db
            },
            ..options.storage
        },
        ..options
    });
    assert_eq!(cluster.raw_put("far", vec![7; 100_000]).error, "");
    while !flushed.has_large_values() {
        cluster.raw_put("between", vec![0; 10_000]);
    }
    assert_eq!(cluster.raw_put("near", vec![1]).error, "");
    let context = cluster.context();
    let scan = |key: &'static str| RawScanRequest {
        context: context.clone(),
        start_key: key.into(),
        limit: 1,
        ..RawScanRequest::default()
    };
    cluster.runtime.block_on(async {
        let shut = Shut::on(&place.vfs);
        let (send, mut answers) = batches(&cluster).await;
        let far = (0..10).map(|_| Cmd::RawScan(Box::new(scan("far"))));
        send.send(batch(0, far)).await.unwrap();
        let mut beside = connected(&cluster).await;
        let put = RawPutRequest {
            context: context.clone(),
            key: "near".into(),
            ..RawPutRequest::default()
        };
        for _ in 0..3 {
            let written = timeout(PATIENCE, beside.raw_put(put.clone())).await;
            assert_eq!(written.unwrap().unwrap().into_inner().error, "");
            // It finds the other connection's reads in the way, not its own.
            let read = timeout(PATIENCE, beside.raw_scan(scan("near"))).await;
            assert_eq!(read.unwrap().unwrap().into_inner().kvs.len(), 1);
        }
        drop(shut);
        let mut answered = 0;
        while answered < 10 {
            let answer = timeout(PATIENCE, answers.message()).await;
            answered += answer.unwrap().unwrap().unwrap().request_ids.len();
        }
    });
}

#[test]
fn calls_that_sleep_take_nothing_from_others_and_are_few() {
    const CALLS: u64 = 1000;
    const SLEEPERS: u64 = 256;
    let cluster = with(Limits {
        bytes_in_flight: 1 << 20,
        ..Limits::default()
    });
    let empty = |_| {
        let call = BatchCommandsEmptyRequest {
            delay_time: 60_000,
            ..BatchCommandsEmptyRequest::default()
        };
        Cmd::Empty(Box::new(call))
    };
    let get = RawGetRequest {
        context: cluster.context(),
        ..RawGetRequest::default()
    };
    cluster.runtime.block_on(async {
        let (send, mut answers) = batches(&cluster).await;
        send.send(batch(0, (0..CALLS).map(empty))).await.unwrap();
        // Those beyond the limit do not sleep. Once all of them are answered, the rest sleep.
        let mut answered = 0;
        while answered < CALLS - SLEEPERS {
            let message = timeout(PATIENCE / 2, answers.message()).await;
            answered += message.unwrap().unwrap().unwrap().request_ids.len() as u64;
        }
        // A thousand of them would leave no memory for as many others.
        let (others, mut told) = batches(&cluster).await;
        let gets = (0..900).map(|_| Cmd::RawGet(Box::new(get.clone())));
        others.send(batch(0, gets)).await.unwrap();
        let mut answered = 0;
        while answered < 900 {
            let message = told.message().await.unwrap().unwrap();
            for answer in message.responses {
                let text = format!("{:?}", answer.cmd);
                assert!(!text.contains("server is busy"), "{text}");
                answered += 1;
            }
        }
    });
}
