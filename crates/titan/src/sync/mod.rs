//! The types by which threads interact: locks, condition variables, atomics, swapped cells,
//! threads.
//!
//! Owns the [`cell`]s alone: in every ordinary build the others are the types of `parking_lot` and
//! the standard library themselves. Built with `--cfg loom` or `--cfg shuttle` they are those of a
//! model checker, with the same interface, so that the engine itself runs under a scheduler that
//! chooses the thread that runs next after each step: every schedule of a small model, or random
//! ones that a seed reproduces.
//!
//! Promises that the interface is the same in both builds: locks without poisoning, and a condition
//! variable that takes the guard by reference. Assumes that no thread waits for another by any
//! other means, or the scheduler would wait for ever; where a dependency does so (`open_files.rs`),
//! a comment says so.
//!
//! Not here: counters that decide nothing ([`stats`](crate::stats), the hits of the block cache),
//! which would only add steps; the file system of the operating system, which no model uses; and
//! [`Arc`](std::sync::Arc), which a model checker's own cannot replace where it has a trait object.

mod cell;
#[cfg(any(loom, shuttle))]
mod modelled;

pub(crate) use cell::{ArcSwap, ArcSwapOption};

#[cfg(any(loom, shuttle))]
pub(crate) use modelled::{Condvar, Mutex, MutexGuard, atomic, thread};
#[cfg(all(test, loom))]
pub(crate) use modelled::{model, spawn};

#[cfg(not(any(loom, shuttle)))]
pub(crate) use {
    parking_lot::{Condvar, Mutex, MutexGuard},
    std::sync::atomic,
    std::thread,
};

/// The atomics of lock-free structures. Shuttle shows each thread every store at once, so it would
/// find nothing between two of their steps, and waste schedules on them; loom models just these.
pub(crate) mod lock_free {
    #[cfg(loom)]
    pub(crate) use loom::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
    #[cfg(not(loom))]
    pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
}
