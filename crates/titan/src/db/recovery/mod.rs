//! From the files of a directory to a running database.
//!
//! | file | owns |
//! |---|---|
//! | [`open`] | the order of the steps: lock, MANIFEST, WAL files, new MANIFEST, threads |
//! | [`room_to_open`] | the room that an opening needs, for its error where there is none |
//! | [`unknown_pointers`] | refusing databases whose pointers are not understood |
//! | [`replay`], [`replay_target`], [`kept_memtables`] | reading WAL files; where their entries go |
//! | [`wal_chain`], [`wal_damage`], [`unreplayed`] | how far WAL files continue each other; the handling of damage, and the records left after it |
//!
//! Promises: every acknowledged write that was durable is there, or opening fails; a failed opening
//! leaves a directory that can be opened. Assumes: the caller says whether changes stay in memory.

pub(super) mod kept_memtables;
pub(super) mod open;
pub(super) mod replay;
pub(super) mod replay_target;
pub(super) mod room_to_open;
pub(super) mod unknown_pointers;
pub(super) mod unreplayed;
pub(super) mod wal_chain;
pub(super) mod wal_damage;
