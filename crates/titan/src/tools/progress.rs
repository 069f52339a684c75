//! How far a tool is that reads whole databases.

use serde::Serialize;

/// Told now and then by tools that take long.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Progress {
    /// Bytes of files done so far.
    pub done_bytes: u64,
    /// Bytes of all files to be read.
    pub total_bytes: u64,
    /// The name of the file being read, or read last.
    pub file: String,
}
