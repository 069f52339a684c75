//! Versions: the files of a database, and the MANIFEST that names them.
//!
//! | folder, the lowest first | owns |
//! |---|---|
//! | [`edit`] | one change, and its bytes in the MANIFEST: files added and removed, a family created or dropped, a WAL file no longer needed |
//! | [`state`] | the files of one family at one moment: a [`Version`], with its levels, tables and blob files |
//! | [`set`] | the versions of all families: applies edits, writes the MANIFEST, recovers from it |
//!
//! Readers pin a [`Version`] while they read; installing the next one never blocks them or changes
//! it (VER-1). The [`VersionSet`] applies edits: it builds the next version, makes the edit
//! durable, and only then releases the files that the edit replaced (BLOB-2).
//!
//! A thread that installs an edit holds the set's lock throughout; readers and writers never take
//! it.

#[allow(missing_docs, reason = "reached through `internals` only")]
pub(crate) mod edit;
#[allow(missing_docs, reason = "reached through `internals` only")]
pub(crate) mod set;
#[allow(missing_docs, reason = "reached through `internals` only")]
pub(crate) mod state;

#[cfg(any(test, fuzzing))]
pub(crate) use set::builder::VersionBuilder;
pub(crate) use set::capture::Capture;
pub use set::counters::Counters;
pub use set::database_record::DatabaseRecord;
pub use set::family_versions::FamilyVersions;
pub use set::logs_since::LogsSince;
pub use set::manifest::read_current;
pub use set::manifest_reader::ManifestReader;
pub use set::moment::Moment;
pub use set::recovery::{Rebuilt, RecoveredState, choose_comparator};
pub use set::version_set::VersionSet;
pub(crate) use state::files::ObsoleteFiles;
pub use state::files::TableFile;
pub(crate) use state::stored_values::StoredValues;
pub use state::unknown_pointers::unknown_pointers;
pub use state::version::Version;
pub(crate) use state::watch::Watch;
