//! The process or the machine stops at any operation on the file system below the engine.
//!
//! `TIFS_TEST_ALL_CRASHES=1` visits all operations instead of some.

use std::fmt::Write as _;

use tifs_testkit::crash::{Life, crash, power_failures};
use tifs_testkit::failure::seeds;
use tifs_testkit::ops::{Ops, Shape};
use tifs_testkit::regression::Trial;

use crate::lockstep::survive;

/// Visits one point in so many, unless all are to be visited.
fn sample(step: usize) -> usize {
    match std::env::var_os("TIFS_TEST_ALL_CRASHES") {
        Some(_) => 1,
        None => step,
    }
}

#[test]
fn every_crash_leaves_a_prefix_of_the_operations() {
    let shape = Shape {
        reopens: true,
        ..Shape::small()
    };
    survive(5000, 12, shape, 120, |seed| Trial::Crash {
        seed,
        step: sample(4),
    });
}

/// As where a reduction has left out what bound the slot.
#[test]
fn a_sync_of_a_slot_without_an_inode_makes_nothing_durable() {
    let life = Life::of(&"mknod 0/a 100644 0 0 1\nfsync 2 false".parse().unwrap());
    let crashes = life.and_then(|life| crash(&life, 1, 1)).unwrap();
    assert!(crashes > 0);
}

#[test]
fn the_power_fails_again_and_again_and_what_was_synced_is_there() {
    const ROUNDS: u64 = 10;
    let mut lost = 0;
    let seeds = seeds(5500, 2);
    println!("{} rounds", ROUNDS * (seeds.end - seeds.start));
    for seed in seeds {
        let failed = power_failures(seed, ROUNDS);
        lost += failed.unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    }
    println!("{lost} operations were lost that nobody had synced");
    assert!(lost > 0, "the power never took anything");
}

/// A file whose blocks take two transactions to delete.
fn many_blocks() -> Ops {
    let mut ops = "mknod 0/many 100644 0 0 1\nwrite 1 0 7*5000\n".to_owned();
    for block in 1..1100 {
        let _ = writeln!(ops, "write 1 {} {}*1", block << 14, block % 255 + 1);
    }
    ops.parse().unwrap()
}

#[test]
fn a_deletion_of_many_blocks_is_resumed() {
    let scripts = [
        "set 1 - - - 100 - -\nsync\nreclaim",
        "set 1 - - - 20000 - -\nset 1 - - - 5000000 - -\nset 1 - - - 300 - -\nreclaim",
        "set 1 - - - 0 - -\nwrite 1 9000000 7*1\nreclaim",
        "set 1 - - - 40000 - -\nwrite 1 90 7*100000",
        "unlink 0/many\nforget 1\nsync\nreclaim",
        "set 1 - - - 100 - -\nunlink 0/many\nset 1 - - - 50 - -\nreclaim\nforget 1\nreclaim",
        "mknod 0/other 100644 0 0 2\nrename 0/other 0/many replace\nforget 1\nreclaim",
        "allocate 1 100 16000000 punch\nwrite 1 5 7*17000",
    ];
    for (seed, script) in scripts.iter().enumerate() {
        let life = Life::after(&many_blocks(), &script.parse().unwrap());
        let crashed = life.and_then(|life| crash(&life, seed as u64, sample(2)));
        crashed.unwrap_or_else(|failure| panic!("{script}: {failure}"));
    }
}
