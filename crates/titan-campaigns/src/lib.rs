//! Campaigns that look for lost bytes: the same code runs small and seeded among the tests, and
//! for as long as one likes under `cargo xtask`.
//!
//! | module | gives |
//! |---|---|
//! | [`run`] | what all campaigns share: seed, time, what was found, how far it is |
//! | [`lists`], [`session`] | lists of operations, and an open database they are applied to |
//! | `history` | what the operations of a list answer, expected and found |
//! | [`metamorphic`] | many configurations, equal answers |
//! | [`differential`] | RocksDB itself, equal answers, and directories handed to and fro |
//!
//! A campaign is a function that takes a [`Run`], asks it for its seed and whether to go on, and
//! tells it of each thing that passed or failed.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests fail by panicking"))]

pub mod differential;
mod history;
pub mod lists;
pub mod metamorphic;
pub mod run;
pub mod session;

pub use run::{Run, Tally};
