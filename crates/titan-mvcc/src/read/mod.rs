//! Reads at a timestamp: points, and scans in both directions.
//!
//! Assumes that the timestamp is final and held (see [`order`](crate::order)). Then the result does
//! not depend on the time of the read, so reads need no snapshots of the engine.
//!
//! | file | owns |
//! |---|---|
//! | `snapshot` | a store as of one timestamp; point reads |
//! | `key_versions` | all stored versions of a key |
//! | `row` | rows of scans |
//! | `dead_rows` | runs of dead rows, for the range source |
//! | `engine_scan` | scans of the engine |
//! | `locked_keys`, `deferred_values` | locked keys of a scan; values that are looked up later |
//! | `scan` | scans that combine the engine and a range source |

mod dead_rows;
mod deferred_values;
mod engine_scan;
mod key_versions;
mod locked_keys;
mod row;
mod scan;
mod snapshot;

pub use key_versions::{KeyVersions, StoredVersion};
pub use row::{Row, RowRef, RowValue};
pub use scan::Scan;
pub use snapshot::Snapshot;
