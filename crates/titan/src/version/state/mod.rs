//! The files of a family at one moment.
//!
//! Owns [versions](version::Version), which never change, and the state that they share: the
//! description of each table and blob file, levels in pieces, the set of blob files with its sums.
//! A file is deleted after the last version that names it (see [`files`]).
//!
//! Promises: a version costs memory only for the changes of its edit; sums over its files are read,
//! not computed. Assumes: one thread builds versions, in the order of edits. It knows nothing of
//! the MANIFEST.

pub(crate) mod blob_set;
pub(crate) mod files;
pub(crate) mod level;
pub(crate) mod level_iterator;
#[cfg(all(test, loom))]
mod models;
pub(crate) mod stored_values;
pub(crate) mod tombstones;
pub(crate) mod unknown_pointers;
pub(crate) mod version;
pub(crate) mod watch;
