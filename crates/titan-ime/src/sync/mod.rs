//! The types by which threads meet in what reads and writes share: locks, atomics, swapped cells.
//!
//! Owns the [`cell`] alone: in every ordinary build the others are the types of `parking_lot` and the standard library.
//! Built with `--cfg loom` or `--cfg shuttle` they are those of a model checker, with the same interface, as in the
//! engine (`titan/src/sync`).
//!
//! Not here: counters and lists that decide nothing about what a read finds (`stats`, `costs`, `memory`, `cold_scans`,
//! `gaps`), and the thread of the maintenance. Nor `tail`: its slots are cells of the standard library, which no model
//! checker sees.

mod cell;
#[cfg(any(loom, shuttle))]
mod modelled;

pub(crate) use cell::Cell;

#[cfg(any(loom, shuttle))]
pub(crate) use modelled::{Mutex, MutexGuard, atomic};

#[cfg(not(any(loom, shuttle)))]
pub(crate) use {
    parking_lot::{Mutex, MutexGuard},
    std::sync::atomic,
};
