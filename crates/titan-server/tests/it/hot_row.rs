//! Creates in one directory, as a file system on the node makes them: each rewrites the row of the
//! directory. What they cost the store is counted.

use std::collections::BTreeMap;

use titan::{DbOptions, StatsLevel};
use titan_server::proto::kvrpcpb::*;
use titan_server::{NodeOptions, StorageOptions};

use crate::cluster::{Cluster, ask, options, put, unsynced};

const CREATES: u64 = 2000;
/// The creates that are compared.
const PART: u64 = 200;

/// Counters of the work of the store. Versions of the row that a read steps over would
/// be among the steps, or among the seeks past them.
const COUNTED: [&str; 7] = [
    "gets",
    "iterators",
    "seeks",
    "nexts",
    "prevs",
    "keys_written",
    "wal_bytes",
];

fn counters(cluster: &Cluster) -> BTreeMap<&'static str, u64> {
    let page = cluster.metrics();
    let value = |name: &str| {
        let start = format!("titan_{name}_total{{db=\"versions\"}} ");
        let found = page.lines().find_map(|line| line.strip_prefix(&start));
        found.unwrap_or_else(|| panic!("{name}: {page}")).parse()
    };
    COUNTED.map(|name| (name, value(name).unwrap())).into()
}

/// Creates a file: reads the row of the directory, and commits it with those of the file.
fn create(cluster: &Cluster, context: &Option<Context>, number: u64) {
    let get = GetRequest {
        context: context.clone(),
        key: "directory".into(),
        version: cluster.ts(),
    };
    let start_version = get.version;
    let found = ask!(cluster, kv_get, get);
    assert_eq!(found.not_found, number == 0);
    assert!(number == 0 || found.value == format!("{number:08} files"));
    let mutations = vec![
        put("directory", format!("{:08} files", number + 1)),
        put(format!("entry {number:08}"), format!("{number:08}")),
        put(format!("inode {number:08}"), "a file"),
    ];
    let keys = mutations.iter().map(|m| m.key.clone()).collect();
    let prewrite = PrewriteRequest {
        context: context.clone(),
        mutations,
        primary_lock: "directory".into(),
        start_version,
        lock_ttl: 3000,
        txn_size: 3,
        ..PrewriteRequest::default()
    };
    let done = ask!(cluster, kv_prewrite, prewrite);
    assert_eq!(done, PrewriteResponse::default());
    let commit = CommitRequest {
        context: context.clone(),
        start_version,
        keys,
        commit_version: cluster.ts(),
    };
    assert_eq!(ask!(cluster, kv_commit, commit).error, None);
}

#[test]
fn the_last_creates_in_a_directory_cost_what_the_first_did() {
    let cluster = Cluster::with(NodeOptions {
        storage: StorageOptions {
            db: DbOptions {
                stats_level: StatsLevel::All,
                ..DbOptions::default()
            },
            ..unsynced()
        },
        ..options()
    });
    let context = cluster.context();
    let mut done = 0;
    let mut create_until = |until| {
        let before = counters(&cluster);
        while done < until {
            create(&cluster, &context, done);
            done += 1;
        }
        let mut cost = counters(&cluster);
        cost.iter_mut()
            .for_each(|(name, count)| *count -= before[name]);
        cost
    };
    // The first one finds no row.
    create_until(1);
    let first = create_until(1 + PART);
    create_until(CREATES - PART);
    let last = create_until(CREATES);
    assert!(
        first["gets"] >= PART && first["keys_written"] >= 3 * PART,
        "{first:?}"
    );
    for (name, count) in &last {
        let most = first[name] + first[name] / 10;
        assert!(*count <= most, "{name}: {first:?}, then {last:?}");
    }
}
