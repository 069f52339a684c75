//! The names of the column families.

/// The family of locks.
pub(crate) const LOCKS: &str = "locks";
/// The family of versions.
pub(crate) const VERSIONS: &str = "versions";
