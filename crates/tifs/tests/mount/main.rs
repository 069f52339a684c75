//! Tests of a mounted volume, through system calls: the built `tifs` serves volumes in temporary
//! directories.
//!
//! | module | tests |
//! |---|---|
//! | [`model`] | random operations, in step with another file system of the kernel |
//! | [`places`] | (where the tests run: mounts that end with their test) |
//!
//! They need root and `/dev/fuse`. Where one is missing they print `skipped: needs ...` and pass; see
//! `titan_testkit::requirement`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    unreachable_pub,
    reason = "tests fail by panicking; their helpers are for this binary alone"
)]

mod mapping;
mod model;
mod places;
mod users;
