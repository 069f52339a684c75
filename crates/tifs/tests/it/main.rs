//! Tests of the file system through its public interface.
//!
//! | module | has |
//! |---|---|
//! | `ops` | operations as values and as text, and their generator |
//! | `model` | what a volume should do |
//! | `place` | where volumes are stored |
//! | `world` | operations on a volume |
//! | `contents` | everything that a volume has, for comparisons |
//! | `lockstep` | volume and model side by side |
//! | `crash` | the process or the machine stops, at every operation of the disk |
//! | `holes` | holes of so many blocks that they are made piece by piece |
//! | `fickle` | a store with moods |
//! | `moods` | a volume on such a store |
//! | `threads` | several threads on a volume |
//! | `faults` | operations of the disk fail, or it is full |
//! | `forks` | children that are forked while a volume is open |
//! | `command` | the built command, on volumes that are not mounted |
//!
//! Everything random has a seed, which a failure names, with the operations that are enough to
//! fail. `TIFS_TEST_SEEDS=20` runs twenty times as many seeds.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    unreachable_pub,
    missing_docs,
    reason = "tests fail by panicking; their helpers are for this binary alone"
)]

mod command;
mod contents;
mod crash;
mod failure;
mod faults;
mod fickle;
mod forks;
mod golden;
mod holes;
mod layers;
mod lockstep;
mod model;
mod moods;
mod ops;
mod place;
mod threads;
mod world;
