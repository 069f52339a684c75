//! Tests of the engine through its public face.

mod bad_batches;
mod basics;
