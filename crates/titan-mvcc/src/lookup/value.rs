//! The value of one key at a timestamp.

use titan::{ColumnFamily, LazyValue, ReadOptions};

use super::stats::ReadStats;
use crate::error::Result;
use crate::format::version::{newest_at, put_timestamp, split};
use crate::format::{Kind, LastChange, LockValue, encode_key};
use crate::timestamp::Timestamp;

/// Versions without effect that a read steps over before it asks a lock for the last change.
pub(crate) const MAX_STEPS: u32 = 8;

/// The value of `key` at `at`. Adds its cost to `stats`. Cost: a point read of the engine, a second
/// one if the newest version is a lock. If that is a rollback record, an iterator steps over them.
pub(crate) fn value_at(
    family: &ColumnFamily,
    key: &[u8],
    at: Timestamp,
    stats: &mut ReadStats,
) -> Result<Option<LazyValue>> {
    let at = match mutant!(point_read_one_too_early) {
        true => at.previous(),
        false => at,
    };
    let mut from = encode_key(key);
    let len = from.len();
    put_timestamp(&mut from, at);
    value_from(family, &from, len, stats)
}

/// The value of an encoded key at `at`.
pub(crate) fn value_at_encoded(
    family: &ColumnFamily,
    encoded: &[u8],
    at: Timestamp,
    stats: &mut ReadStats,
) -> Result<Option<LazyValue>> {
    value_from(family, &newest_at(encoded, at), encoded.len(), stats)
}

/// The value from a seek key, of which the first `len` bytes are the encoded key.
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
    let (_, version) = split(&found)?;
    match version.kind {
        Kind::Put => {
            stats.processed += 1;
            Ok(Some(value))
        }
        Kind::Delete => {
            stats.dead_rows_skipped += 1;
            Ok(None)
        }
        Kind::Lock if mutant!(lock_hides_the_value) => Ok(None),
        Kind::Lock => {
            let lock = LockValue::read(&value.fetch()?, version.commit);
            match value_below_lock(family, encoded, lock.last_change, stats)? {
                Below::Found(value) => {
                    stats.versions_skipped += 1;
                    Ok(value)
                }
                Below::Unknown => step_over_locks(family, encoded, &found, true, stats),
                Below::Gone => step_over_locks(family, encoded, &found, false, stats),
            }
        }
        Kind::Rollback => step_over_locks(family, encoded, &found, true, stats),
    }
}

/// The result of following a lock.
pub(crate) enum Below {
    /// The value of its key.
    Found(Option<LazyValue>),
    /// Not recorded in the lock.
    Unknown,
    /// The recorded put is gone. The locks below lead to the same one.
    Gone,
}

/// Follows a lock to the value. Cost: a point read of the engine.
pub(crate) fn value_below_lock(
    family: &ColumnFamily,
    encoded: &[u8],
    last_change: LastChange,
    stats: &mut ReadStats,
) -> Result<Below> {
    let at = match last_change {
        LastChange::Unknown => return Ok(Below::Unknown),
        LastChange::NoValue => {
            stats.dead_rows_skipped += 1;
            return Ok(Below::Found(None));
        }
        LastChange::Put(at) => at,
    };
    stats.seek += 1;
    if let Some((found, value)) = family.first_in_prefix(&newest_at(encoded, at), encoded)? {
        let (_, version) = split(&found)?;
        if (version.kind, version.commit) == (Kind::Put, at) {
            stats.processed += 1;
            return Ok(Below::Found(Some(value)));
        }
    }
    // The put exists for as long as a read may need it. If it is gone, the next version is right.
    Ok(Below::Gone)
}

/// The value of the newest put or deletion after the version at `from`. With `follows_locks` the
/// search follows a lock after some steps, until one leads to a put that is gone.
fn step_over_locks(
    family: &ColumnFamily,
    encoded: &[u8],
    from: &[u8],
    mut follows_locks: bool,
    stats: &mut ReadStats,
) -> Result<Option<LazyValue>> {
    let mut cursor = family.iter(&ReadOptions {
        prefix: Some(encoded.to_vec()),
        ..ReadOptions::default()
    })?;
    stats.seek += 1;
    cursor.seek(from)?;
    let mut steps = 0;
    while cursor.valid() {
        let (_, version) = split(cursor.key())?;
        match version.kind {
            Kind::Put => {
                stats.processed += 1;
                return Ok(Some(cursor.lazy_value()?));
            }
            Kind::Delete => {
                stats.dead_rows_skipped += 1;
                return Ok(None);
            }
            Kind::Lock if follows_locks && steps >= MAX_STEPS => {
                let lock = LockValue::read(&cursor.value()?, version.commit);
                match value_below_lock(family, encoded, lock.last_change, stats)? {
                    Below::Found(value) => return Ok(value),
                    Below::Unknown => {}
                    Below::Gone => follows_locks = false,
                }
            }
            Kind::Lock | Kind::Rollback => {}
        }
        steps += 1;
        stats.versions_skipped += 1;
        stats.next += 1;
        cursor.next()?;
    }
    Ok(None)
}
