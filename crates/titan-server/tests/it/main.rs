//! Tests of a node through its port.
//!
//! | module | has |
//! |---|---|
//! | `cluster` | a node in a directory, and its clients |
//! | `dynamic` | calls and answers as protobuf's text format |
//! | `recorded` | the recorded calls of `tests/calls` |
//! | `services` | what text cannot say: streams, times, many clients |
//! | `hot_row` | creates in one directory |
//! | `restarts` | what a node has after it was stopped or killed |
//! | `place` | a simulated disk and a clock that a test sets |
//! | `failures` | commits whose write fails |
//! | `full_disk` | a disk that is almost full, and full |
//! | `clocks` | a clock that jumps |
//! | `limits` | malformed and huge requests, deadlines |
//! | `keys` | keys beyond the limit, in every call |
//! | `lanes` | reads that hold up no writes; calls that sleep |
//! | `held_up` | a read that the disk holds up |
//! | `memory` | the memory of requests and answers; clients that do not read, or do not send |
//! | `answers` | the memory of answers beside those of reads |
//! | `left` | a client that has left gets no lock |
//! | `connections` | how many connections there are; clients that do not greet |
//! | `starts` | addresses that a node does not start with; late and full disks |
//! | `openings` | what a node refuses to start with; TLS; metrics |
//! | `examples` | the service in `examples` does what it says |
//! | `layers` | the laws of modules |

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    unreachable_pub,
    missing_docs,
    reason = "tests fail by panicking; their helpers are for this binary alone"
)]

mod answers;
mod clocks;
mod cluster;
mod connections;
mod dynamic;
mod examples;
mod failures;
mod full_disk;
mod held_up;
mod hot_row;
mod keys;
mod lanes;
mod layers;
mod left;
mod limits;
mod memory;
mod openings;
mod place;
mod recorded;
mod restarts;
mod services;
mod starts;
