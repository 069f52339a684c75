//! Dead ranges: stretches of the key space in which no key has a value, as reads have found out.
//!
//! Deleted keys stay until a compaction drops them. An iterator steps over them one by one, and
//! without more each later iterator would do so again: a queue whose first key is taken and
//! deleted, again and again, would cost the square of its length. So an iterator that has stepped
//! over many dead keys in a row says here from where to where, and later ones seek to the end
//! instead, past any entries that the memtables and tables have in between.
//!
//! Owns the ranges of one family, in memory only. Never touches files. Promises that no key of a
//! range that it returns to a reader has a value at the reader's snapshot. Assumes that
//!
//! 1. the leader of the commit queue calls [`DeadRanges::write`] for each group after it knows its
//!    sequence numbers, and before it publishes them, and
//! 2. a reader walks *every* key from the first to the last of a range that it
//!    [adds](DeadRanges::add), in all memtables and tables, and sees everything up to its snapshot:
//!    it has no older memtables than those to which the groups up to that number were written, and
//! 3. a key gets its value by a write alone, and loses it by a write or a compaction filter. A
//!    filter takes it from snapshots for which ranges hold already, but not from readers that have
//!    the tables from before. So a range holds for the [generation](ReadPoint::generation) of
//!    tables that its reader walked, and for later ones.
//!
//! A reader has seen everything that was written up to its snapshot. Later writes are shown to
//! [`DeadRanges::write`], which cuts the range at the key. The only gap is a group that looked for
//! ranges before the reader added its range, and that the reader did not see. So the leader notes
//! the last number of its group *before* it looks whether there are ranges, and a reader says that
//! there are some *before* it reads that number:
//!
//! ```text
//! leader                            reader at snapshot s
//!   looked_to = last of the group     is_any = true
//!   is_any?  then cut                 looked_to <= s?  then nothing was missed: the range is known
//!                                     else it is pending until a reader at a snapshot >= looked_to
//!                                     has walked it again: that one sees what was missed. A key
//!                                     that is written meanwhile ends it
//! ```
//!
//! All four steps are sequentially consistent: if the reader reads an older number, the leader
//! finds that there are ranges.

mod range;
mod ranges;
mod run;
#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests;

pub(crate) use range::{Edge, ReadPoint, Way};
pub(crate) use ranges::DeadRanges;
pub(crate) use run::DeadRun;
