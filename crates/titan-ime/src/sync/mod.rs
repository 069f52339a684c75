//! The types by which threads meet in what reads and writes share: locks, atomics, swapped cells.
//!
//! Owns nothing: in every ordinary build these are the types of `parking_lot`, `arc_swap` and the standard library.
//! Built with `--cfg loom` or `--cfg shuttle` they are those of a model checker, with the same interface, as in the
//! engine (`titan/src/sync`).
//!
//! Not here: counters and lists that decide nothing about what a read finds (`stats`, `usage`, `memory`, `interest`,
//! `gaps`), and the thread of the maintenance. Nor `tail`: its slots are cells of the standard library, which no model
//! checker sees.

#[cfg(any(loom, shuttle))]
mod modelled;

#[cfg(any(loom, shuttle))]
pub(crate) use modelled::{ArcSwap, ArcSwapOption, Guard, Mutex, MutexGuard, atomic};

#[cfg(not(any(loom, shuttle)))]
pub(crate) use {
    arc_swap::{ArcSwap, ArcSwapOption, Guard},
    parking_lot::{Mutex, MutexGuard},
    std::sync::atomic,
};
