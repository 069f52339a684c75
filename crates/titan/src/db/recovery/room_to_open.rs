//! The room that an opening needs on the device beside tables, for the error where there is none.

use crate::error::{Error, ErrorKind};
use crate::version::VersionSet;

/// Bytes of CURRENT, IDENTITY, a WAL file and the part of OPTIONS that belongs to no family, with
/// the blocks that they take.
const SMALL_FILES: u64 = 20 << 10;

/// Bytes of a family in OPTIONS.
const OPTIONS_OF_FAMILY: u64 = 4 << 10;

/// The error of an opening, with the room that an opening for writing needs if that is lacking.
pub(super) fn with_need(error: Error, versions: &VersionSet) -> Error {
    if error.kind() != ErrorKind::NoSpace {
        return error;
    }
    let families = versions.families().len() as u64;
    let options = families.saturating_mul(OPTIONS_OF_FAMILY);
    let need = versions.state_bytes().saturating_add(options) + SMALL_FILES;
    error.context(format!(
        "opening for writing needs {} KiB on the device, for a MANIFEST, OPTIONS and a WAL file; \
         opening to read needs none",
        need.div_ceil(1 << 10)
    ))
}
