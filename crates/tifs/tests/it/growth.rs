//! Each way in which a file grows, after each way in which it was cut: what was cut off is zeros,
//! and the room of everything is given back.

use std::fmt::Write as _;

use tifs::kv::{Scan, Space};
use tifs_testkit::contents::Contents;
use tifs_testkit::crash::{Life, crash};
use tifs_testkit::failure::{Checked, Context, Failure};
use tifs_testkit::lockstep::Lockstep;
use tifs_testkit::ops::{Op, Ops};
use tifs_testkit::place::Place;

/// A file, and where it is cut and how far it grows.
struct File {
    content: String,
    cuts: &'static [u64],
    size: u64,
    grown: &'static [u64],
}

fn files() -> [File; 3] {
    // More than a truncation deletes at once.
    let mut many = "write 1 0 7*5000\n".to_owned();
    for block in 1..300 {
        let _ = writeln!(many, "write 1 {} {}*1", block << 14, block % 255 + 1);
    }
    [
        File {
            content: "write 1 0 7*3000\n".to_owned(),
            cuts: &[0, 100],
            size: 3000,
            grown: &[150, 3000, 100_000],
        },
        File {
            content: "write 1 0 7*100000\n".to_owned(),
            cuts: &[100, 16_384, 20_000],
            size: 100_000,
            grown: &[20_100, 100_000, 300_000],
        },
        File {
            content: many,
            cuts: &[20_000],
            size: (299 << 14) + 1,
            grown: &[6_000_000],
        },
    ]
}

/// Ways to cut a file of so many bytes at a place.
fn cuts(at: u64, size: u64) -> Vec<String> {
    let truncated = format!("set 1 - - - {at} - -\n");
    vec![
        "set 1 - - - 0 - -\n".to_owned(),
        format!("set 1 - - - {} - -\n{truncated}", at + (size - at) / 2),
        format!("allocate 1 {at} {size} punch\n"),
        format!("allocate 1 {at} {size} zero-keep-size\n"),
        format!("unlink 0/a\n{truncated}"),
        format!("rename 0/b 0/a replace\n{truncated}"),
        format!("{truncated}crash\n"),
        format!("{truncated}remount\n"),
        truncated,
    ]
}

/// Ways to let it grow from a place on.
fn growths(at: u64, to: u64) -> Vec<String> {
    vec![
        format!("write 1 {to} 9*100\n"),
        format!("write 1 {} 9*100\n", at + 10),
        format!("set 1 - - - {to} - -\n"),
        format!("allocate 1 {at} {} extend\n", to.saturating_sub(at).max(1)),
        format!("allocate 1 {at} {} zero\n", to.saturating_sub(at).max(1)),
        format!("copy 2 0 1 {to} 3000\n"),
    ]
}

const SETUP: &str = "mknod 0/a 100644 0 0 1\nmknod 0/b 100644 0 0 2\nwrite 2 0 5*3000\n";

/// All that a reader can tell.
fn looks(to: u64) -> String {
    let near = to.saturating_sub(1000);
    format!("stat 1\nread 1 0 200000\nread 1 {near} 5000\nseek 1 0 hole\nseek 1 {near} data\n")
}

fn parsed(text: &str) -> Checked<Ops> {
    text.parse().map_err(Failure)
}

/// Does operations beside the model, then cuts the file to nothing and gives it up.
fn gives_room_back(ops: &Ops) -> Checked<()> {
    let mut lockstep = Lockstep::new(Place::in_memory())?;
    for step in &ops.0 {
        lockstep.step(step).context(step)?;
        if step.op == (Op::Reclaim {}) {
            lockstep.reclaim()?;
        }
    }
    let end = "set 1 - - - 0 - -\nforget 1\nreclaim\n";
    for step in &parsed(end)?.0 {
        lockstep.step(step).context(step)?;
    }
    lockstep.reclaim()?;
    let kv = lockstep.world.store.kv();
    let blocks = kv.scan(&Scan::prefix(Space::Data, b"").keys_only());
    let left = blocks.context("looking for blocks")?.len();
    let units = Contents::of_store(kv).context("reading everything")?.units;
    let usage = lockstep.world.volume.usage();
    match (left, usage.blocks == units) {
        (0, true) => Ok(()),
        _ => Err(Failure(format!(
            "{left} blocks are left: {usage:?}, {units}"
        ))),
    }
}

#[test]
fn what_was_cut_is_zeros_however_a_file_grows_and_takes_no_room() {
    let mut lists = 0;
    for file in files() {
        for (at, to) in pairs(&file) {
            for cut in cuts(at, file.size) {
                for growth in growths(at, to) {
                    let looks = looks(to);
                    let text = format!(
                        "{SETUP}{}{cut}{growth}{looks}reclaim\n{looks}",
                        file.content
                    );
                    let given_back = parsed(&text).and_then(|ops| gives_room_back(&ops));
                    given_back.unwrap_or_else(|e| panic!("{e}\n{text}"));
                    lists += 1;
                }
            }
        }
    }
    println!("{lists} lists");
}

fn pairs(file: &File) -> impl Iterator<Item = (u64, u64)> + '_ {
    let pairs = file
        .cuts
        .iter()
        .flat_map(|at| file.grown.iter().map(|to| (*at, *to)));
    pairs.filter(|(at, to)| at < to)
}

/// The process or the machine stops at any operation of the disk meanwhile.
#[test]
fn what_was_cut_is_zeros_after_a_crash() {
    let mut crashes = 0;
    for file in &files()[1..] {
        let (at, to) = (file.cuts[0], file.grown[0]);
        let setup = parsed(&format!("{SETUP}{}", file.content)).unwrap();
        for (seed, cut) in cuts(at, file.size).iter().enumerate() {
            // Another one after each cut: the list above has all of them.
            let growths = growths(at, to);
            let growth = &growths[(seed + file.content.len()) % growths.len()];
            let text = format!("{cut}{growth}sync\nreclaim\n");
            let life = Life::after(&setup, &parsed(&text).unwrap());
            let crashed = life.and_then(|life| crash(&life, seed as u64, 8));
            crashes += crashed.unwrap_or_else(|e| panic!("{e}\n{}{text}", file.content));
        }
    }
    println!("{crashes} crashes");
}
