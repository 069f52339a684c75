//! Tests of the engine through its public face.

mod basics;
mod directory;
mod iterators;
mod model;
mod rocksdb_fixtures;
mod rocksdb_tools;
mod support;
