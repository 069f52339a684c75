//! A range cache: hot ranges of a store of versions, whole in memory. Dead versions leave memory at
//! once.
//!
//! A program opens a [`RangeCache`] in place of a [`Store`](titan_mvcc::Store); the cache owns the
//! store. Reads of a [loaded](RangeCache::load) range are answered from memory: points, absent
//! keys, and the parts of scans within the range. Every read of the store uses the cache, those of
//! transactions too. No answer changes: a read finds the engine's data whether its range is held,
//! is being loaded, does not fit or was dropped.
//!
//! # How it works
//!
//! ```text
//!                       directory: the list of segments, swapped whole
//!                                          |
//!  commit -> hook -> log -> segment ---> root, swapped whole <--- reads
//!                              ^            timestamps at which it answers
//!                  load, maintenance        leaves -> rows: newest version, chain of older ones
//!                                               -> tail: versions written since the leaf was made
//! ```
//!
//! `docs/adr/0050-range-cache.md` has the reasons, `docs/architecture.md` the modules.
//!
//! # Promises
//!
//! - While a segment has a root, the root and the log hold every published version, except those
//!   pruned by the timestamps that the root serves. A read applies the log first, so at a served
//!   timestamp it finds the engine's answer.
//! - The cache never fails a commit. A commit waits for no I/O and no load, and for the applier
//!   only when 512 KiB of writes are pending. Segments are dropped when memory exceeds its limit as
//!   writes are applied.
//! - A read applies at most some hundred pending writes. Scans alone wait for another thread that
//!   applies, for 0.5 ms. A read writes two shared cache lines: lock and count of the directory,
//!   and of the root (ADR 55).
//! - The cache has its own safe point. Holds of the store keep no versions in memory. A reader
//!   keeps the versions that it finds, and no later ones.
//! - A panic in the hook, or while writes are applied, turns the cache off; the store and all reads
//!   go on. A panic in maintenance is counted and survived; five in a row turn the cache off.
//!
//! The cache assumes that only the store writes to its database, that the compaction filters are
//! the store's, and that the versions of a key are written in the order of their timestamps.
//!
//! # Limits
//!
//! - A write to a held range takes 0.3 to 2 us a row of another thread's processor time. Writers
//!   slow down if no processor is free or keys are random (ADR 56). Hold only ranges that are read
//!   more than written.
//! - A gap of dead rows becomes a segment at the next maintenance. Loading it reads all its dead
//!   rows once more. Where rows die at its end, it grows with each maintenance.
//! - Not charged to the limit of memory: the cache's own small structures, pending writes, and rows
//!   of a load that are not in a leaf yet. No step of a load charges more than the limit.
//! - Roots that readers keep of dropped segments still count, so more segments may be dropped than
//!   necessary.
//! - A load drops no colder range, and runs in its caller's thread. It prunes a row when it has
//!   read the row's last version, so it keeps all versions of one row for a moment. A load whose
//!   segment is dropped while it merges frees its memory at its next step.
//! - The models of `cargo xtask loom` cover swaps and locks; only tests with threads cover the tail
//!   of a leaf.
//! - A failed allocation aborts the process, as everywhere in Rust. Tests refuse memory by the
//!   limit instead.

/// The example of the first page is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Pages;

#[macro_use(mutant)]
extern crate titan;

mod cache;
mod content;
mod error;
#[cfg(test)]
#[cfg(workspace)]
mod golden_tests;
mod maintenance;
#[cfg(all(test, loom))]
mod models;
mod options;
mod reads;
#[cfg(test)]
#[cfg(workspace)]
mod refusals_tests;
#[cfg(shuttle)]
pub mod scheduled;
mod segments;
mod stats;
mod sync;
mod writes;

pub use cache::RangeCache;
pub use error::{Error, Result};
pub use maintenance::audit::AuditReport;
pub use maintenance::held_ranges::{HeldRange, Remembered};
pub use maintenance::range_load::Load;
pub use maintenance::segment_load::Progress;
pub use options::CacheOptions;
pub use segments::faults::Faults;
pub use stats::{Dropped, ReadSums, Stats};
