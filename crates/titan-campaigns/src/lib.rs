//! Campaigns that look for lost bytes: the same code runs small and seeded among the tests, and
//! for as long as one likes under `cargo xtask`.
//!
//! | module | gives |
//! |---|---|
//! | [`fuzz`] | bytes as operations on a database, and as damage to its directory |
//! | [`run`] | what all campaigns share: seed, time, what was found, how far it is |
//!
//! A campaign is a function that takes a [`Run`], asks it for its seed and whether to go on, and
//! tells it of each thing that passed or failed.

pub mod fuzz;
pub mod run;

pub use run::{Run, Tally};
