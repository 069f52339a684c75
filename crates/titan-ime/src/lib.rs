//! The in-memory engine: hot ranges of a store of versions, whole in memory, where dead versions go at once.
//!
//! A [`RangeCache`] is opened in place of a [`Store`](titan_mvcc::Store) and has it. Ranges that it was told to
//! [load](RangeCache::load) are answered from memory: points, keys that do not exist, and the parts of scans that are
//! in them. All reads of the store use it by themselves, those of transactions too. It changes no answer: whether
//! a range is held, is being loaded, does not fit or was dropped, every read finds what the engine has.
//!
//! # How it works
//!
//! `docs/adr/0050-range-cache.md` has the reasons.
//!
//! ```text
//!                       directory: the list of segments, swapped whole
//!                                          |
//!  commit -> hook -> log -> segment ---> root, swapped whole <--- reads
//!                              ^            served timestamps
//!                  load, maintenance        leaves -> rows: newest version inline, older ones in a chain
//!                                               -> tail: what was written since the leaf was made
//! ```
//!
//! # What is promised
//!
//! - As long as a segment has a root, the root and the pending writes have every version that is published, but for
//!   what was pruned by the timestamps that the root serves (`segment`, `pending`). A read settles what is pending before
//!   it looks. So at one of these timestamps it finds what the engine has (`read`).
//! - A commit never fails and never waits for I/O or for a load because of the cache. It waits for who applies writes only if half a MiB
//!   of them is pending. If memory is over its limit when writes are applied, segments are dropped (`shared`).
//! - A read applies up to some hundred writes that were published before it. It waits for another thread that applies only if it is
//!   a scan, for half a millisecond, and for threads that copy or exchange a pointer. What it writes of the memory that
//!   other readers write is a reader's lock and a reference count, of the directory and of the root (ADR 55).
//! - The cache's safe point is its own. No hold of the store keeps versions in memory; readers keep what they find
//!   themselves, and nothing that came later (`served`, `row`).
//! - A panic in the hook, or while writes are applied, turns the cache off; the store and all reads go on (`hook`). One in maintenance is counted, and maintenance
//!   goes on, unless one pass after the other panics (`trouble`).
//!
//! It is assumed that nothing but the store writes to its database, that compaction filters are those of the store, and
//! that the versions of a key are written in the order of their timestamps.
//!
//! # Modules
//!
//! The lowest first; each uses only those above it:
//!
//! | module | owns |
//! |---|---|
//! | `sync` | the types by which threads meet |
//! | `memory` | how much memory is taken |
//! | `keys` | ranges of keys; keys that are searched |
//! | `served` | the timestamps that a copy answers at |
//! | `row` | the versions of a key, and which of them go |
//! | `tail` | versions that were written to a leaf since it was made |
//! | `leaf` | rows, packed, with a tail |
//! | `view` | a leaf with its tail, as of one moment |
//! | `root` | the content of a segment at one moment, and how a write makes the next one |
//! | `stats`, `error`, `options` | counters; the one error type; options |
//! | `usage` | what a segment saves and costs |
//! | `segment` | the states of a segment |
//! | `directory` | the list of segments |
//! | `pending` | writes on their way from the hook to the segments |
//! | `gaps` | ranges of dead rows that scans met |
//! | `points` | point reads of keys that are not held |
//! | `interest` | ranges that are not held, and what reads waste there |
//! | `trouble` | panics of maintenance |
//! | `hot_set` | the file with the ranges that are held |
//! | `shared` | what all below share, and dropping segments |
//! | `hook` | the way of writes |
//! | `with_other` | the hook of a program beside that of the cache |
//! | `applier` | the thread that applies pending writes |
//! | `read` | the way of reads |
//! | `cut`, `load` | cutting content into segments; loads |
//! | `range_load` | loads for the program, which take over what is held |
//! | `maintain` | looking at readers, pruning idle rows, splitting and joining |
//! | `keeper` | when maintenance does what; loading gaps |
//! | `chooser` | what is held |
//! | `audit` | comparing memory with the engine, a share of it at each maintenance |
//! | `held` | what is held, for people |
//! | `cache` | the cache as programs use it |
//!
//! # Not there yet
//!
//! - Writes to a held range take processor time of another thread, 0.3 to 2 us a row. If no processor is free, or keys are
//!   random, that slows writers down (ADR 56). Only what is read more than written is worth holding.
//! - A gap of dead rows becomes a segment by the next maintenance, not at once, and costs a look at all of its dead
//!   rows more. Where rows die at its end, it grows with each maintenance.
//! - The limit of memory is compared with what is charged, which a test compares with what the allocator says. No step of a load
//!   charges more than the limit. The little that the cache takes by itself is not charged, nor are pending writes, nor what a load has
//!   of rows that are not in a leaf yet.
//! - While readers keep roots of dropped segments alive, their memory still counts, and more segments may be dropped
//!   than would be needed.
//! - A load never drops a colder range to get memory. All steps are made by the caller. A row is pruned when its last version was read, so a row with very many versions takes memory
//!   for all of them for a moment.
//! - The models of `cargo xtask loom` see the swaps and the locks. The tail of a leaf is tried by threads only.
//! - A load that is being merged when its segment is dropped gives its memory back at its next step.
//! - A failed allocation aborts the process, as it does everywhere in Rust; what is tried are refusals by the limit.

#[macro_use]
extern crate titan_mutants;

mod cache;
mod content;
mod error;
mod maintenance;
#[cfg(all(test, loom))]
mod models;
mod options;
mod reads;
#[cfg(test)]
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
pub use segments::faults::Trouble;
pub use stats::{Dropped, ReadSums, Stats};
