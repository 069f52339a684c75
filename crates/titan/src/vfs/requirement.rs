//! Needs of tests that a machine may lack.
//!
//! In the workspace the test kit judges them, and may demand them. In the package alone, which does
//! not have the test kit, a test without them passes.

#[cfg(workspace)]
pub(crate) use titan_testkit::requirement::{ROCKSDB_TOOLS, met};

#[cfg(not(workspace))]
pub(crate) const ROCKSDB_TOOLS: &str = "RocksDB's programs (Debian: rocksdb-tools)";

/// The finding; prints it if something is missing.
#[cfg(not(workspace))]
pub(crate) fn met<T, E: std::fmt::Display>(
    needed: &str,
    found: std::result::Result<T, E>,
) -> Option<T> {
    let missing = |why: &E| println!("skipped: needs {needed}: {why}");
    found.inspect_err(missing).ok()
}
