//! Tests of the engine through its public face.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod basics;
mod tools;
