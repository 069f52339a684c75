//! Merging tables downward.
//!
//! | folder, the lowest first | owns |
//! |---|---|
//! | [`building`] | running a compaction: choosing and writing survivors; flushes use it, too |
//! | [`choosing`] | which tables to merge next, so that the tree has its shape, and which of that fits the device |
//!
//! A compaction copies blob pointers unchanged. It moves values only from inline to a blob file, or
//! back if the family separates no more. It reports the records that it drops exactly, as garbage
//! of their blob files (BLOB-3).

#[allow(missing_docs, reason = "reached through `internals` only")]
pub(crate) mod building;
pub(crate) mod choosing;
mod options;
#[cfg(test)]
mod tests;

pub use options::CompactRangeOptions;
