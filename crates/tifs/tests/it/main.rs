//! Tests of the file system through its public interface.
//!
//! | module | has |
//! |---|---|
//! | `lockstep` | volume and model side by side |
//! | `regressions` | lists of operations that failed once |
//! | `crash` | the process or the machine stops, at every operation of the disk |
//! | `cluster` | a volume on a node that speaks TiKV's protocol |
//! | `growth` | files that are cut and grow, in all ways |
//! | `holes` | holes of so many blocks that they are made piece by piece |
//! | `moods` | a volume on such a store |
//! | `threads` | several threads on a volume |
//! | `faults` | operations of the disk fail, or it is full |
//! | `forks` | children that are forked while a volume is open |
//! | `command` | the built command, on volumes that are not mounted |
//!
//! The language of operations, the model and the checks are those of `tifs_testkit`. Everything
//! random has a seed, which a failure names, with the operations that are enough to fail.
//! `TIFS_TEST_SEEDS=20` runs twenty times as many seeds.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    unreachable_pub,
    missing_docs,
    reason = "tests fail by panicking; their helpers are for this binary alone"
)]

#[cfg(feature = "tikv")]
mod cluster;
mod command;
mod crash;
#[cfg(feature = "etcd")]
mod etcd;
mod faults;
mod forks;
mod golden;
mod growth;
mod holes;
mod layers;
mod lockstep;
mod moods;
mod regressions;
mod threads;
