//! Reads at a timestamp: points, and scans in both directions.
//!
//! Assumes that the timestamp is settled and held: see [`commit_order`](crate::commit_order) and
//! [`safe_point`](crate::safe_point). Then what is found does not depend on when the engine is read, so reads
//! need no snapshots of the engine.

mod dead_rows;
mod deferred;
mod locked;
pub(crate) mod point;
mod scan;
mod snapshot;
mod source;
mod stats;
mod stitched;
mod versions;

pub use scan::{Direction, Row};
pub use snapshot::Snapshot;
pub use source::{Found, Part, PartRequest, RangeSource, SourceRow};
pub use stats::ReadStats;
pub(crate) use stats::ReadTotals;
pub use stitched::Scan;
pub use versions::{KeyVersions, StoredVersion};
