//! Finding old versions that may be dropped, and having them dropped soon.
//!
//! The compaction [filter](crate::old_versions) has the rule for what may be dropped. This module sees to it
//! that compactions come by:
//!
//! - A collector describes each table that is written: how many versions it has, and from which safe point
//!   on how many of them may be dropped, with their bytes.
//! - The engine is told the safe point. It compacts tables by itself when the bytes that may be dropped are a
//!   considerable part of all (`docs/adr/0038-table-properties-collectors.md`).
//! - A thread of the store, the *sweeper*, moves the safe point by time. It compacts ranges in which many
//!   *entries* may be dropped although they have few bytes, such as rows that are dead, and ranges that no
//!   compaction has reached for a long time.
//!
//! Promises that every version is dropped at last that a sweep finds to be worth it. What is left is a tenth
//! of the entries of a range at most, or what tables do not show: a version that only tables above its own
//! supersede. [`Store::drop_old_versions`](crate::Store::drop_old_versions) leaves nothing.
//!
//! | file | owns |
//! |---|---|
//! | `retained` | for how long versions have been retained, in real time |
//! | `sweeps` | one sweep |
//! | `sweeper` | the thread |

mod retained;
mod sweeper;
mod sweeps;

pub(crate) use sweeper::Sweeper;
pub(crate) use sweeps::Sweeps;
pub use sweeps::{SweepStats, Swept};
