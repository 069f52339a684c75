//! The hook that judges messages of commits.

use std::path::Path;
use std::process::Command;

/// Complaint of the hook; empty if it accepts the message.
fn complaint(message: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("COMMIT_EDITMSG");
    std::fs::write(&file, message).unwrap();
    let hook = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/commit-msg");
    let mut command = Command::new("bash");
    // A locale that the machine lacks makes the shell complain.
    let output = command
        .env("LC_ALL", "C.UTF-8")
        .arg(hook)
        .arg(&file)
        .output()
        .unwrap();
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.success(), complaint.is_empty(), "{complaint}");
    complaint
}

#[test]
fn orders_with_the_name_of_a_crate_are_accepted() {
    for message in [
        "titan: read private WAL records by one function",
        "titan-mvcc: retry a read whose lock was resolved concurrently\n\nA body.\n",
        "ci: pass the list of what a machine lacks",
        "\n# a comment\ndocs: embed the plots\n# another\n",
        "Merge branch 'main' into law",
        "fixup! anything at all",
        "Revert \"tifs: x\"",
        "tifs: write x\n# ------------------------ >8 ------------------------\ndiff\n",
        "",
    ] {
        assert_eq!(complaint(message), "", "{message}");
    }
}

#[test]
fn other_subjects_are_refused() {
    let long = format!("titan: write {}", "x".repeat(60));
    for (message, reason) in [
        (long.as_str(), "73 columns"),
        ("write files", "begins with none of"),
        ("mvcc: write files", "begins with none of"),
        ("titan:write files", "begins with none of"),
        ("titan: write", "no object"),
        ("titan: write files.", "full stop"),
        ("titan: Write files", "lower case"),
        ("titan: a lock is no error", "\"a\" is no verb"),
        ("titan: what is written is read", "\"what\" is no verb"),
        ("titan: writes files", "no imperative"),
        ("titan: writing files", "no imperative"),
        ("titan: fixed files", "no imperative"),
        ("titan: write files\nand more", "second line"),
    ] {
        let complaint = complaint(message);
        assert!(complaint.contains(reason), "{message}: {complaint}");
    }
}

#[test]
fn every_crate_may_begin_a_subject() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let names = std::fs::read_dir(crates).unwrap();
    for name in names.map(|entry| entry.unwrap().file_name()) {
        let name = name.to_str().unwrap();
        assert_eq!(complaint(&format!("{name}: write files")), "");
    }
}
