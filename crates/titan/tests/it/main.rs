//! Tests of the engine through its public interface.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    unreachable_pub,
    reason = "tests fail by panicking; their helpers are for this binary alone"
)]

mod approximate;
mod bad_batches;
mod bad_input;
mod basics;
mod checkpoint;
mod collectors;
mod concurrency;
mod crash_recovery;
mod damaged_block;
mod descriptors;
mod determinism;
mod directory;
mod entities;
mod examples;
mod faults;
mod filters;
mod forks;
mod full;
mod gc;
mod golden;
mod hooks;
mod in_memory;
mod iterators;
mod kept_options;
mod layers;
mod life_cycles;
mod limits;
mod listeners;
mod merges;
mod moved;
mod prefixes;
mod read_only;
mod refused_commit;
mod rocksdb_fixtures;
mod rocksdb_tools;
mod secondary;
mod separation;
mod set_options;
mod small_worlds;
mod space;
mod titan_fixtures;
mod tombstones;
mod unreadable;
mod wal_recovery;

use titan_testkit::setup as support;
