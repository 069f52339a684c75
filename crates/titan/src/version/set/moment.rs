//! The moment at which a database is shown.

#[cfg(feature = "serde")]
use serde::Serialize;

/// The moment of its history at which a database is shown, if another process may be writing it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize))]
#[non_exhaustive]
pub struct Moment {
    /// The sequence number of the last operation that is visible.
    pub sequence: u64,
    /// The number of the MANIFEST that names the files.
    pub manifest: u64,
    /// The time, in seconds since the beginning of 1970, UTC.
    pub unix_seconds: u64,
}
