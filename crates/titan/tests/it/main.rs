//! Tests of the engine through its public face.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    unreachable_pub,
    reason = "tests fail by panicking; their helpers are for this binary alone"
)]

mod basics;
mod crash;
mod crash_recovery;
mod directory;
mod fault_sweep;
mod faults;
mod iterators;
mod model;
mod rocksdb_fixtures;
mod rocksdb_tools;
mod sim;
mod support;
mod tools;
