//! Which moment of a database is shown.

use serde::Serialize;

/// The moment of a database's history that is shown of it where another process may be writing it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Moment {
    /// The sequence number of the last operation that is there.
    pub sequence: u64,
    /// The number of the MANIFEST that says which files there were.
    pub manifest: u64,
    /// When it was, in seconds since the beginning of 1970, UTC.
    pub unix_seconds: u64,
}
