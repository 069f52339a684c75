//! The benchmarks as a crate.

mod layers;
