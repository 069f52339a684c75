//! The campaigns, small and seeded.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod differential;
mod metamorphic;
