//! Simulated file system, crash images and models for testing Titan.
pub mod history;
pub mod model;
pub mod ops;
pub mod sim;
