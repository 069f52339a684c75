//! The campaigns, small and seeded, and the regressions.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    unreachable_pub,
    reason = "tests fail by panicking; their helpers are for this binary alone"
)]

mod crash;
mod differential;
mod faults;
mod full;
mod ime;
mod matrix;
mod metamorphic;
mod mvcc;
mod real_fs;
mod regressions;
mod tifs;
mod wal_damage;
