//! Looking up versions of one key.

use titan::{ColumnFamily, LazyValue, ReadOptions};

use crate::error::Result;
use crate::format::version::{put_timestamp, split};
use crate::format::{Kind, encode_key};
use crate::timestamp::Timestamp;

/// What `key` has at `at`. Cost: a point read of the engine; if the newest version is a lock, an iterator
/// that steps over the locks.
pub(crate) fn value_at(
    family: &ColumnFamily,
    key: &[u8],
    at: Timestamp,
) -> Result<Option<LazyValue>> {
    // MUTANT: a point read misses what was committed at its own timestamp.
    let at = match mutant!(
        "point-read-one-too-early",
        "-p titan-campaigns --test it mvcc::"
    ) {
        true => at.previous(),
        false => at,
    };
    let mut from = encode_key(key);
    let len = from.len();
    put_timestamp(&mut from, at);
    let encoded = from.get(..len).unwrap_or_default();
    let Some((found, value)) = family.first_in_prefix(&from, encoded)? else {
        return Ok(None);
    };
    match split(&found)?.1.kind {
        Kind::Put => Ok(Some(value)),
        Kind::Delete => Ok(None),
        // MUTANT: a lock hides the value from point reads.
        Kind::Lock
            if mutant!(
                "lock-hides-the-value",
                "-p titan-campaigns --test it mvcc::"
            ) =>
        {
            Ok(None)
        }
        Kind::Lock => value_before_locks(family, encoded, &found),
    }
}

/// The value of the newest version after the lock at `from` that is no lock.
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
            Kind::Lock => cursor.next()?,
        }
    }
    Ok(None)
}

/// When the newest version of `key` was committed, whatever it is. Cost: a point read of the engine.
pub(crate) fn newest_commit(family: &ColumnFamily, key: &[u8]) -> Result<Option<Timestamp>> {
    let encoded = encode_key(key);
    let found = family.first_in_prefix(&encoded, &encoded)?;
    found
        .map(|(found, _)| Ok(split(&found)?.1.commit))
        .transpose()
}
