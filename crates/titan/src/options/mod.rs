//! What a user may set. One struct per subject, each with a validator; names and meanings are
//! RocksDB's where it has the same knob.

mod column_family;
mod database;
pub(crate) mod file;
mod operation;

pub use column_family::ColumnFamilyOptions;
pub use database::DbOptions;
pub use operation::{CompactRangeOptions, ReadOptions, WriteOptions};

use crate::error::{Error, Result};

/// Fails with `InvalidOption` unless `ok`.
fn require(ok: bool, option: &str, rule: &str, value: impl std::fmt::Display) -> Result<()> {
    if ok {
        return Ok(());
    }
    Err(Error::invalid_option(format!("{option} must be {rule}, not {value}")))
}
