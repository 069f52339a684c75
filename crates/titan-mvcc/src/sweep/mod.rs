//! Finding old versions that may be dropped, and having them dropped soon.
//!
//! The compaction [`filter`](crate::filter) has the rule for what may be dropped. This module sees to it
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
//! | `properties` | what is recorded about a table |
//! | `collector` | counting it while the table is written |
//! | `tables` | which ranges are worth a compaction |
//! | `retained` | for how long versions have been retained, in real time |
//! | `pass` | one sweep |
//! | `sweeper` | the thread |

mod collector;
mod pass;
mod properties;
mod retained;
mod sweeper;
mod tables;

pub(crate) use collector::CollectorFactory;
pub(crate) use pass::Sweeps;
pub use pass::{SweepStats, Swept};
pub(crate) use sweeper::Sweeper;
pub(crate) use tables::Tables;
