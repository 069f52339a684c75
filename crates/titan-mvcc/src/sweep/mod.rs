//! Sweeps: moving the safe point by time, and having old versions dropped soon.
//!
//! The compaction [filter](crate::old_versions) decides which versions may be dropped. This module
//! causes the compactions:
//!
//! - A collector records about each table that is written how many of its versions may be dropped
//!   from which safe point on, and their bytes.
//! - The engine knows the safe point. It compacts tables by itself when droppable bytes are a
//!   considerable part of all (`docs/adr/0038-table-properties-collectors.md`).
//! - A thread of the store, the *sweeper*, moves the safe point by time. It compacts ranges with
//!   many droppable *entries* of few bytes, such as dead rows, and ranges with droppable versions
//!   that no compaction has reached for long.
//!
//! Promises that every version is dropped at last that a sweep finds worth a compaction. At most a
//! tenth of the entries of a range stay, and versions that only tables above their own supersede,
//! which the records do not show. [`Store::drop_old_versions`](crate::Store::drop_old_versions)
//! leaves none.
//!
//! | file | owns |
//! |---|---|
//! | `retained` | the age of versions in real time |
//! | `sweeps` | one sweep |
//! | `sweeper` | the thread |

mod retained;
mod sweeper;
mod sweeps;

pub(crate) use sweeper::Sweeper;
pub(crate) use sweeps::Sweeps;
pub use sweeps::{SweepStats, Swept};
