//! State that all parts of an open database share.
//!
//! [`shared`] has one field for each owner:
//!
//! | file | owns |
//! |---|---|
//! | [`opening`] | options, clock and listeners of the opening, and its part in an `Env`; also statistics, and [times of writes](write_times) |
//! | [`lifecycle`], [`failure`] | whether the database is open; why writes are refused, and jobs [postponed] |
//! | [`files`] | the directory, its lock, open files |
//! | [`pins`] | snapshots, iterators and versions in use, and the names of [dropped families](dropped_families) |
//! | [`family`], [`new_family`] | a column family as readers, writers and jobs share it; its first state |
//! | [`state`] | state under the state lock: memtables to flush, [running jobs](running_jobs), whether [compactions are due](due_compactions), [room] on the device, evaluations of families, whether a user [writes](recent_writes), and since when [none does](idle) |
//! | [`signals`] | how threads wake each other |
//! | [`admission`] | whether writes are stalled and jobs must hurry, whether [WAL files are too large](wal_limit), and [notifying](stall_notifier) listeners; readable without the state lock |
//!
//! Promises: no method here does I/O under the state lock, and none calls a job. Assumes: locks are
//! taken in the order that the [module](super) gives.

pub(super) mod admission;
pub(super) mod dropped_families;
pub(super) mod due_compactions;
pub(super) mod failure;
pub(super) mod family;
pub(super) mod files;
pub(super) mod idle;
pub(super) mod lifecycle;
pub(super) mod new_family;
pub(super) mod opening;
pub(super) mod pins;
pub(super) mod postponed;
pub(super) mod recent_writes;
pub(super) mod room;
pub(super) mod running_jobs;
pub(super) mod shared;
pub(super) mod signals;
pub(super) mod stall_notifier;
pub(super) mod state;
pub(super) mod wal_limit;
pub(super) mod write_times;
