//! The versions of all families, and the MANIFEST.
//!
//! Owns the [version set](version_set::VersionSet): the current version of each family, the older
//! ones that readers still pin, the counters of numbers, and the MANIFEST's record of the database
//! beside its families. The MANIFEST is a log of edits; `CURRENT` names it.
//!
//! Promises: an edit is durable before a reader can see its changes, and the files that it replaced
//! are released only then (BLOB-2); recovery gives the state that was recorded, or an error with
//! file and offset. Assumes: the caller holds the set's lock while it applies an edit, and the
//! files that an edit adds are durable.

pub(crate) mod builder;
pub(crate) mod capture;
pub(crate) mod counters;
pub(crate) mod database_record;
pub(crate) mod family_versions;
pub(crate) mod logs_since;
pub(crate) mod manifest;
pub(crate) mod manifest_reader;
pub(crate) mod manifest_writer;
pub(crate) mod moment;
#[cfg(any(test, debug_assertions, fuzzing))]
pub(crate) mod recorded;
#[cfg(test)]
mod recorded_tests;
pub(crate) mod recovery;
pub(crate) mod version_set;
