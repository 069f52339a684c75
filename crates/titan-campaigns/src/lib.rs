//! Campaigns that look for lost bytes: the same code runs small and seeded among the tests, and
//! for as long as one likes under `cargo xtask`.
//!
//! | module | gives |
//! |---|---|
//! | [`run`] | what all campaigns share: seed, time, what was found, how far it is |
//! | [`pool`] | jobs on all cores, watched for hangs |
//! | [`trouble`] | what a check runs into |
//! | [`settings`] | the small settings that workloads run under |
//! | [`workloads`] | what is done: scripts and random operations |
//! | [`store`] | a simulated database that operations are applied to |
//! | [`record`] | what was done, what was promised, and what may be found after a crash |
//! | [`calls`] | the calls that operations stand for |
//! | [`reads`], [`recovery`] | comparing contents; what is asked of every recovered database |
//! | [`regression`] | a workload and what it is to survive, as text |
//! | [`crash`] | campaign: the machine stops at every operation of its file system |
//! | [`faults`] | campaign: every operation of the file system fails |
//! | [`lists`], [`session`] | lists of operations, and an open database they are applied to |
//! | `answers` | what the operations of a list answer, expected and found |
//! | [`metamorphic`] | many configurations, equal answers |
//! | [`beside`] | campaign: each look at a database under full load is one moment of its history |
//! | [`fuzz`] | bytes as operations on a database, and as damage to its directory |
//! | [`differential`] | RocksDB itself, equal answers, and directories handed to and fro |
//! | [`matrix`] | releases of RocksDB: each reads Titan's directories, and Titan theirs |
//! | `peer` | another engine in a process of its own |
//! | `schedules` | the whole engine under a scheduler that a seed decides; only with `--cfg shuttle` |
//!
//! A campaign is a function that takes a [`Run`], asks it for its seed and whether to go on, and
//! tells it of each thing that passed or failed.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests fail by panicking"))]

mod answers;
pub mod beside;
pub mod calls;
pub mod crash;
pub mod differential;
pub mod faults;
pub mod fuzz;
pub mod lists;
pub mod matrix;
pub mod metamorphic;
mod peer;
pub mod pool;
pub mod reads;
pub mod record;
pub mod recovery;
pub mod regression;
pub mod run;
#[cfg(shuttle)]
pub mod schedules;
pub mod session;
pub mod settings;
pub mod store;
pub mod trouble;
pub mod workloads;

pub use run::{Run, Tally};
