//! Reads at a timestamp: points, and scans in both directions.
//!
//! Assumes that the timestamp is settled and held: see [`commit_order`](crate::commit_order) and
//! [`safe_point`](crate::safe_point). Then what is found does not depend on when the engine is read, so reads
//! need no snapshots of the engine.

mod locked;
pub(crate) mod point;
mod scan;
mod snapshot;
mod stats;
mod versions;

pub use scan::{Direction, Row, Scan};
pub use snapshot::Snapshot;
pub use stats::ReadStats;
pub(crate) use stats::ReadTotals;
pub use versions::{KeyVersions, StoredVersion};
