//! Tests of the engine through its public face.

mod basics;
mod concurrency;
mod iterators;
mod limits;
mod model;
mod separation;
mod support;
