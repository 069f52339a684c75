//! Tests of several parts of the database together, without a stopped thread (see
//! [races](super::races)).

pub(super) mod clock;
#[cfg(not(any(loom, shuttle)))]
mod conditions;
#[cfg(not(any(loom, shuttle)))]
#[cfg(workspace)]
mod golden;
mod huge_files;
#[cfg(loom)]
mod models;
#[cfg(not(any(loom, shuttle)))]
#[cfg(workspace)]
mod scheduler;
