//! Which tables to merge next.
//!
//! Owns these decisions:
//!
//! * [`levels`] says how large each level should be and which is furthest over its size.
//! * [`picker`] turns that into a [`Compaction`](super::building::inputs::Compaction).
//!   [`level0_move`] says when level 0 need not be merged.
//! * [`aged_tables`] says which tables must be compacted for a compaction filter, [`tombstones`]
//!   which an idle database compacts to drop tombstones.
//! * [`budget`] says which of them fit a device that is nearly full.
//!
//! Promises: a choice depends on the version, the options and the circumstances that it is given,
//! and names no table that a running job has marked. Cost: no I/O. Assumes: the caller has the
//! state lock, so that marks do not change meanwhile.

pub(crate) mod aged_tables;
pub(crate) mod budget;
mod level0_move;
pub(crate) mod levels;
pub(crate) mod picker;
pub(crate) mod tombstones;
