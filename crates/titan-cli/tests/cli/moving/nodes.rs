//! Nodes at an address.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use titan_mvcc::{Mutation, Prewrite, Timestamp};
use titan_server::proto::pdpb::pd_client::PdClient;
use titan_server::proto::pdpb::{
    GetMembersRequest, RequestHeader, ScanRegionsRequest, UpdateGcSafePointRequest,
};
use titan_server::{Node, NodeOptions, RegionSizes, StorageOptions, TlsFiles};
use titan_testkit::requirement;
use tonic::Status;
use tonic::transport::{Channel, Endpoint};

use super::{cut, export, fill, import, no_export, no_import, noise, open, rows_of, shapes};
use crate::{Place, file_of};

fn options() -> NodeOptions {
    NodeOptions {
        storage: StorageOptions {
            sync: false,
            ..StorageOptions::default()
        },
        regions: RegionSizes {
            bytes: 1 << 20,
            keys: 40,
        },
        ..NodeOptions::new(([127, 0, 0, 1], 0).into())
    }
}

/// Starts a node with small regions. Returns it and its place.
fn start(dir: &Path) -> (Node, String) {
    let node = Node::start(dir, &options()).unwrap();
    let place = format!("tikv://{}", node.address());
    (node, place)
}

/// Makes a call to the placement driver of a node.
fn ask<T>(
    node: &Node,
    call: impl AsyncFn(PdClient<Channel>, Option<RequestHeader>) -> Result<T, Status>,
) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let asked = async {
        let address = format!("http://{}", node.address());
        let endpoint = Endpoint::from_shared(address).unwrap();
        let mut pd = PdClient::new(endpoint.connect().await.unwrap());
        let members = pd.get_members(GetMembersRequest::default()).await?;
        let cluster_id = members.into_inner().header.unwrap().cluster_id;
        let header = RequestHeader {
            cluster_id,
            sender_id: 0,
        };
        call(pd, Some(header)).await
    };
    runtime.block_on(asked).unwrap()
}

#[test]
fn a_store_moves_to_a_node_and_back() {
    let place = Place::new();
    let rows = shapes();
    fill(place.path("db"), &rows);
    let told = export(&place, &["db", "x"]);
    let (node, address) = start(&place.path("node"));
    import(&place, &["x", &address]);
    let back = export(&place, &[&address, "back.x"]);
    for name in ["pairs", "bytes", "sha256"] {
        assert_eq!(back[name], told[name], "{name}");
    }
    assert_eq!(import(&place, &["x", &address])["same"], rows.len());
    import(&place, &["back.x", "copy"]);
    assert_eq!(rows_of(place.path("copy")), rows);
    assert_eq!(
        export(&place, &[&address, "some.x", "--prefix", "row 00"])["pairs"],
        100
    );
    let (from, to) = ("row 0250", "row 0260");
    let told = export(&place, &[&address, "few.x", "--from", from, "--to", to]);
    assert_eq!(told["pairs"], 10);
    node.stop().unwrap();

    // The store of the node, as a directory.
    assert_eq!(rows_of(place.path("node/versions")), rows);
}

#[test]
fn an_export_goes_on_over_regions_and_new_values() {
    let place = Place::new();
    let rows: Vec<_> = (0..500_u64)
        .map(|n| (format!("key {n:03}").into_bytes(), noise(n, 10_000)))
        .collect();
    fill(place.path("db"), &rows);
    let told = export(&place, &["db", "x"]);
    let (node, address) = start(&place.path("node"));
    import(&place, &["x", &address]);
    // Regions split behind the writes.
    let regions = loop {
        let regions = ask(&node, async |mut pd, header| {
            let request = ScanRegionsRequest {
                header,
                ..ScanRegionsRequest::default()
            };
            Ok(pd.scan_regions(request).await?.into_inner().regions.len())
        });
        if regions > 3 {
            break regions;
        }
        std::thread::yield_now();
    };
    let back = export(&place, &[&address, "back.x"]);
    assert_eq!(back["sha256"], told["sha256"], "{regions} regions");
    let whole = fs::read(place.path("back.x")).unwrap();

    let changed: Vec<_> = rows
        .iter()
        .map(|(key, _)| (key.clone(), b"new".into()))
        .collect();
    fill(place.path("changed"), &changed);
    export(&place, &["changed", "changed.x"]);
    let written = import(&place, &["changed.x", &address, "--overwrite"]);
    assert_eq!(written["other"], 500);
    for len in [200, 1_100_000, 2_500_000, whole.len() - 10] {
        cut(&place.path("back.x"), len);
        let again = export(&place, &[&address, "back.x"]);
        assert_eq!(again["sha256"], told["sha256"], "{len}: {again}");
        assert_eq!(fs::read(place.path("back.x")).unwrap(), whole, "{len}");
    }
    node.stop().unwrap();
}

#[test]
fn rows_that_a_node_cannot_read_end_the_export() {
    let place = Place::new();
    let rows: Vec<_> = (0..200_u64)
        .map(|n| (format!("key {n:03}").into_bytes(), noise(n, 20_000)))
        .collect();
    let (node, _) = start(&place.path("node"));
    node.stop().unwrap();
    fill(place.path("node/versions"), &rows);
    let store = open(place.path("node/versions"));
    store.db().flush_all().unwrap();
    store.close().unwrap();
    drop(store);
    let blob = file_of(&place.path("node/versions"), ".blob");
    let mut bytes = fs::read(&blob).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&blob, bytes).unwrap();
    let (node, address) = start(&place.path("node"));
    let said = no_export(&place, &[&address, "x"]);
    assert!(said.contains(".blob"), "{said}");
    let said = no_import(&place, &["x", "copy"]);
    assert!(said.contains("titan mvcc export goes on with it"), "{said}");
    node.stop().unwrap();
}

#[test]
fn a_killed_import_goes_on() {
    let place = Place::new();
    let rows: Vec<_> = (0..500_u64)
        .map(|n| (format!("key {n:03}").into_bytes(), noise(n, 20_000)))
        .collect();
    fill(place.path("db"), &rows);
    export(&place, &["db", "x"]);
    let (node, address) = start(&place.path("node"));
    let mut importing = place
        .command(&["mvcc", "import", "x", &address])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    // Whenever the kill comes, locks included.
    loop {
        let output = place.run(&["mvcc", "import", "x", &address, "--check", "--json"]);
        let told: Value = serde_json::from_slice(&output.stdout).unwrap();
        if told["same"].as_u64().unwrap() > 0 {
            break;
        }
    }
    importing.kill().unwrap();
    importing.wait().unwrap();
    assert_eq!(import(&place, &["x", &address])["pairs"], 500);
    node.stop().unwrap();
    assert_eq!(rows_of(place.path("node/versions")), rows);
}

#[test]
fn answers_that_would_be_too_large_are_asked_for_in_parts() {
    let place = Place::new();
    // The first page alone would be larger than an answer may be.
    let value = noise(7, 2_500_000);
    let rows: Vec<_> = (0..34_u8).map(|n| (vec![n], value.clone())).collect();
    let (node, _) = start(&place.path("node"));
    node.stop().unwrap();
    fill(place.path("node/versions"), &rows);
    let options = NodeOptions {
        regions: RegionSizes::default(),
        ..options()
    };
    let node = Node::start(place.path("node"), &options).unwrap();
    let told = export(&place, &[&format!("tikv://{}", node.address()), "x"]);
    assert_eq!(told["pairs"], 34);
    node.stop().unwrap();
    import(&place, &["x", "copy"]);
    assert_eq!(rows_of(place.path("copy")), rows);
}

#[test]
fn locks_of_dead_clients_end() {
    let place = Place::new();
    let (node, _) = start(&place.path("node"));
    node.stop().unwrap();
    let store = open(place.path("node/versions"));
    let leave = |keys: [&'static [u8]; 2], commits: bool| {
        let start = store.oracle().next().unwrap();
        let mutations = keys.map(|key| Mutation::Put { key, value: b"v" });
        let request = Prewrite {
            mutations: &mutations,
            primary: keys[0],
            start,
            read_at: start,
            ttl: Duration::from_millis(1),
            txn_size: 2,
            min_commit: Timestamp::ZERO,
            for_update: None,
            secondaries: None,
        };
        let percolator = store.percolator();
        percolator.prewrite(&request).unwrap();
        if commits {
            let commit = store.oracle().next().unwrap();
            percolator.commit(&keys[..1], start, commit).unwrap();
        }
    };
    leave([b"dead 1", b"dead 2"], false);
    leave([b"done 1", b"done 2"], true);
    store.close().unwrap();
    drop(store);
    let (node, address) = start(&place.path("node"));
    export(&place, &[&address, "x"]);
    node.stop().unwrap();
    import(&place, &["x", "copy"]);
    let expected = ["done 1", "done 2"].map(|key| (key.into(), b"v".into()));
    assert_eq!(rows_of(place.path("copy")), expected);
    assert_eq!(place.text(&["mvcc", "locks", "node/versions"]), "");
}

#[test]
fn a_node_that_has_dropped_the_versions_is_refused() {
    let place = Place::new();
    fill(place.path("db"), &shapes());
    export(&place, &["db", "x"]);
    let (node, address) = start(&place.path("node"));
    import(&place, &["x", &address]);
    let told = export(&place, &[&address, "old.x"]);
    let at = told["timestamp"].as_u64().unwrap();
    let moved = ask(&node, async |mut pd, header| {
        let safe_point = at + 1;
        let request = UpdateGcSafePointRequest { header, safe_point };
        let moved = pd.update_gc_safe_point(request).await?;
        Ok(moved.into_inner().new_safe_point)
    });
    assert_eq!(moved, at + 1);
    let said = no_export(&place, &[&address, "y", "--at", &at.to_string()]);
    assert!(said.contains("is before the safe point"), "{said}");
    cut(&place.path("old.x"), 3000);
    let said = no_export(&place, &[&address, "old.x"]);
    assert!(said.contains("delete its file and begin anew"), "{said}");
    let ahead = (at + (1 << 50)).to_string();
    let said = no_export(&place, &[&address, "z", "--at", &ahead]);
    assert!(said.contains("is in the future"), "{said}");
    assert!(!place.path("y").exists() && !place.path("z").exists());
    node.stop().unwrap();
}

#[test]
fn a_place_without_a_node_is_named() {
    let place = Place::new();
    fill(place.path("db"), &shapes()[..3]);
    export(&place, &["db", "x"]);
    // Nobody listens.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let tikv = format!("tikv://{address}");
    let said = no_export(&place, &[&tikv, "y"]);
    assert!(
        said.contains(&address) && said.contains("refused"),
        "{said}"
    );
    // Somebody listens and never answers.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let tikv = format!("tikv://{}", listener.local_addr().unwrap());
    let said = place.refused(&["mvcc", "import", "x", &tikv, "--patience", "1"]);
    assert!(said.contains("no answer in time (--patience)"), "{said}");
    assert!(!place.path("y").exists());
    // The second address answers.
    let (node, address) = start(&place.path("node"));
    let two = format!(
        "tikv://127.0.0.1:1,{}",
        address.trim_start_matches("tikv://")
    );
    import(&place, &["x", &two]);
    assert_eq!(export(&place, &[&two, "y"])["pairs"], 3);
    node.stop().unwrap();
}

#[test]
fn a_node_with_tls_is_reached_with_certificates() {
    let openssl = Command::new("openssl").arg("version").output();
    if requirement::met("openssl", openssl).is_none() {
        return;
    }
    let place = Place::new();
    place.write("names", "subjectAltName=IP:127.0.0.1\n");
    for line in [
        "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=authority -keyout ca.key -out ca.pem",
        "req -newkey rsa:2048 -nodes -subj /CN=both -keyout both.key -out both.csr",
        "x509 -req -days 2 -in both.csr -CA ca.pem -CAkey ca.key -CAcreateserial -extfile names -out both.pem",
    ] {
        let mut openssl = Command::new("openssl");
        let openssl = openssl.args(line.split(' ')).current_dir(place.path(""));
        let output = openssl.output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
    let options = NodeOptions {
        tls: Some(TlsFiles {
            certificate: place.path("both.pem"),
            key: place.path("both.key"),
            client_authority: Some(place.path("ca.pem")),
        }),
        ..options()
    };
    let node = Node::start(place.path("node"), &options).unwrap();
    let address = format!("tikv://{}", node.address());
    fill(place.path("db"), &shapes()[..20]);
    export(&place, &["db", "x"]);
    let files = ["--ca", "ca.pem", "--cert", "both.pem", "--key", "both.key"];
    let told = import(&place, &[&["x", &*address], &files[..]].concat());
    assert_eq!(told["missing"], 20);
    let told = export(&place, &[&[&*address, "y"], &files[..]].concat());
    assert_eq!(told["pairs"], 20);
    no_export(&place, &[&address, "z", "--patience", "5"]);
    let files = ["--ca", "names", "--cert", "both.pem", "--key", "both.key"];
    no_export(&place, &[&[&*address, "z"], &files[..]].concat());
    place.fails(2, &["mvcc", "export", &address, "z", "--ca", "ca.pem"]);
    node.stop().unwrap();
}
