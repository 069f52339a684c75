//! Simulated file system, crash images and models for testing Titan.
