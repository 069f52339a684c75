//! Addresses that a node does not start with; the file of its address.

use std::time::Duration;

use titan_server::proto::kvrpcpb::{KeyRange, RawBatchScanRequest};
use titan_server::proto::pdpb::AllocIdRequest;
use titan_server::{Error, Node, NodeOptions};
use tonic::Code;

use crate::cluster::{Cluster, options};
use crate::place::Place;

fn refusal(options: &NodeOptions) -> Error {
    let dir = tempfile::tempdir().unwrap();
    let node = dir.path().join("node");
    let error = Node::start(&node, options).err().unwrap();
    assert!(!node.exists());
    error
}

#[test]
fn the_page_of_metrics_is_for_this_machine_unless_told() {
    let exposed = NodeOptions {
        metrics: Some(([0, 0, 0, 0], 0).into()),
        ..options()
    };
    let error = refusal(&exposed);
    assert!(matches!(error, Error::Exposed { .. }), "{error}");
    Cluster::with(NodeOptions {
        insecure: true,
        ..exposed
    });
}

#[test]
fn clients_are_told_a_host_and_a_port() {
    for wrong in [
        "nonsense",
        ":1",
        "host:",
        "host:0",
        "http://host:1",
        "a@b:1",
        "",
    ] {
        let error = refusal(&NodeOptions {
            advertise: Some(wrong.to_owned()),
            ..options()
        });
        assert!(
            matches!(error, Error::NoHostAndPort { .. }),
            "{wrong}: {error}"
        );
    }
    Cluster::with(NodeOptions {
        advertise: Some("[::1]:2379".to_owned()),
        ..options()
    });
}

#[test]
fn the_address_of_an_earlier_run_gives_way_and_that_of_a_running_node_stays() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("address");
    std::fs::write(&file, "127.0.0.1:1").unwrap();
    let told = NodeOptions {
        port_file: Some(file.clone()),
        ..options()
    };
    let node = Node::start(dir.path().join("node"), &told).unwrap();
    let address = || std::fs::read_to_string(&file).unwrap();
    assert_eq!(address(), node.address().to_string());
    // A second start does not hide the node that runs.
    Node::start(dir.path().join("node"), &told).err().unwrap();
    assert_eq!(address(), node.address().to_string());
    node.stop().unwrap();
}

#[test]
fn a_full_disk_is_named_to_clients_of_the_placement_driver() {
    let place = Place::new();
    let cluster = place.start();
    place.vfs.set_capacity(Some(place.vfs.used()));
    let mut pd = cluster.pd();
    let status = loop {
        let request = AllocIdRequest {
            header: cluster.header(),
        };
        match cluster.runtime.block_on(pd.alloc_id(request)) {
            // Some numbers are taken at once.
            Ok(_) => {}
            Err(status) => break status,
        }
    };
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    assert!(status.message().contains("disk full"), "{status}");
    cluster.abandon();
}

#[test]
fn scans_of_many_empty_ranges_look_at_the_clock() {
    let cluster = Cluster::new();
    let mut context = cluster.context_at(b"");
    context.max_execution_duration_ms = 1;
    let scan = RawBatchScanRequest {
        context: Some(context),
        ranges: vec![KeyRange::default(); 200_000],
        ..RawBatchScanRequest::default()
    };
    let mut tikv = cluster.tikv();
    let scan = tikv.raw_batch_scan(scan);
    let late = cluster.runtime.block_on(async {
        let late = tokio::time::timeout(Duration::from_secs(60), scan).await;
        late.unwrap().unwrap().into_inner().region_error.unwrap()
    });
    assert_eq!(late.server_is_busy.unwrap().reason, "deadline is exceeded");
}
