//! Progress of a tool that reads whole databases.

use serde::Serialize;

/// Reported from time to time by tools that take long.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Progress {
    /// Bytes of files done so far.
    pub done_bytes: u64,
    /// Bytes of all files to read.
    pub total_bytes: u64,
    /// The name of the file being read, or read last.
    pub file: String,
}
