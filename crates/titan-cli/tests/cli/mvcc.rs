//! `mvcc`: stores of versions.

use std::io::Write;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use serde_json::Value;
use titan_mvcc::{Mutation, Prewrite, Store, StoreOptions, Timestamp, TimestampOracle};

use crate::{Place, tree};

/// Commits a value, and returns the timestamp that the command prints.
fn put(place: &Place, key: &str, value: &str) -> String {
    let printed = place.text(&["mvcc", "put", "db", key, value]);
    let commit = printed.strip_suffix('\n').unwrap().to_owned();
    assert!(commit.parse::<u64>().unwrap() > 0);
    commit
}

fn open(place: &Place) -> Store {
    let options = StoreOptions {
        retention: None,
        ..StoreOptions::default()
    };
    Store::open(place.path("db"), &options).unwrap()
}

#[test]
fn each_timestamp_has_its_value() {
    let place = Place::new();
    let first = put(&place, "k", "one");
    let second = put(&place, "k", "two");
    assert!(first.parse::<u64>().unwrap() < second.parse().unwrap());
    let get = |more: &[&str]| place.ok(&[&["mvcc", "get", "db", "k"], more].concat());
    assert_eq!(get(&[]), b"two");
    assert_eq!(get(&["--at", &first]), b"one");
    assert_eq!(get(&["--at", &second]), b"two");
    assert_eq!(
        String::from_utf8(get(&["--json", "--at", &first])).unwrap(),
        "{\"key\":\"k\",\"value\":\"one\"}\n"
    );
    let before = (first.parse::<u64>().unwrap() - 1).to_string();
    let said = place.refused(&["mvcc", "get", "db", "k", "--at", &before]);
    assert_eq!(said, format!("titan: not found: key k at {before}\n"));
    let ahead = (1_u64 << 62).to_string();
    let said = place.refused(&["mvcc", "get", "db", "k", "--at", &ahead]);
    assert!(said.contains("is in the future"), "{said}");

    // Bytes, files and standard input, as with other commands.
    put(&place, "0x00FF", "0x0001ff");
    assert_eq!(place.ok(&["mvcc", "get", "db", "0x00ff"]), [0, 1, 255]);
    place.write("file", vec![7; 100_000]);
    place.ok(&["mvcc", "put", "db", "large", "--file", "file"]);
    assert_eq!(place.ok(&["mvcc", "get", "db", "large"]), vec![7; 100_000]);
    let mut piped = place
        .command(&["mvcc", "put", "db", "piped", "-", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    piped
        .stdin
        .take()
        .unwrap()
        .write_all(b"from a pipe")
        .unwrap();
    let output = piped.wait_with_output().unwrap();
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(told["commit"].as_u64().unwrap() > second.parse().unwrap());
    assert_eq!(place.ok(&["mvcc", "get", "db", "piped"]), b"from a pipe");
}

/// Counts from a time long ago.
struct Old(AtomicU64);

impl TimestampOracle for Old {
    fn next(&self) -> titan_mvcc::Result<Timestamp> {
        Ok(Timestamp(self.0.fetch_add(1, Ordering::Relaxed)))
    }
}

#[test]
fn a_time_since_the_last_commit_is_not_in_the_future() {
    let place = Place::new();
    let options = StoreOptions {
        retention: None,
        oracle: Some(Arc::new(Old(AtomicU64::new(1000)))),
        ..StoreOptions::default()
    };
    let store = Store::open(place.path("db"), &options).unwrap();
    let mut transaction = store.begin();
    transaction.put(b"k", b"v");
    let commit = transaction.commit().unwrap();
    store.close().unwrap();
    let seconds = |unix: u64| Timestamp::at(Duration::from_secs(unix)).unwrap().0;
    let now = UNIX_EPOCH.elapsed().unwrap().as_secs();
    for at in [commit.0, seconds(1_000_000_000), seconds(now)] {
        let at = at.to_string();
        assert_eq!(place.ok(&["mvcc", "get", "db", "k", "--at", &at]), b"v");
        assert_eq!(place.text(&["mvcc", "scan", "db", "--at", &at]), "k : v\n");
    }
    let ahead = seconds(now + 3600).to_string();
    let said = place.refused(&["mvcc", "get", "db", "k", "--at", &ahead]);
    assert!(said.contains("is in the future"), "{said}");
}

#[test]
fn scans_select_and_show_rows_at_a_timestamp() {
    let place = Place::new();
    put(&place, "a", "1");
    put(&place, "b", "2");
    let then = put(&place, "0x63ff", "0x0a");
    put(&place, "a", "new");
    let scan = |args: &[&str]| place.text(&[&["mvcc", "scan", "db"], args].concat());
    assert_eq!(scan(&[]), "a : new\nb : 2\nc\\xFF : \\n\n");
    assert_eq!(scan(&["--at", &then]), "a : 1\nb : 2\nc\\xFF : \\n\n");
    assert_eq!(scan(&["--from", "b", "--to", "c"]), "b : 2\n");
    assert_eq!(
        scan(&["--reverse", "--limit", "2", "--keys-only"]),
        "c\\xFF\nb\n"
    );
    assert_eq!(scan(&["--limit", "0"]), "");
    assert_eq!(
        scan(&["--from", "b", "--hex"]),
        "0x62 : 0x32\n0x63FF : 0x0A\n"
    );
    assert_eq!(
        scan(&["--from", "b", "--json"]),
        "{\"key\":\"b\",\"value\":\"2\"}\n{\"key_hex\":\"0x63FF\",\"value\":\"\\n\"}\n"
    );
    assert_eq!(
        scan(&["--to", "b", "--json", "--hex"]),
        "{\"key_hex\":\"0x61\",\"value_hex\":\"0x6E6577\"}\n"
    );
}

#[test]
fn versions_are_listed_until_they_are_dropped() {
    let place = Place::new();
    let commits: Vec<String> = (0..4).map(|n| put(&place, "k", &n.to_string())).collect();
    let listed = place.text(&["mvcc", "versions", "db", "k"]);
    let lines: Vec<&str> = listed.lines().collect();
    assert_eq!(lines.len(), 4);
    for (line, (n, commit)) in lines.iter().rev().zip(commits.iter().enumerate()) {
        assert!(line.starts_with(&format!("{commit} ")), "{line}");
        assert!(line.ends_with(&format!(" put : {n}")), "{line}");
    }
    let document = place.json(&["mvcc", "versions", "db", "k", "--json"]);
    assert_eq!(document["key"], "k");
    let newest = &document["versions"][0];
    assert_eq!(newest["commit"].to_string(), commits[3]);
    assert!(newest["start"].as_u64() < newest["commit"].as_u64());
    assert_eq!(
        (&newest["kind"], &newest["value"]),
        (&"put".into(), &"3".into())
    );
    let said = place.refused(&["mvcc", "versions", "db", "nothing"]);
    assert_eq!(said, "titan: not found: key nothing\n");

    let told = place.text(&["mvcc", "gc", "db", "--safe-point", &commits[2]]);
    assert!(
        told.contains(&format!(
            "safe point {}: 2 of 4 versions dropped",
            commits[2]
        )),
        "{told}"
    );
    assert_eq!(
        place.text(&["mvcc", "versions", "db", "k"]).lines().count(),
        2
    );
    // A read before the safe point names it.
    for command in [&["get", "db", "k"][..], &["scan", "db"]] {
        let args = [&["mvcc"], command, &["--at", &commits[1]]].concat();
        let said = place.refused(&args);
        assert!(
            said.contains(&format!("before the safe point {}", commits[2])),
            "{said}"
        );
    }
    assert_eq!(
        place.ok(&["mvcc", "get", "db", "k", "--at", &commits[2]]),
        b"2"
    );
    let said = place.refused(&["mvcc", "gc", "db", "--safe-point", &commits[0]]);
    assert!(said.contains("cannot move backwards"), "{said}");
    let told = place.json(&["mvcc", "gc", "db", "--safe-point", "now", "--json"]);
    assert_eq!(
        (&told["versions_before"], &told["versions_after"]),
        (&2.into(), &1.into())
    );
    assert!(told["safe_point"].as_u64().unwrap() > commits[3].parse().unwrap());
    assert!(
        place
            .fails(2, &["mvcc", "gc", "db", "--safe-point", "soon"])
            .contains("or `now`")
    );
    assert!(
        place
            .fails(2, &["mvcc", "gc", "db"])
            .contains("--safe-point")
    );
}

#[test]
fn space_is_freed_with_the_versions() {
    let place = Place::new();
    place.write("file", vec![1; 1 << 20]);
    for _ in 0..5 {
        place.ok(&["mvcc", "put", "db", "k", "--file", "file"]);
    }
    let told = place.json(&["mvcc", "gc", "db", "--safe-point", "now", "--json"]);
    let bytes = |when: &str| told[when]["blob_bytes"].as_u64().unwrap();
    assert!(bytes("before") + bytes("after") > 0);
    assert!(bytes("after") < (1 << 20) + 4096, "{told}");
    assert_eq!(place.ok(&["mvcc", "get", "db", "k"]), vec![1; 1 << 20]);
}

#[test]
fn check_passes_what_the_store_wrote_and_names_what_it_did_not() {
    let place = Place::new();
    put(&place, "k", "v");
    let told = place.text(&["mvcc", "check", "db"]);
    assert!(told.contains("versions 1, rows 1, puts 1"), "{told}");
    assert!(told.ends_with("no problem found\n"), "{told}");
    place.ok(&[
        "put",
        "db",
        "--cf",
        "versions",
        "0x6B00000000000000F8FF",
        "damage",
        "--force",
    ]);
    let output = place.run(&["mvcc", "check", "db"]);
    assert_eq!(output.status.code(), Some(6), "{output:?}");
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(
        told.contains("key `k`") && told.contains("no timestamp"),
        "{told}"
    );
    assert!(told.ends_with("1 entry is wrong\n"), "{told}");
    let output = place.run(&["mvcc", "check", "db", "--json"]);
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&told["ok"], &told["problems_found"]),
        (&false.into(), &1.into())
    );
    assert_eq!(told["problems"][0]["key"], "k");
}

#[test]
fn what_is_no_store_is_refused_and_not_changed() {
    let place = Place::new();
    place.ok(&["put", "db", "k", "v"]);
    place.ok(&["put", "other", "k", "v", "--cf", "pages"]);
    let before = tree(&place.path("."));
    for db in ["db", "other"] {
        for args in [
            &["get", db, "k"][..],
            &["scan", db],
            &["versions", db, "k"],
            &["locks", db],
            &["check", db],
            &["put", db, "k", "v"],
            &["gc", db, "--safe-point", "now"],
        ] {
            let said = place.refused(&[&["mvcc"], args].concat());
            assert!(
                said.contains("is not a store of versions"),
                "{args:?}: {said}"
            );
        }
    }
    assert_eq!(tree(&place.path(".")), before);
    for args in [
        &["get", "none", "k"][..],
        &["scan", "none"],
        &["versions", "none", "k"],
        &["gc", "none", "--safe-point", "now"],
        &["check", "none"],
    ] {
        let said = place.refused(&[&["mvcc"], args].concat());
        assert!(said.starts_with("titan: not found: "), "{args:?}: {said}");
        assert!(!place.path("none").exists(), "{args:?}");
    }
}

#[test]
fn a_store_that_is_open_elsewhere_is_read_as_of_one_moment() {
    let place = Place::new();
    put(&place, "k", "1");
    let store = open(&place);
    let mut transaction = store.begin();
    transaction.put(b"k", b"2");
    transaction.commit().unwrap();
    let output = place.run(&["mvcc", "get", "db", "k"]);
    assert_eq!(output.stdout, b"2", "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("another process has the database open"),
        "{said}"
    );
    let said = place.refused(&["mvcc", "put", "db", "k", "3"]);
    assert!(said.starts_with("titan: locked: "), "{said}");
    store.close().unwrap();
}

/// Writes as a client of the Percolator calls, without a commit.
fn prewrite(store: &Store, start: Timestamp, mutations: &[Mutation<'_>], ttl: Duration) {
    let request = Prewrite {
        mutations,
        primary: mutations[0].key(),
        start,
        read_at: start,
        ttl,
        txn_size: mutations.len() as u64,
        min_commit: Timestamp::ZERO,
        for_update: None,
        secondaries: None,
    };
    store.percolator().prewrite(&request).unwrap();
}

#[test]
fn locks_are_listed_and_do_not_keep_others_from_reading() {
    let place = Place::new();
    put(&place, "k", "old");
    assert_eq!(place.text(&["mvcc", "locks", "db"]), "");
    let store = open(&place);
    let start = store.oracle().next().unwrap();
    let mutations = [
        Mutation::Put {
            key: b"k",
            value: b"new",
        },
        Mutation::Delete { key: b"\xff" },
    ];
    prewrite(&store, start, &mutations, Duration::from_secs(3600));
    store.close().unwrap();
    drop(store);
    let listed = place.text(&["mvcc", "locks", "db"]);
    let lines: Vec<&str> = listed.lines().collect();
    assert_eq!(lines.len(), 2, "{listed}");
    assert!(
        lines[0].starts_with(&format!("k : put, start {start}, primary k, ")),
        "{listed}"
    );
    assert!(lines[0].ends_with("lives 1h"), "{listed}");
    assert!(lines[1].starts_with("\\xFF : delete, "), "{listed}");
    let listed = place.text(&["mvcc", "locks", "db", "--json"]);
    let locks: Vec<Value> = listed
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(locks[0]["start"], start.0);
    assert_eq!(
        (&locks[0]["key"], &locks[0]["ttl_ms"]),
        (&"k".into(), &3_600_000.into())
    );
    assert_eq!(
        (&locks[1]["key_hex"], &locks[1]["kind"]),
        (&"0xFF".into(), &"delete".into())
    );
    // A read finds what was committed.
    assert_eq!(place.ok(&["mvcc", "get", "db", "k"]), b"old");
    assert_eq!(place.text(&["mvcc", "scan", "db"]), "k : old\n");
    place.ok(&["mvcc", "check", "db"]);
    // A write does not wait for ever.
    let said = place.refused(&["mvcc", "put", "db", "k", "other"]);
    assert!(said.starts_with("titan: lock"), "{said}");
}

#[test]
fn locks_whose_owners_are_gone_end_before_the_safe_point_moves() {
    let place = Place::new();
    // The owner is a client of the Percolator calls. Those of the store have ended when it is
    // opened.
    let leave_a_lock = |key: &[u8], ttl: Duration| {
        let store = open(&place);
        let mut transaction = store.begin();
        transaction.put(b"other", b"value");
        drop(transaction.prewrite().unwrap());
        let start = store.oracle().next().unwrap();
        let value = b"value";
        prewrite(&store, start, &[Mutation::Put { key, value }], ttl);
        store.close().unwrap();
        start.0
    };
    let start = leave_a_lock(b"short", Duration::from_millis(300));
    let told = place.json(&["mvcc", "gc", "db", "--safe-point", "now", "--json"]);
    assert!(told["safe_point"].as_u64().unwrap() > start, "{told}");
    assert_eq!(told["locks_before_it"], 0);
    assert_eq!(place.text(&["mvcc", "locks", "db"]), "");

    // Nobody waits for an hour.
    let start = leave_a_lock(b"long", Duration::from_secs(3600));
    let output = place.run(&["mvcc", "gc", "db", "--safe-point", "now"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(
        told.contains(&format!("safe point {}: ", start - 1)),
        "{told}"
    );
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("1 lock stops the safe point: see titan mvcc locks"),
        "{said}"
    );
}

/// Makes a store whose last timestamps are about this one.
fn make_store_at(place: &Place, timestamp: u64) {
    let options = StoreOptions {
        oracle: Some(Arc::new(Old(AtomicU64::new(timestamp)))),
        retention: None,
        ..StoreOptions::default()
    };
    Store::open(place.path("db"), &options)
        .unwrap()
        .close()
        .unwrap();
}

/// The last timestamps of the store are those of another year.
#[test]
fn a_clock_that_is_far_ahead_is_refused_unless_it_is_said_to_be_right() {
    let place = Place::new();
    make_store_at(&place, 400_000_000_000_000_000);
    let put = ["mvcc", "put", "db", "a", "1"];
    let refused = place.fails(1, &put);
    assert!(
        refused.contains("days after the last timestamp"),
        "{refused}"
    );
    assert!(refused.contains("--any-clock"), "{refused}");
    place.fails(1, &["mvcc", "gc", "db", "--safe-point", "now"]);
    place.text(&["mvcc", "put", "db", "a", "1", "--any-clock"]);
    place.text(&put);
    assert_eq!(place.text(&["mvcc", "get", "db", "a"]).trim(), "1");
}

/// The store was made under a clock of the year 2106.
#[test]
fn a_store_that_is_far_ahead_of_the_clock_is_refused_unless_the_clock_is_said_to_be_right() {
    let place = Place::new();
    make_store_at(&place, 4_300_000_000_000 << 18);
    let refused = place.fails(1, &["mvcc", "put", "db", "a", "1"]);
    assert!(refused.contains("days after the clock"), "{refused}");
    assert!(refused.contains("--any-clock"), "{refused}");
    place.text(&["mvcc", "put", "db", "a", "1", "--any-clock"]);
    assert_eq!(place.text(&["mvcc", "get", "db", "a"]).trim(), "1");
}

/// No timestamp is left for an opening to write, but an export takes the committed data elsewhere.
#[test]
fn a_store_whose_timestamps_end_can_be_exported() {
    let place = Place::new();
    let options = StoreOptions {
        oracle: Some(Arc::new(Old(AtomicU64::new(u64::MAX - 20)))),
        retention: None,
        ..StoreOptions::default()
    };
    let store = Store::open(place.path("db"), &options).unwrap();
    for (key, value) in [("a", "1"), ("b", "2")] {
        let mut transaction = store.begin();
        transaction.put(key.as_bytes(), value.as_bytes());
        transaction.commit().unwrap();
    }
    store.close().unwrap();
    drop(store);
    let put = ["mvcc", "put", "db", "c", "3", "--any-clock"];
    place.fails(1, &put);
    let before = tree(&place.path("db"));
    assert_eq!(place.text(&["mvcc", "get", "db", "a"]).trim(), "1");
    place.text(&["mvcc", "export", "db", "all.export"]);
    assert!(tree(&place.path("db")) == before);
    place.text(&["mvcc", "import", "all.export", "new"]);
    for (key, value) in [("a", "1"), ("b", "2")] {
        assert_eq!(place.text(&["mvcc", "get", "new", key]).trim(), value);
    }
}

#[test]
fn every_command_has_help_with_an_example() {
    let place = Place::new();
    let help = place.text(&["mvcc", "--help"]);
    assert!(help.contains("\n  titan mvcc put"), "{help}");
    for command in ["put", "get", "scan", "versions", "locks", "gc", "check"] {
        let help = place.text(&["mvcc", command, "--help"]);
        assert!(
            help.contains(&format!("titan mvcc {command} history.db")),
            "{help}"
        );
    }
    assert!(place.fails(2, &["mvcc", "get", "db"]).contains("<KEY>"));
}

#[test]
fn who_misses_a_key_or_a_database_is_told_where_it_is() {
    let place = Place::new();
    place.ok(&["mvcc", "put", "db", "greeting", "hello"]);
    let said = place.fails(4, &["get", "db", "greeting"]);
    assert!(said.contains("titan mvcc get and put use it"), "{said}");
    // As of `titan serve`.
    std::fs::create_dir_all(place.path("cluster/node")).unwrap();
    std::fs::rename(place.path("db"), place.path("cluster/versions")).unwrap();
    for command in ["stats", "check"] {
        let said = place.fails(5, &[command, "cluster"]);
        assert!(
            said.contains("its databases are cluster/versions and cluster/node"),
            "{said}"
        );
    }
}
