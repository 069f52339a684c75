//! Reads at a timestamp: points, and scans in both directions.
//!
//! Assumes that the timestamp is settled and held: see [`order`](crate::order). Then what is found does not depend on when the engine is read, so reads
//! need no snapshots of the engine.

mod dead_rows;
mod deferred_values;
mod engine_scan;
mod key_versions;
mod locked_keys;
mod scan;
mod snapshot;

pub use engine_scan::Row;
pub use key_versions::{KeyVersions, StoredVersion};
pub use scan::Scan;
pub use snapshot::Snapshot;
