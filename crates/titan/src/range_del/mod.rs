//! Range deletions in memory: the keys that a set of range tombstones covers, and the tombstones
//! that must be kept.
//!
//! Owns: everything about range tombstones that is not a file format. Never does I/O. Assumes that
//! all keys of one list are in the order of one comparator, the one passed in.
//!
//! A tombstone `[start, end) @ s` deletes entries older than `s` in its range; for a reader at a
//! snapshot only tombstones not newer than the snapshot count. Tombstones as users wrote them
//! overlap; [`FragmentedTombstones`] cuts them at each other's ends, so that one binary search
//! finds all that cover a key:
//!
//! ```text
//! written        a-----------------m @ 9          fragments   [a,d) 9
//!                     d-----h @ 12                            [d,f) 12 9
//!                        f-------------q @ 4                  [f,h) 12 9 4
//!                                                             [h,m) 9 4
//!                                                             [m,q) 4
//! ```
//!
//! | file | concept |
//! |---|---|
//! | `fragmented.rs` | the list, point lookup |
//! | `cursor.rs` | lookup for keys that come in order |
//! | `clip.rs` | a tombstone within the bounds of a file |
//! | `retain.rs` | which tombstones a compaction must write |

mod clip;
mod cursor;
mod fragmented;
mod retain;

#[cfg(test)]
mod tests;

pub(crate) use crate::range_del::clip::clip;
pub(crate) use crate::range_del::cursor::TombstoneCursor;
pub(crate) use crate::range_del::fragmented::Fragment;
pub use crate::range_del::fragmented::FragmentedTombstones;
pub(crate) use crate::range_del::retain::retain;
