//! Tests of the tools through their public interface.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    unreachable_pub,
    reason = "tests fail by panicking; their helpers are for this binary alone"
)]

mod check_and_inspect;
mod downgrade;
mod layers;
mod no_database;
mod repair;
