//! Campaigns that look for lost bytes: the same code runs small and seeded among the tests, and
//! for as long as one likes under `cargo xtask`.
//!
//! | module | gives |
//! |---|---|
//! | [`run`] | what all campaigns share: seed, time, what was found, how far it is |
//! | `schedules` | the whole engine under a scheduler that a seed decides; only with `--cfg shuttle` |
//!
//! A campaign is a function that takes a [`Run`], asks it for its seed and whether to go on, and
//! tells it of each thing that passed or failed.

pub mod run;
#[cfg(shuttle)]
pub mod schedules;

pub use run::{Run, Tally};
