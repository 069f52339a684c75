//! The part of the machine that jobs may take.
//!
//! | file | owns |
//! |---|---|
//! | [`lack_of_room`] | room on the device: how much jobs may fill, and jobs that wait for more |
//! | [`lack_of_descriptors`] | file descriptors: jobs that are retried when there is one |
//! | [`memory_fit`] | the kernel's page cache: whether the database fits in memory |
//! | [`priority`] | the threads and the memory of the `Env`: how urgent jobs are among those of other databases |
//! | [`yielding`], [`niceness`] | the processor and the device: which jobs yield to reads, and when; the niceness of their threads |
//!
//! Promises: a lack stops no job for good, and stops writes only where they would have to wait for
//! it. Assumes: jobs ask before they begin.

pub(super) mod lack_of_descriptors;
pub(super) mod lack_of_room;
pub(super) mod memory_fit;
pub(super) mod niceness;
mod priority;
pub(super) mod yielding;
