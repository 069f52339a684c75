//! Entries that are not in a table yet, sorted and in memory.
//!
//! Owns: the entries of one column family between two switches, their counters, and the range
//! tombstones written meanwhile. Never touches files. Promises:
//!
//! 1. An entry is visible to every lookup that starts after its [`Memtable::add`] returned, and
//!    never changes or moves. Which entries a reader *should* see is decided by its snapshot: the
//!    caller publishes a sequence number only after all adds up to it have returned, or refuses
//!    them all by [`Memtable::refuse_after`].
//! 2. Adds may run concurrently with each other and with readers. Readers never wait, except while
//!    one of them sorts the range tombstones again after one was added.
//! 3. Keys and values of an iterator point into the memtable, which the iterator keeps alive.
//!
//! It assumes that no two entries share user key, sequence number and type.
//!
//! ```text
//! Memtable
//! |- SkipList   point entries:   user key | sequence, type | value
//! |                                                    (skiplist.rs, arena.rs, mapping.rs)
//! |- TombstoneSet   range tombstones as written + sorted into fragments   (tombstones.rs)
//! |- Counters   entries, deletions
//! |- TombstoneAlarm   who is told of many tombstones                  (tombstone_alarm.rs)
//! |- Age   when the first entry had been written                                   (age.rs)
//! `- Shadowed   an estimate of the bytes that it shadows in older tables          (shadowed.rs)
//! ```
//!
//! All unsafe code of the module is in `arena.rs`, `mapping.rs` and `skiplist.rs`; their interfaces
//! are safe.

mod age;
mod arena;
mod iterator;
mod mapping;
mod shadowed;
mod skiplist;
mod table;
mod tombstone_alarm;
mod tombstones;

#[cfg(test)]
mod concurrency_tests;
#[cfg(all(test, loom))]
mod models;
#[cfg(test)]
mod tests;

pub(crate) use table::{EstimateStart, MANY_TOMBSTONES, Memtable};
