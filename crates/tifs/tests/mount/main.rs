//! Tests of a mounted volume, through system calls: the built `tifs` serves volumes in temporary
//! directories.
//!
//! | module | tests |
//! |---|---|
//! | [`failures`] | what fails says so, and loses nothing |
//! | [`kills`] | the process is killed at random moments; nothing that was promised is lost |
//! | [`model`] | random operations, in step with another file system of the kernel |
//! | [`probes`] | one promise each, of those that file systems in user space often break |
//! | [`umount`] | `tifs umount` while other namespaces have the mount |
//! | [`places`] | (where the tests run: mounts that end with their test) |
//!
//! They need root and `/dev/fuse`. Where one is missing they print `skipped: needs ...` and pass;
//! see `titan_testkit::requirement`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    unreachable_pub,
    reason = "tests fail by panicking; their helpers are for this binary alone"
)]

mod failures;
mod kills;
mod model;
mod places;
mod probes;
mod umount;
