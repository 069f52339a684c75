//! Tests of the engine through its public interface.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    unreachable_pub,
    reason = "tests fail by panicking; their helpers are for this binary alone"
)]

mod application;
mod bad_batches;
mod bad_input;
mod basics;
mod checkpoint;
mod compactions;
mod concurrency;
mod crash_recovery;
mod crash_states;
mod determinism;
mod directory;
mod entities;
mod env;
mod errors;
mod examples;
mod faults;
mod filters;
mod gc;
mod golden;
mod ingestion;
mod kept_options;
mod layers;
mod life_cycles;
mod openings;
mod prefixes;
mod put_reader;
mod reads;
mod refused_commit;
mod resources;
mod rocksdb_fixtures;
mod rocksdb_tools;
mod secondary;
mod separation;
mod set_options;
mod small_worlds;
mod space;
mod statistics;
mod titan_fixtures;
mod wal_recovery;

use titan_testkit::setup as support;
