//! Guides: one page for each question that a program meets, with examples that are tests.
//!
//! | guide | answers |
//! |---|---|
//! | [`durability`] | when a write survives the process, and when the machine |
//! | [`large_values`] | storing and reading values of many megabytes |
//! | [`transactions`] | several keys at once: a batch, conditions, or a transaction of which kind |
//! | [`iterating`] | ranges, cursors, moments, and what a scan costs |
//! | [`tuning`] | the few options that matter, and how to see whether they do |
//! | [`coming_from_rocksdb`] | RocksDB's calls and options by their names here |
//!
//! The guides have no code.

pub mod coming_from_rocksdb;
pub mod durability;
pub mod iterating;
pub mod large_values;
pub mod transactions;
pub mod tuning;
