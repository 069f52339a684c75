//! Looking up versions of one key.

use titan::{ColumnFamily, LazyValue, ReadOptions};

use super::ReadStats;
use crate::error::Result;
use crate::format::version::{newest_at, put_timestamp, split};
use crate::format::{Kind, encode_key};
use crate::timestamp::Timestamp;

/// What `key` has at `at`. Adds what it costs to `stats`. Cost: a point read of the engine; if the newest version is a
/// lock, an iterator that steps over the locks.
pub(crate) fn value_at(
    family: &ColumnFamily,
    key: &[u8],
    at: Timestamp,
    stats: &mut ReadStats,
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
    value_from(family, &from, len, stats)
}

/// The same of an encoded key.
pub(super) fn value_at_encoded(
    family: &ColumnFamily,
    encoded: &[u8],
    at: Timestamp,
    stats: &mut ReadStats,
) -> Result<Option<LazyValue>> {
    value_from(family, &newest_at(encoded, at), encoded.len(), stats)
}

/// The same from where the versions at the timestamp begin, of which the first `len` bytes are the encoded key.
fn value_from(
    family: &ColumnFamily,
    from: &[u8],
    len: usize,
    stats: &mut ReadStats,
) -> Result<Option<LazyValue>> {
    let encoded = from.get(..len).unwrap_or_default();
    stats.seek += 1;
    let Some((found, value)) = family.first_in_prefix(from, encoded)? else {
        return Ok(None);
    };
    match split(&found)?.1.kind {
        Kind::Put => {
            stats.processed += 1;
            Ok(Some(value))
        }
        Kind::Delete => {
            stats.dead_rows_skipped += 1;
            Ok(None)
        }
        // MUTANT: a lock hides the value from point reads.
        Kind::Lock
            if mutant!(
                "lock-hides-the-value",
                "-p titan-campaigns --test it mvcc::"
            ) =>
        {
            Ok(None)
        }
        Kind::Lock | Kind::Rollback => value_before_locks(family, encoded, &found, stats),
    }
}

/// The value of the newest put or deletion after the version at `from`.
fn value_before_locks(
    family: &ColumnFamily,
    encoded: &[u8],
    from: &[u8],
    stats: &mut ReadStats,
) -> Result<Option<LazyValue>> {
    let mut cursor = family.iter(&ReadOptions {
        prefix: Some(encoded.to_vec()),
        ..ReadOptions::default()
    })?;
    stats.seek += 1;
    cursor.seek(from)?;
    while cursor.valid() {
        match split(cursor.key())?.1.kind {
            Kind::Put => {
                stats.processed += 1;
                return Ok(Some(cursor.lazy_value()?));
            }
            Kind::Delete => {
                stats.dead_rows_skipped += 1;
                return Ok(None);
            }
            Kind::Lock | Kind::Rollback => {
                stats.versions_skipped += 1;
                stats.next += 1;
                cursor.next()?;
            }
        }
    }
    Ok(None)
}
