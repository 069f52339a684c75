//! `titan gc`: what it frees, what it leaves, and interruptions.

use std::fs;
use std::process::{Command, Stdio};

use crate::{Place, file_of};

/// Two blob files of values; the first half of each has been deleted.
fn half_dead(place: &Place) {
    for name in ["a", "b", "c", "d"] {
        place.write(format!("tree/{name}"), name.repeat(50_000));
    }
    place.ok(&["load", "db", "tree"]);
    place.ok(&["delete", "db", "tree/a"]);
    place.ok(&["delete", "db", "tree/c"]);
}

#[test]
fn what_is_deleted_is_freed() {
    let place = Place::new();
    let quiet = place.collects_nothing();
    half_dead(&place);
    let known = place.json(&["gc", "db", "--no-compact", "--json", "--config", quiet]);
    assert_eq!(known["summary"]["files"].as_array().unwrap().len(), 0);
    let far = place.text(&["gc", "db", "--from", "x", "--to", "z", "--config", quiet]);
    assert!(far.contains("no blob file had to be rewritten"), "{far}");
    let little = place.text(&["gc", "db", "--threshold", "0.6", "--config", quiet]);
    assert!(little.contains("no blob file"), "{little}");

    let said = place.text(&["gc", "db", "--from", "tree/b", "--config", quiet]);
    assert!(said.contains("1 blob files collected"), "{said}");
    assert!(said.contains("KiB freed"), "{said}");
    let report = place.json(&["gc", "db", "--json", "--config", quiet]);
    assert_eq!(report["bytes_freed"], 0, "{report}");
    assert!(report["after"]["blob_bytes"].as_u64().unwrap() < 110_000);
    assert!(report["after"]["map_bytes"].as_u64().unwrap() > 0);
    assert!(place.text(&["check", "db"]).ends_with("no damage found\n"));
    assert_eq!(
        place.ok(&["get", "db", "tree/b"]),
        "b".repeat(50_000).as_bytes()
    );
    assert_eq!(
        place.ok(&["get", "db", "tree/d"]),
        "d".repeat(50_000).as_bytes()
    );
    let said = place.refused(&["gc", "db", "--threshold", "2"]);
    assert!(
        said.starts_with("titan: invalid option: threshold"),
        "{said}"
    );
    let said = place.refused(&["gc", "db", "--from", "b", "--to", "a"]);
    assert!(said.contains("\ntitan: invalid argument: "), "{said}");
}

#[test]
fn damaged_files_are_named() {
    let place = Place::new();
    half_dead(&place);
    let blob = file_of(&place.path("db"), ".blob");
    let mut bytes = fs::read(&blob).unwrap();
    let at = bytes.windows(9).position(|w| w == b"bbbbbbbbb").unwrap();
    bytes[at + 100] ^= 1;
    fs::write(&blob, bytes).unwrap();
    let output = place.run(&["gc", "db", "--json", "--config", place.collects_nothing()]);
    assert_eq!(output.status.code(), Some(6), "{output:?}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        report["summary"]["damaged"].as_array().unwrap().len(),
        1,
        "{report}"
    );
    let said: serde_json::Value = serde_json::from_slice(&output.stderr).unwrap();
    let error = &said["error"];
    assert_eq!(error["kind"], "corruption", "{said}");
    assert!(error["file"].as_str().unwrap().ends_with(".blob"), "{said}");
    assert!(blob.exists());
    assert_eq!(
        place.ok(&["get", "db", "tree/d"]),
        "d".repeat(50_000).as_bytes()
    );
}

#[test]
fn it_may_be_interrupted_at_any_time() {
    let place = Place::new();
    for n in 0..40 {
        place.write(format!("tree/{n:02}"), vec![n; 500_000]);
    }
    place.write(
        "small.toml",
        "[default]\nblob_file_size = 1048576\nenable_blob_garbage_collection = false\n",
    );
    place.ok(&["load", "db", "tree", "--config", "small.toml"]);
    for n in (0..40).step_by(2) {
        place.ok(&[
            "delete",
            "db",
            &format!("tree/{n:02}"),
            "--config",
            "small.toml",
        ]);
    }
    let mut command = place.command(&["gc", "db", "--config", "small.toml"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = child.spawn().unwrap();
    let process = child.id().to_string();
    // Waits until a file has been collected; `gc` may have ended by the time the signal
    // arrives.
    let collected = || {
        let files = fs::read_dir(place.path("db")).unwrap();
        let mut names = files.map(|file| file.unwrap().file_name());
        names.any(|name| name.to_string_lossy().ends_with(".blobmap"))
    };
    while !collected() && child.try_wait().unwrap().is_none() {
        std::thread::yield_now();
    }
    let _ = Command::new("kill")
        .args(["-INT", &process])
        .output()
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        assert_eq!(output.status.code(), Some(130), "{output:?}");
        assert!(
            said.contains("interrupted; completed collections are kept"),
            "{said}"
        );
    }
    assert!(place.text(&["check", "db"]).ends_with("no damage found\n"));
    place.ok(&["gc", "db"]);
    for n in (1..40).step_by(2) {
        assert_eq!(
            place.ok(&["get", "db", &format!("tree/{n:02}")]),
            vec![n; 500_000]
        );
    }
}
