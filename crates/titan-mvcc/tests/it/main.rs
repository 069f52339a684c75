//! Tests of the store through its public interface.
//!
//! | module | has |
//! |---|---|
//! | `setup` | directories of stores, a clock that jumps, helpers |
//! | `opening` | opening, refusing what is no store |
//! | `read_only` | reading a store alone, the versions of a key, checks |
//! | `timestamps` | the local oracle: clocks that jump, restarts |
//! | `reads` | reads at a timestamp and what scans cost |
//! | `transactions` | conflicts, own writes, locks |
//! | `percolator` | locks of Percolator transactions on disk |
//! | `two_phase`, `pessimistic` | these transactions, also without owners |
//! | `hot_locks` | rows that are locked often: what reads of them cost, which locks stay |
//! | `layers` | the laws of modules |
//! | `limits` | times and timestamps at their limits |
//! | `old_versions` | the safe point, holds, what is dropped |
//! | `sweeps` | what tables say about old versions, the safe point by time, what is compacted |
//! | `second_actors` | another actor in the middle of a read or of a commit |
//! | `space` | the report on space; overwriting everything again and again |
//! | `golden` | Percolator calls and resolving as text, in all orders of several actors |
//! | `clients` | clients of the Percolator calls that resolve locks themselves, with threads |
//! | `histories` | random histories of several threads, checked for snapshot isolation |
//! | `faults` | the disk fails in either phase of a commit |
//! | `crash` | the machine stops at any operation of the disk |
//! | `threads` | several threads: what was acknowledged is seen, sums hold |
//! | `forks` | children that are forked while a store is open |
//!
//! Random histories against a model, with clients and waits, are the campaign `mvcc` of
//! `titan-campaigns`.
//!
//! Everything random has a seed, which a failure names. `TITAN_MVCC_TEST_SEEDS=20` runs twenty
//! times as many.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    unreachable_pub,
    missing_docs,
    reason = "tests fail by panicking; their helpers are for this binary alone"
)]

mod accounts;
mod clients;
mod crash;
mod faults;
mod forks;
mod golden;
mod histories;
mod hot_locks;
mod layers;
mod limits;
mod old_versions;
mod opening;
mod percolator;
mod pessimistic;
mod read_only;
mod reads;
mod second_actors;
mod setup;
mod space;
mod sweeps;
mod threads;
mod timestamps;
mod transactions;
mod two_phase;
