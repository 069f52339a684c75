//! Tests of the range cache through its public interface.
//!
//! | module | has |
//! |---|---|
//! | `place` | stores on a simulated disk and clock |
//! | `model` | random histories against a model, with loads, drops and limits of memory |
//! | `choosing` | what the cache holds by itself |
//! | `known_bugs` | bugs that such caches had elsewhere |
//! | `loads` | loads that meet writes, that are abandoned, that do not fit |
//! | `locks` | transactions in two phases |
//! | `reads` | what is answered from memory, and what is not |
//! | `pruning` | old versions that go, and readers that keep them |
//! | `threads` | writers, readers, loads and an auditor at once |
//!
//! Everything random has a seed, which a failure names. `TITAN_IME_TEST_SEEDS=20` runs twenty times as many.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    unreachable_pub,
    missing_docs,
    reason = "tests fail by panicking; their helpers are for this binary alone"
)]

mod choosing;
mod known_bugs;
mod loads;
mod locks;
mod model;
mod place;
mod pruning;
mod reads;
mod threads;
