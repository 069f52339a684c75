//! Tests of the engine through its public face.

mod bad_input;
mod basics;
mod directory;
mod rocksdb_fixtures;
mod rocksdb_tools;
