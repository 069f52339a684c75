//! The entries that are worth saving.

use titan::internals::format::{ParsedInternalKey, ValueType, each_pointer};
use titan::{Error, Result};

/// Whether an entry can be written to a table again.
pub(crate) fn sound_entry(ikey: &[u8], value: &[u8]) -> Result<()> {
    match ParsedInternalKey::parse(ikey)?.value_type {
        ValueType::RangeDeletion => Err(Error::corruption("range tombstone among point entries")),
        value_type => each_pointer(value_type, value, |_| Ok(())),
    }
}
