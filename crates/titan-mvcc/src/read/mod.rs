//! Reads at a timestamp: points, and scans in both directions.
//!
//! Assumes that the timestamp is settled and held: see [`commit_order`](crate::commit_order) and
//! [`safe_point`](crate::safe_point). Then what is found does not depend on when the engine is read, so reads
//! need no snapshots of the engine.

mod dead_rows;
pub(crate) mod point;
mod scan;
mod snapshot;
mod source;
mod stitched;

pub use scan::{Direction, Row, ScanStats};
pub use snapshot::Snapshot;
pub use source::{Found, Part, RangeSource, SourceRow};
pub use stitched::Scan;
