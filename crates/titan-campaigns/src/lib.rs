//! Campaigns that search for lost data: the same code runs small and seeded among the tests, and
//! for any length of time under `cargo xtask`.
//!
//! | module | has |
//! |---|---|
//! | [`run`] | the parts that all campaigns share: seed, time, findings, progress |
//! | [`pool`] | jobs on all cores, with detection of hangs |
//! | [`settings`] | the small settings that workloads run under |
//! | [`workloads`] | operations to run: scripts and random ones |
//! | [`store`] | a simulated database that operations are applied to, with a ledger |
//! | [`recovery`] | the checks of every recovered database |
//! | [`case`] | a list of operations and its configurations, reduced and as text |
//! | [`regression`] | a workload and the trials that it must survive, as text |
//! | [`crash`] | campaign: the machine stops at every operation of its file system |
//! | [`faults`] | campaign: every operation of the file system fails |
//! | [`full`] | campaign: the device becomes full at every operation of the file system |
//! | [`lists`], [`session`] | lists of operations, and an open database to apply them to thoroughly |
//! | `answers` | the outcomes of the operations of a list, expected and found |
//! | [`metamorphic`] | many configurations, equal outcomes |
//! | [`mvcc`] | random histories of a store of versions, and their model |
//! | [`ime`] | the same with a range cache |
//! | `serve` | campaign: transactions over the network on a node that is killed; only with feature `serve` |
//! | `tifs` | volumes of TiFS, and their model; not with `--cfg shuttle` |
//! | [`wal_damage`] | campaign: every byte of a WAL file is damaged |
//! | [`beside`] | campaign: each view of a database under full load is one moment of its history |
//! | [`fuzz`] | bytes as operations on a database, and as damage to its directory |
//! | [`differential`] | RocksDB itself: equal outcomes, and directories handed back and forth |
//! | [`matrix`] | releases of RocksDB: each reads Titan's directories, and Titan theirs |
//! | `schedules` | the whole engine under a seeded scheduler; only with `--cfg shuttle` |
//!
//! Operations, the [`Applier`](titan_testkit::apply) that performs them, the
//! [`Ledger`](titan_testkit::ledger) of the states that may be found later and the errors of checks
//! are those of `titan_testkit`. `mvcc` and `ime` perform its operations on
//! [`versions`](titan_testkit::versions). Two campaigns have no lists of operations: `beside`, in
//! whose history every moment can be checked without a record of it, because the program that reads
//! is another process; and `matrix`, whose operations are scripts for another engine.
//!
//! A campaign is a function that takes a [`Run`], asks it for the seed and whether to continue, and
//! reports everything that passed or failed to it.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests fail by panicking"))]

mod answers;
pub mod beside;
pub mod case;
pub mod crash;
pub mod differential;
pub mod faults;
pub mod full;
pub mod fuzz;
pub mod ime;
pub mod lists;
pub mod matrix;
pub mod metamorphic;
pub mod mvcc;
pub mod pool;
pub mod recovery;
pub mod regression;
pub mod run;
#[cfg(shuttle)]
pub mod schedules;
#[cfg(feature = "serve")]
pub mod serve;
pub mod session;
pub mod settings;
pub mod store;
#[cfg(not(shuttle))]
pub mod tifs;
pub mod wal_damage;
pub mod workloads;

pub use run::{Run, Tally};
