//! The benchmarks as a crate.

#![expect(clippy::unwrap_used, reason = "what fails a test may end it")]

mod layers;
