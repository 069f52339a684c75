//! Refused starts; metrics.

use std::net::TcpListener;
use std::path::PathBuf;

use titan_server::internals::LocalNode;
use titan_server::{Error, Node, NodeOptions, StorageOptions, TlsFiles};
use titan_testkit::sim::Loss;

use crate::cluster::{Cluster, options, unsynced};
use crate::place::Place;

fn refusal(dir: PathBuf, options: &NodeOptions) -> Error {
    match Node::start(dir, options) {
        Ok(_) => panic!("the node has started"),
        Err(error) => error,
    }
}

#[test]
fn other_machines_connect_with_tls_or_when_told() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = options();
    options.listen = ([0, 0, 0, 0], 0).into();
    let error = refusal(dir.path().join("node"), &options);
    assert!(matches!(error, Error::Exposed { .. }), "{error}");
    assert!(!dir.path().join("node").exists());
    options.insecure = true;
    let error = refusal(dir.path().join("node"), &options);
    assert!(matches!(error, Error::NoAddress { .. }), "{error}");
    options.advertise = Some("here:1".to_owned());
    Node::start(dir.path().join("node"), &options)
        .unwrap()
        .stop()
        .unwrap();
}

#[test]
fn a_taken_address_and_a_taken_directory_are_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let dir = tempfile::tempdir().unwrap();
    let at_taken = NodeOptions {
        listen: taken.local_addr().unwrap(),
        ..options()
    };
    let error = refusal(dir.path().join("node"), &at_taken).to_string();
    assert!(
        error.contains(&taken.local_addr().unwrap().to_string()),
        "{error}"
    );
    let node = Node::start(dir.path().join("node"), &options()).unwrap();
    let error = refusal(dir.path().join("node"), &options());
    assert!(
        matches!(&error, Error::Engine(e) if e.kind() == titan::ErrorKind::Locked),
        "{error}"
    );
    node.stop().unwrap();
}

#[test]
fn a_directory_of_something_else_is_left_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("letter.txt"), "dear").unwrap();
    let error = refusal(dir.path().to_owned(), &options());
    assert!(error.to_string().contains("letter.txt"), "{error}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    let database = tempfile::tempdir().unwrap();
    titan::Db::open(database.path(), &titan::Options::default())
        .unwrap()
        .close()
        .unwrap();
    let error = refusal(database.path().to_owned(), &options());
    assert!(error.to_string().contains("database"), "{error}");
}

#[test]
fn a_start_that_was_cut_off_can_be_repeated_and_other_files_are_left() {
    let dir = tempfile::tempdir().unwrap();
    let records = dir.path().join("node");
    std::fs::create_dir(&records).unwrap();
    std::fs::write(records.join("letter.txt"), "dear").unwrap();
    let error = refusal(dir.path().to_owned(), &options());
    assert!(error.to_string().contains("no records"), "{error}");
    std::fs::remove_file(records.join("letter.txt")).unwrap();
    let start = || Node::start(dir.path(), &options()).unwrap().stop().unwrap();
    start();
    start();
}

#[test]
fn a_first_start_can_be_repeated_wherever_it_was_cut_off() {
    let place = Place::new();
    drop(place.start());
    let journal = place.vfs.journal();
    for at in 0..=journal.len() {
        for loss in [Loss::None, Loss::All] {
            let again = Place {
                vfs: journal.crash_at(at, &loss),
                ..Place::new()
            };
            let node = LocalNode::open("/node", &again.options());
            let node = node.unwrap_or_else(|e| panic!("after {at} with {loss:?}: {e}"));
            node.close().unwrap();
        }
    }
}

#[test]
fn certificates_that_are_none_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("cert.pem");
    let mut options = options();
    options.tls = Some(TlsFiles {
        certificate: file.clone(),
        key: file.clone(),
        client_authority: None,
    });
    let error = refusal(dir.path().join("node"), &options).to_string();
    assert!(error.contains("cert.pem"), "{error}");
    std::fs::write(&file, "no certificate").unwrap();
    let error = refusal(dir.path().join("node"), &options).to_string();
    assert!(error.contains("no PEM"), "{error}");
    std::fs::write(
        &file,
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    )
    .unwrap();
    let error = refusal(dir.path().join("node"), &options);
    assert!(
        matches!(error, Error::Tls { .. } | Error::Transport(_)),
        "{error}"
    );
}

#[test]
fn a_port_file_appears_when_the_node_is_ready_and_metrics_count_calls() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("port");
    let cluster = Cluster::with(NodeOptions {
        port_file: Some(file.clone()),
        storage: StorageOptions {
            range_cache: Some(1 << 20),
            ..unsynced()
        },
        ..options()
    });
    assert_eq!(std::fs::read_to_string(&file).unwrap(), cluster.address());
    cluster.ts();
    let text = cluster.metrics();
    assert!(
        text.contains("titan_serve_call_seconds_count{call=\"tso\"} 1"),
        "{text}"
    );
    assert!(text.contains("titan_serve_regions 1"), "{text}");
    let of_engine = "titan_live_wal_bytes{db=\"records\"} ";
    assert!(text.contains(of_engine), "{text}");
    assert!(text.contains("titan_serve_range_cache_bytes"), "{text}");
}
