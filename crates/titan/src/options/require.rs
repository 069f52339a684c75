//! Rules for the values of options.

use crate::error::{Error, Result};
use crate::format::CompressionType;

/// Fails with `InvalidOption` unless `ok`.
pub(crate) fn require(
    ok: bool,
    option: &str,
    rule: &str,
    value: impl std::fmt::Display,
) -> Result<()> {
    if ok {
        return Ok(());
    }
    Err(Error::invalid_option(format!(
        "{option} must be {rule}, not {value}"
    )))
}

/// Fails with `InvalidOption` for a codec that this build does not have.
pub(crate) fn require_codec(option: &str, codec: CompressionType) -> Result<()> {
    let refused = |e: Error| Error::invalid_option(format!("{option}: {}", e.message()));
    codec.require().map_err(refused)
}
