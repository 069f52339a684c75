//! Tests of the engine through its public face.

mod basics;
mod model;
mod support;
