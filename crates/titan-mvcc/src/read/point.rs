//! Looking up versions of one key.

use titan::{ColumnFamily, LazyValue, ReadOptions};

use crate::error::Result;
use crate::format::version::{newest_at, split};
use crate::format::{Kind, encode_key};
use crate::timestamp::Timestamp;

/// What `key` has at `at`. Cost: a point read of the engine; if the newest version is a lock, an iterator
/// that steps over the locks.
pub(crate) fn value_at(
    family: &ColumnFamily,
    key: &[u8],
    at: Timestamp,
) -> Result<Option<LazyValue>> {
    let encoded = encode_key(key);
    let from = newest_at(&encoded, at);
    let Some((found, value)) = family.first_in_prefix(&from, &encoded)? else {
        return Ok(None);
    };
    match split(&found)?.1.kind {
        Kind::Put => Ok(Some(value)),
        Kind::Delete => Ok(None),
        Kind::Lock | Kind::Rollback => value_before_locks(family, &encoded, &found),
    }
}

/// The value of the newest put or deletion after the version at `from`.
fn value_before_locks(
    family: &ColumnFamily,
    encoded: &[u8],
    from: &[u8],
) -> Result<Option<LazyValue>> {
    let mut cursor = family.iter(&ReadOptions {
        prefix: Some(encoded.to_vec()),
        ..ReadOptions::default()
    })?;
    cursor.seek(from)?;
    while cursor.valid() {
        match split(cursor.key())?.1.kind {
            Kind::Put => return Ok(Some(cursor.lazy_value()?)),
            Kind::Delete => return Ok(None),
            Kind::Lock | Kind::Rollback => cursor.next()?,
        }
    }
    Ok(None)
}
