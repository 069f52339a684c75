//! Ctrl-C during long commands.

use std::collections::BTreeSet;
use std::fs;
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
        let last = tables(&place).last().copied();
        let mut command = place.command(&["compact", "db", "--force"]);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        while tables(&place).last().copied() <= last && child.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        interrupt(&child);
        let output = child.wait_with_output().unwrap();
        match output.status.code() {
            Some(0) => {}
            code => {
                assert_eq!(code, Some(130), "{output:?}");
                break String::from_utf8(output.stderr).unwrap();
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
    assert!(
        kept.contains("interrupted; finished compactions are kept"),
        "{said}"
    );
    place.ok(&["check", "db"]);
}

/// The numbers of the tables, in their order.
fn tables(place: &Place) -> BTreeSet<u64> {
    let names = fs::read_dir(place.path("db")).unwrap();
    let number = |name: &str| name.strip_suffix(".sst")?.parse().ok();
    names
        .filter_map(|entry| number(entry.unwrap().file_name().to_str()?))
        .collect()
}
