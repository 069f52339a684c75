//! Merging tables downward.
//!
//! * [`levels`] says how large each level should be and which is furthest over its size.
//! * [`picker`] turns that into a [`Compaction`](inputs::Compaction): a value that names inputs and
//!   output level, and can be run anywhere. [`level0_move`] says when level 0 need not be merged.
//! * [`budget`] says which of them fit a device that is nearly full.
//! * [`merge`] decides, entry by entry, what survives: the rules that snapshots, deletions,
//!   single deletions and range deletions impose. [`older_versions`] says what may be below.
//! * [`combine`] makes one entry of merge operands.
//! * [`filter`] runs the [compaction filter](crate::filter) of a family, and [`aged`] says which
//!   tables must be compacted for it.
//! * [`tombstones`] says which tables an idle database compacts to drop tombstones.
//! * [`inlining`] brings values back into tables where values are separated no more.
//! * [`output`] writes the survivors to tables and their large values to blob files, and cuts
//!   tables at what [`grandparents`] says. Flushes use it too. [`job_env`] says where files go,
//!   [`job_output`] what was written.
//! * [`shadows`] estimates what a flush shadows at lower levels, so that compactions drop it soon.
//! * [`job`] runs a compaction and returns the edit that installs it.
//!
//! A compaction copies blob pointers unchanged. It moves values only from inline to a blob file, or
//! back if the family separates no more. What it drops is reported exactly, as garbage of its blob
//! file (BLOB-3).

pub(crate) mod aged;
pub(crate) mod budget;
pub(crate) mod combine;
pub(crate) mod filter;
pub(crate) mod grandparents;
pub(crate) mod inlining;
pub(crate) mod inputs;
pub(crate) mod job;
pub(crate) mod job_env;
pub(crate) mod job_output;
mod level0_move;
pub(crate) mod levels;
pub(crate) mod merge;
pub(crate) mod older_versions;
mod options;
pub(crate) mod output;
pub(crate) mod picker;
pub(crate) mod references;
pub(crate) mod shadows;
#[cfg(test)]
mod tests;
pub(crate) mod tombstones;

pub use options::CompactRangeOptions;
