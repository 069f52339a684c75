//! Ctrl-C during long commands.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use titan::{Db, Options};

use crate::Place;

/// Interrupts a process.
fn interrupt(child: &Child) {
    let kill = ["-INT", &child.id().to_string()].map(str::to_owned);
    assert!(Command::new("kill").args(kill).status().unwrap().success());
}

/// Interrupts a process once it catches that. Returns its standard error.
fn interrupted(child: Child) -> String {
    let status = format!("/proc/{}/status", child.id());
    let catches = || {
        let status = fs::read_to_string(&status).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = u64::from_str_radix(caught.unwrap().trim(), 16).unwrap();
        // SIGINT is the second one.
        caught & 2 != 0
    };
    while !catches() {
        std::thread::yield_now();
    }
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn an_interrupted_command_says_how_far_it_came() {
    let place = Place::new();
    let endless = [
        "bench",
        "db",
        "--benchmarks",
        "fillrandom",
        "--num",
        "100000000",
        "--json",
    ];
    for json in [false, true] {
        let args = &endless[..endless.len() - usize::from(!json)];
        let mut command = place.command(args);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let said = interrupted(command.spawn().unwrap());
        let last = said.lines().last().unwrap();
        if json {
            let said: Value = serde_json::from_str(last).unwrap();
            assert_eq!(said["interrupted"]["step"], "fillrandom", "{said}");
            assert_eq!(said["interrupted"]["total"], 100_000_000, "{said}");
        } else {
            let (before, after) = ("titan: interrupted: fillrandom: ", " of 100,000,000");
            assert!(last.starts_with(before) && last.ends_with(after), "{said}");
        }
        fs::remove_dir_all(place.path("db")).unwrap();
    }
}

#[test]
fn an_interrupted_compaction_keeps_what_has_ended() {
    let place = Place::new();
    let db = Db::open(place.path("db"), &Options::default()).unwrap();
    // Values that do not compress.
    let mut state = 7_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    for n in 0..50_000_u32 {
        let value: [u8; 1000] = std::array::from_fn(|_| random());
        db.put(n.to_be_bytes(), value).unwrap();
    }
    db.flush().unwrap();
    db.close().unwrap();
    // The compaction may have ended when the signal comes: then it is done again.
    let said = loop {
        let last = tables(&place).last().map(|(number, _)| *number);
        let mut command = place.command(&["compact", "db", "--force"]);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // Until a compaction has written something that it has not installed.
        let written = |(number, bytes): &(u64, u64)| Some(*number) > last && *bytes > 0;
        while !tables(&place).iter().any(written) && child.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        interrupt(&child);
        let output = child.wait_with_output().unwrap();
        match output.status.code() {
            Some(0) => {}
            code => {
                assert_eq!(code, Some(130), "{output:?}");
                let said = String::from_utf8(output.stderr).unwrap();
                if said.lines().count() > 1 {
                    break said;
                }
            }
        }
    };
    let lines: Vec<_> = said.lines().collect();
    let [how_far, kept] = *lines else {
        panic!("{said}");
    };
    assert!(
        how_far.starts_with("titan: interrupted: compact: "),
        "{said}"
    );
    let nothing = "titan: interrupted: compact: 0 B";
    assert!(how_far != nothing, "{said}");
    assert!(
        kept.contains("interrupted; finished compactions are kept"),
        "{said}"
    );
    place.ok(&["check", "db"]);
}

/// The tables, by their numbers, with their lengths.
fn tables(place: &Place) -> BTreeSet<(u64, u64)> {
    let names = fs::read_dir(place.path("db")).unwrap();
    let number = |name: &str| name.strip_suffix(".sst")?.parse().ok();
    let table = |entry: fs::DirEntry| {
        let number = number(entry.file_name().to_str()?)?;
        Some((number, entry.metadata().ok()?.len()))
    };
    names.filter_map(|entry| table(entry.unwrap())).collect()
}

#[test]
fn an_interrupted_scan_says_how_many_entries_it_has_read() {
    let place = Place::new();
    let db = Db::open(place.path("db"), &Options::default()).unwrap();
    for n in 0..2000_u32 {
        db.put(n.to_be_bytes(), [b'v'; 500]).unwrap();
    }
    db.close().unwrap();
    // The pipe is full before the last entry: nobody reads it until the signal has been sent.
    let mut command = place.command(&["scan", "db"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let said = interrupted(command.spawn().unwrap());
    let count = said.trim().strip_prefix("titan: interrupted: scan: ");
    let count = count.unwrap_or_else(|| panic!("{said}")).replace(',', "");
    assert!(count.parse::<u64>().unwrap() < 2000, "{said}");
}

#[test]
fn an_interrupted_input_leaves_no_value() {
    let place = Place::new();
    place.ok(&["put", "db", "before", "1"]);
    let spawned = |args: &[&str]| {
        let mut command = place.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        command.stderr(Stdio::piped()).spawn().unwrap()
    };
    let mut child = spawned(&["put", "db", "long", "-"]);
    let mut input = child.stdin.take().unwrap();
    input.write_all(&vec![7; 3 << 20]).unwrap();
    // The value goes to a file while it is read.
    let is_begun = || {
        let names = fs::read_dir(place.path("db")).unwrap();
        let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name();
        names
            .map(name)
            .any(|name| name.to_str().unwrap().ends_with(".blob"))
    };
    while !is_begun() {
        std::thread::yield_now();
    }
    let said = interrupted(child);
    assert!(said.starts_with("titan: interrupted: put: "), "{said}");
    assert!(said.trim().ends_with(" MiB"), "{said}");
    drop(input);
    place.fails(4, &["get", "db", "long"]);

    let mut child = spawned(&["delete", "db", "--from-file", "-"]);
    let input = child.stdin.take();
    let said = interrupted(child);
    assert_eq!(said.trim(), "titan: interrupted: delete");
    drop(input);
    assert_eq!(place.ok(&["get", "db", "before"]), b"1");
}

#[test]
fn an_interrupted_record_of_space_keeps_its_samples() {
    let place = Place::new();
    place.ok(&["put", "db", "k", "v"]);
    let args = ["space", "db", "--record", "space.jsonl", "--every", "1h"];
    let mut command = place.command(&args);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // Then the sample is taken, and the command waits.
    let mut line = String::new();
    let mut shown = BufReader::new(child.stdout.take().unwrap());
    shown.read_line(&mut line).unwrap();
    assert!(line.contains("WAL"), "{line}");
    let said = interrupted(child);
    assert!(said.contains("titan: interrupted: space: "), "{said}");
    let recorded = fs::read_to_string(place.path("space.jsonl")).unwrap();
    assert_eq!(recorded.lines().count(), 1, "{recorded}");
}
