//! Tests of the engine through its public face.

mod bad_input;
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
