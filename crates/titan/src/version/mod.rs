//! Versions: the files of a database, and the MANIFEST that names them.
//!
//! * A [`VersionEdit`](edit::VersionEdit) is one change: files added and removed, a family created
//!   or dropped, a WAL no longer needed. The MANIFEST is a log of edits; `CURRENT` names it.
//! * A [`Version`] is one immutable state of a family's files. Readers pin it while they read;
//!   installing the next one never blocks them or changes it (VER-1).
//! * The [`VersionSet`] applies edits: it builds the next version, makes the edit durable, and only
//!   then releases what the edit replaced (BLOB-2).
//!
//! A thread that installs an edit holds the set's lock throughout; readers and writers never take
//! it.

pub(crate) mod blob_set;
pub(crate) mod builder;
mod capture;
mod database_record;
pub(crate) mod edit;
pub(crate) mod files;
pub(crate) mod level;
pub(crate) mod level_iterator;
mod logs_since;
mod manifest;
mod manifest_reader;
mod manifest_writer;
#[cfg(all(test, loom))]
mod models;
mod moment;
#[cfg(any(test, debug_assertions, fuzzing))]
pub(crate) mod recorded;
#[cfg(test)]
mod recorded_tests;
mod recovery;
mod set;
mod stored_values;
pub(crate) mod tombstones;
mod unknown_pointers;
#[expect(
    clippy::module_inception,
    reason = "a version is what the module is about"
)]
pub(crate) mod version;
mod watch;

pub(crate) use capture::Capture;
pub(crate) use database_record::DatabaseRecord;
pub(crate) use files::{ObsoleteFiles, TableFile};
pub(crate) use logs_since::LogsSince;
pub(crate) use manifest::read_current;
pub(crate) use manifest_reader::ManifestReader;
pub use moment::Moment;
pub(crate) use recovery::{Rebuilt, RecoveredState, choose_comparator};
pub(crate) use set::{Counters, FamilyVersions, VersionSet};
pub(crate) use stored_values::StoredValues;
pub(crate) use unknown_pointers::unknown_pointers;
pub(crate) use version::Version;
pub(crate) use watch::Watch;
