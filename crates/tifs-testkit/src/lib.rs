//! Operations on file systems as values and as text, their model, and the tests of TiFS that are
//! made of them.
//!
//! | module | has |
//! |---|---|
//! | [`users`] | users as which a thread makes system calls |
//! | [`ops`] | the language: operations as values and as text, their generators, reduction |
//! | [`model`] | what a volume should do |
//! | [`place`] | where volumes are stored |
//! | [`fickle`] | a store with moods |
//! | [`device`] | a store with a log, on a device of limited size |
//! | [`etcd`] | a cluster of etcd, whose members can be killed and stopped |
//! | [`calls`] | operations as calls of a `FileSystem` |
//! | [`contents`] | everything that a volume has, for comparisons |
//! | [`lockstep`] | volume and model side by side |
//! | [`crash`] | the process or the machine stops, at every operation of the disk |
//! | [`faults`] | operations of the disk fail, or it is full |
//! | [`moods`] | each call of the store fails once |
//! | [`threads`] | several threads on a volume |
//! | [`system`] | operations as system calls, on two file systems in step |
//! | [`regression`] | operations and what they must survive, as text |
//! | [`failure`] | failed checks |
//!
//! One language has two appliers: [`calls::World`] and [`system::Performer`].

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    missing_docs,
    reason = "tests fail by panicking; fields are named as those of the calls"
)]

pub mod calls;
pub mod contents;
pub mod crash;
pub mod device;
pub mod etcd;
pub mod failure;
pub mod faults;
pub mod fickle;
pub mod lockstep;
pub mod model;
pub mod moods;
pub mod ops;
pub mod place;
pub mod regression;
pub mod system;
pub mod threads;
pub mod users;
