//! `bench`: its steps, its report, and what it must not destroy.

use std::ffi::OsStr;
use std::fs;
use std::process::Stdio;

use crate::{Place, tree};

const STEPS: &str = "fillseq,fillrandom,overwrite,readrandom,multireadrandom,seekrandom,readseq,\
                     deleterandom";

/// Settings small enough that flushes and compactions happen.
const SMALL: &str = "[default]\nwrite_buffer_size = 1000000\nmin_blob_size = 2000\n";

#[test]
fn bench_measures_every_step() {
    let place = Place::new();
    place.write("c.toml", SMALL);
    let sizes = [
        "--num",
        "2000",
        "--value-size",
        "5000",
        "--threads",
        "2",
        "--config",
        "c.toml",
    ];
    let steps = [
        "--benchmarks",
        STEPS,
        "--seek-nexts",
        "3",
        "--json",
        "--histogram",
    ];
    let report = place.json(&[&["bench", "db"], &sizes[..], &steps[..]].concat());
    let names: Vec<&str> = report["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| s["name"].as_str().unwrap())
        .collect();
    assert_eq!(names.join(","), STEPS);
    for step in report["steps"].as_array().unwrap() {
        let number = |field: &str| {
            step[field]
                .as_f64()
                .unwrap_or_else(|| panic!("{field}: {step}"))
        };
        let name = step["name"].as_str().unwrap();
        // A thread of readseq ends at the last key.
        assert!(number("ops") == 4000.0 || name == "readseq", "{step}");
        assert!(number("ops_per_sec") > 0.0, "{step}");
        assert!(number("p50_us") <= number("p99_us"), "{step}");
        assert!(number("p99_us") <= number("p999_us"), "{step}");
        assert!(number("space_amp") <= number("space_amp_max"), "{step}");
        let writes = [
            "fillseq",
            "fillrandom",
            "overwrite",
            "deleterandom",
            "readwhilewriting",
        ];
        if writes.contains(&name) {
            assert!(number("write_amp") >= 1.0, "{step}");
        } else {
            assert!(step["write_amp"].is_null(), "{step}");
        }
        assert!(number("peak_memory_bytes") > 1e6, "{step}");
        assert!(number("space_amp") > 0.5, "{step}");
        assert!(step["disk"]["blob_bytes"].as_u64().unwrap() > 0, "{step}");
    }
    let step = |name: &str| &report["steps"][names.iter().position(|n| *n == name).unwrap()];
    assert_eq!(step("fillseq")["live_keys"], 2000);
    // Of n keys, drawing 2 n leaves out e^-2 of them, drawing 4 n e^-4.
    let random = step("fillrandom")["live_keys"].as_u64().unwrap();
    assert!((1630..1830).contains(&random), "{random}");
    let overwritten = step("overwrite")["live_keys"].as_u64().unwrap();
    assert!((1910..2000).contains(&overwritten), "{overwritten}");
    let found = step("readrandom")["found"].as_u64().unwrap();
    assert!((3800..4000).contains(&found), "{found}");
    assert_eq!(step("readseq")["ops"].as_u64().unwrap(), 2 * overwritten);
    // 3 entries of 16 + 5000 bytes per seek, except near the end.
    let seeks = step("seekrandom");
    let bytes = seeks["mb_per_sec"].as_f64().unwrap() * seeks["seconds"].as_f64().unwrap();
    assert!(
        (bytes * 1048576.0 / (4000.0 * 3.0 * 5016.0) - 1.0).abs() < 0.02,
        "{seeks}"
    );

    // Verification accepts what the steps wrote and nothing else.
    let verify = [&["bench", "db", "--verify"], &sizes[..4]].concat();
    let text = place.text(&verify);
    assert!(text.ends_with("entries, all as written\n"), "{text}");
    let scanned = [
        &[
            "bench",
            "db",
            "--benchmarks",
            "overwrite",
            "--existing",
            "--json",
        ],
        &sizes[..4],
    ];
    let again = place.json(&scanned.concat());
    assert_eq!(again["steps"][0]["live_known_by"], "scan", "{again}");
    place.ok(&["put", "db", "0x00000000000000073030303030303030", "wrong"]);
    let said = place.refused(&verify);
    assert!(
        said.starts_with("titan: corruption: entry 0x0000000000000007"),
        "{said}"
    );
}

#[test]
fn bench_destroys_only_its_own() {
    let place = Place::new();
    let fill = ["bench", "db", "--benchmarks", "fillseq", "--num", "10"];
    place.ok(&["put", "db", "precious", "value"]);
    let said = place.refused(&fill);
    assert!(said.contains("would be destroyed"), "{said}");
    assert_eq!(place.ok(&["get", "db", "precious"]), b"value");
    place.ok(&["delete", "db", "precious"]);
    place.ok(&fill);
    place.ok(&fill);
}

#[test]
fn bench_sees_what_is_in_other_families() {
    let place = Place::new();
    let fill = ["bench", "db", "--benchmarks", "fillseq", "--num", "10"];
    place.write("few.toml", "[families.few]\n");
    let fill_few = [&fill[..], &["--config", "few.toml"]].concat();
    // A family that the run itself makes.
    place.ok(&fill_few);
    place.ok(&fill_few);
    place.ok(&["put", "db", "precious", "value", "--cf", "few"]);
    for fill in [&fill[..], &fill_few] {
        let said = place.refused(fill);
        assert!(said.contains("column families"), "{said}");
    }
    let get = ["get", "db", "precious", "--cf", "few"];
    assert_eq!(place.ok(&get), b"value");
    // A family without keys that the run does not make, too.
    place.ok(&["delete", "db", "precious", "--cf", "few"]);
    place.refused(&fill);
    place.ok(&fill_few);
}

#[test]
fn bench_writes_nothing_among_the_records_of_a_store() {
    let place = Place::new();
    place.ok(&["mvcc", "put", "store", "k", "value"]);
    let before = tree(&place.path("store"));
    for step in ["overwrite", "readrandom"] {
        let run = ["bench", "store", "--benchmarks", step, "--existing"];
        let said = place.refused(&[&run[..], &["--num", "10"]].concat());
        assert!(said.contains("a store of versions"), "{said}");
    }
    assert_eq!(tree(&place.path("store")), before);
}

#[test]
fn bench_destroys_no_damaged_database() {
    let place = Place::new();
    place.ok(&["put", "db", "k", "v"]);
    place.ok(&["compact", "db"]);
    fs::remove_file(place.path("db/CURRENT")).unwrap();
    let before = fs::read_dir(place.path("db")).unwrap().count();
    let said = place.refused(&["bench", "db", "--benchmarks", "fillseq", "--num", "1"]);
    assert!(said.contains("CURRENT is missing"), "{said}");
    assert!(said.contains("titan repair"), "{said}");
    let told = String::from_utf8(place.run(&["check", "db"]).stdout).unwrap();
    assert!(told.contains("CURRENT is missing"), "{told}");
    assert_eq!(fs::read_dir(place.path("db")).unwrap().count(), before);
}

#[test]
fn bench_tells_people_too_and_obeys_the_clock() {
    let place = Place::new();
    let started = std::time::Instant::now();
    let text = place.text(&[
        "bench",
        "db",
        "--benchmarks",
        "fillseq,readwhilewriting",
        "--num",
        "1000",
        "--duration",
        "1",
        "--batch-size",
        "10",
        "--wait-compactions",
        "--histogram",
        "--seed",
        "5",
    ]);
    assert!(started.elapsed().as_secs_f64() >= 1.0);
    assert!(text.contains("fillseq          : 1,000 ops"), "{text}");
    assert!(
        text.contains("write_amp") && text.contains("live: 1,000 keys"),
        "{text}"
    );
    let took = text
        .lines()
        .find(|line| line.contains(" writes beside"))
        .expect(&text);
    assert!(
        took.contains(" found") && !took.contains(" 0 writes"),
        "{text}"
    );
    assert!(text.contains("100.0000 %"), "{text}");
}

#[test]
fn keys_may_be_skewed_and_calls_begin_at_a_rate() {
    let place = Place::new();
    place.write("c.toml", SMALL);
    let run = |more: &[&str]| {
        let steps = ["--benchmarks", "fillseq,overwrite", "--seed", "1", "--json"];
        let sizes = [
            "--num",
            "2000",
            "--value-size",
            "3000",
            "--config",
            "c.toml",
        ];
        let report = place.json(&[&["bench", "db"], &steps[..], &sizes[..], more].concat());
        report["steps"][1].clone()
    };
    let uniform = run(&[]);
    let skewed = run(&["--zipf", "2"]);
    let flushed = |step: &serde_json::Value| step["bytes_written"]["flush_blob"].as_u64().unwrap();
    // What is overwritten within a memtable is not flushed.
    assert!(
        flushed(&skewed) < flushed(&uniform) / 2,
        "{skewed} {uniform}"
    );
    let paced = run(&["--rate", "8000", "--threads", "2", "--hold-snapshot"]);
    // Four thousand calls per step.
    assert!(paced["seconds"].as_f64().unwrap() > 0.45, "{paced}");
    assert!(paced["ops_per_sec"].as_f64().unwrap() < 9000.0, "{paced}");
    let said = place.refused(&["bench", "db", "--benchmarks", "overwrite", "--zipf=-1"]);
    assert!(said.contains("--zipf"), "{said}");
}

#[test]
fn a_killed_bench_leaves_only_what_it_wrote() {
    let place = Place::new();
    place.write("c.toml", SMALL);
    let sizes = [
        "--num",
        "3000",
        "--value-size",
        "3000",
        "--config",
        "c.toml",
    ];
    let steps = [
        "bench",
        "db",
        "--benchmarks",
        "fillrandom",
        "--duration",
        "300",
    ];
    let mut bench = place
        .command(&[&steps[..], &sizes[..]].concat())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    // Under load: something has been flushed.
    let flushed = || {
        let files = fs::read_dir(place.path("db"))
            .into_iter()
            .flatten()
            .flatten();
        files
            .filter(|file| file.path().extension() == Some(OsStr::new("sst")))
            .count()
            > 1
    };
    while !flushed() {
        assert!(
            bench.try_wait().unwrap().is_none(),
            "the bench ended by itself"
        );
        std::thread::yield_now();
    }
    bench.kill().unwrap();
    bench.wait().unwrap();
    let report = place.json(&[&["bench", "db", "--verify", "--json"], &sizes[..]].concat());
    assert!(report["verified"].as_u64().unwrap() > 300, "{report}");
}

#[test]
fn versions_are_loaded_updated_read_and_scanned() {
    let place = Place::new();
    let run = |more: &[&str]| {
        let sizes = ["--num", "1000", "--value-size", "50", "--threads", "2"];
        place.json(&[&["bench", "db", "--mvcc", "--json"], &sizes[..], more].concat())
    };
    let report = run(&[
        "--benchmarks",
        "load,update,update,get,scan",
        "--seek-nexts",
        "10",
    ]);
    let steps = report["steps"].as_array().unwrap();
    let names: Vec<_> = steps.iter().map(|step| step["name"].as_str()).collect();
    let expected = ["load", "update", "update", "get", "scan"].map(Some);
    assert_eq!(names, expected);
    let number = |step: usize, field: &str| {
        let number = steps[step][field].as_u64();
        number.unwrap_or_else(|| panic!("{field} of {}", steps[step]))
    };
    // All threads load together; in the other steps each has its own operations.
    let operations: Vec<_> = (0..5).map(|step| number(step, "ops")).collect();
    assert_eq!(operations, [1000, 2000, 2000, 2000, 2000]);
    assert_eq!(number(2, "live_keys"), 1000);
    assert_eq!((number(3, "found"), number(3, "processed")), (2000, 2000));
    // Ten rows a scan, except near the end, with any number of versions.
    let processed = number(4, "processed");
    assert!((19_000..=20_000).contains(&processed), "{processed}");
    let next = number(4, "next");
    assert!(next <= processed, "{next} steps for {processed} rows");
    // Batches are transactions.
    let again = run(&["--benchmarks", "load,get", "--batch-size", "30"]);
    let step = |n: usize, field: &str| again["steps"][n][field].as_u64().unwrap();
    assert_eq!((step(0, "ops"), step(0, "live_keys")), (1000, 1000));
    assert_eq!(step(1, "found"), 2000);
    // What is there is counted.
    let more = run(&["--benchmarks", "update", "--existing"]);
    assert_eq!(more["steps"][0]["live_keys"], 1000);
}

#[test]
fn steps_of_versions_are_apart_and_destroy_only_their_own() {
    let place = Place::new();
    let said = place.refused(&["bench", "db", "--benchmarks", "load"]);
    assert!(said.contains("load is a step of --mvcc"), "{said}");
    let said = place.refused(&["bench", "db", "--mvcc", "--benchmarks", "fillseq"]);
    assert!(said.contains("no step of --mvcc"), "{said}");
    let load = [
        "bench",
        "db",
        "--mvcc",
        "--benchmarks",
        "load",
        "--num",
        "10",
    ];
    place.ok(&["put", "db", "precious", "value"]);
    let said = place.refused(&load);
    assert!(said.contains("is not a store of versions"), "{said}");
    assert_eq!(place.ok(&["get", "db", "precious"]), b"value");
    let said = place.text(&[
        "bench",
        "own",
        "--mvcc",
        "--benchmarks",
        "load",
        "--num",
        "10",
    ]);
    assert!(said.contains("load             : 10 ops"), "{said}");
    // A store with rows of somebody else stays as it is, its safe point and its old versions
    // included.
    place.ok(&["mvcc", "put", "theirs", "precious", "value"]);
    let before = tree(&place.path("theirs"));
    let said = place.refused(&[&["bench", "theirs"], &load[2..]].concat());
    assert!(said.contains("that no step writes"), "{said}");
    assert_eq!(tree(&place.path("theirs")), before);
    // Nor does the other command destroy a store of versions.
    let said = place.refused(&["bench", "own", "--benchmarks", "fillseq", "--num", "1"]);
    assert!(said.contains("would be destroyed"), "{said}");
}
