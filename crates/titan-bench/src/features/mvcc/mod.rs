//! The store of versions, `titan-mvcc`, beside the engine without versions, and beside Badger.
//!
//! | module | compares |
//! |---|---|
//! | `rows` | nothing: the rows of all comparisons, and how they come into a store |
//! | `points` | point reads of the newest version with gets of the engine |
//! | `commits` | commits of transactions with write batches |
//! | `scans` | scans over many versions with scans over one, and dead rows with the engine's steps |
//! | `badger` | Badger, in a process of its own |
//!
//! Calls of one thread are compared by its processor time, which other programs of the machine
//! change little; commits by that of all threads, and beside Badger by the clock.

mod badger;
mod commits;
mod points;
mod rows;
mod scans;

pub(in crate::features) use commits::run as commits;
pub(in crate::features) use points::run as points;
pub(in crate::features) use scans::run as scans;
