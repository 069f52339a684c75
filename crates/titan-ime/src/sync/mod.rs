//! The types by which threads meet: locks, atomics, swapped cells.
//!
//! The [`cell`] is this module's own. The others are the types of `parking_lot` and the standard
//! library, or those of a model checker under `--cfg loom` and `--cfg shuttle`, with the same
//! interface, as in the engine (`titan/src/sync`).
//!
//! Not here: counters and lists that do not decide what a read finds (`stats`, `costs`, `memory`,
//! `cold_scans`, `gaps`), and the thread of the maintenance. Nor `tail`: its slots are cells of the
//! standard library, which no model checker sees.

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
