//! Tests of the engine through its public face.

mod bad_batches;
mod bad_input;
mod basics;
mod concurrency;
mod crash;
mod crash_recovery;
mod directory;
mod fault_sweep;
mod faults;
mod iterators;
mod limits;
mod model;
mod rocksdb_fixtures;
mod rocksdb_tools;
mod separation;
mod sim;
mod support;
