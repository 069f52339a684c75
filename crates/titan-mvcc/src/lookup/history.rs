//! The history of a key: its newest write, its last change, and the outcome of a transaction on it.

use std::ops::ControlFlow;

use bytes::Bytes;
use titan::{ColumnFamily, DbIterator, ReadOptions};

use crate::error::{Error, Result};
use crate::format::version::{newest_at, split};
use crate::format::{Kind, LastChange, LockValue, VERSIONS, Version, encode_key};
use crate::timestamp::Timestamp;

/// The outcome of a transaction on a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Committed at this timestamp.
    Committed(Timestamp),
    /// Rolled back: a record proves it.
    RolledBack,
    /// Unknown: no version belongs to the transaction.
    Unknown,
}

/// The newest version of a key, of any kind. Cost: a point read of the engine.
pub(crate) fn newest_version(family: &ColumnFamily, key: &[u8]) -> Result<Option<Version>> {
    let encoded = encode_key(key);
    let found = family.first_in_prefix(&encoded, &encoded)?;
    found.map(|(found, _)| Ok(split(&found)?.1)).transpose()
}

/// The newest version of a key that is not a rollback record. Cost: a point read of the engine. If
/// the newest version is such a record, an iterator steps over them.
pub(crate) fn newest_write(family: &ColumnFamily, key: &[u8]) -> Result<Option<Version>> {
    match newest_version(family, key)? {
        Some(newest) if newest.kind == Kind::Rollback => {}
        newest => return Ok(newest),
    }
    let encoded = encode_key(key);
    search(family, encoded, Order::NewestFirst, |cursor| {
        let (_, version) = split(cursor.key())?;
        Ok(match version.kind {
            Kind::Rollback => ControlFlow::Continue(()),
            _ => ControlFlow::Break(version),
        })
    })
}

/// The newest put or deletion of a key. Cost: that of [`newest_write`]; an iterator also steps over
/// locks.
pub(crate) fn newest_change(family: &ColumnFamily, key: &[u8]) -> Result<Option<Version>> {
    let is_change = |version: &Version| matches!(version.kind, Kind::Put | Kind::Delete);
    match newest_version(family, key)? {
        Some(newest) if !is_change(&newest) => {}
        newest => return Ok(newest),
    }
    search(family, encode_key(key), Order::NewestFirst, |cursor| {
        let (_, version) = split(cursor.key())?;
        Ok(match is_change(&version) {
            true => ControlFlow::Break(version),
            false => ControlFlow::Continue(()),
        })
    })
}

/// The last change of a key, for a lock that is about to be written. The caller's latch keeps other
/// writers away. If the versions cannot be read, the result is `Unknown`, which is always correct:
/// a lock must end even above damaged versions. Cost: a point read of the engine. If the newest
/// version is a rollback record, or a lock without a last change, an iterator steps over them.
pub(crate) fn last_change(family: &ColumnFamily, key: &[u8]) -> LastChange {
    find_last_change(family, key).unwrap_or(LastChange::Unknown)
}

fn find_last_change(family: &ColumnFamily, key: &[u8]) -> Result<LastChange> {
    let encoded = encode_key(key);
    let Some((found, value)) = family.first_in_prefix(&encoded, &encoded)? else {
        return Ok(LastChange::NoValue);
    };
    let change = claim_of(split(&found)?.1, || value.fetch())?;
    if change != LastChange::Unknown {
        return Ok(change);
    }
    let found = search(family, encoded, Order::NewestFirst, |cursor| {
        let (_, version) = split(cursor.key())?;
        let change = claim_of(version, || cursor.lazy_value()?.fetch())?;
        Ok(match change {
            LastChange::Unknown => ControlFlow::Continue(()),
            change => ControlFlow::Break(change),
        })
    })?;
    Ok(found.unwrap_or(LastChange::NoValue))
}

/// The last change that a version proves; `value` reads its value.
fn claim_of(version: Version, value: impl FnOnce() -> titan::Result<Bytes>) -> Result<LastChange> {
    let passes_deletions = mutant!(lock_leads_past_a_deletion);
    Ok(match version.kind {
        Kind::Put => LastChange::Put(version.commit),
        Kind::Delete if passes_deletions => LastChange::Unknown,
        Kind::Delete => LastChange::NoValue,
        Kind::Lock => LockValue::read(&value()?, version.commit).last_change,
        Kind::Rollback => LastChange::Unknown,
    })
}

/// The outcome of the transaction `start` on a key. Cost: a point read if the newest version of the
/// key is older. Otherwise an iterator steps over the versions between the start and the outcome.
///
/// # Errors
/// Those of the engine; `Corruption`, also for a version that is committed at its start.
pub(crate) fn outcome(family: &ColumnFamily, key: &[u8], start: Timestamp) -> Result<Outcome> {
    match newest_version(family, key)? {
        Some(newest) if newest.commit >= start => {}
        _ => return Ok(Outcome::Unknown),
    }
    let encoded = encode_key(key);
    let found = search(
        family,
        encoded,
        Order::OldestFirst { from: start },
        |cursor| {
            let (_, version) = split(cursor.key())?;
            if version.start != start {
                return Ok(ControlFlow::Continue(()));
            }
            Ok(ControlFlow::Break(match version.kind {
                Kind::Rollback => Outcome::RolledBack,
                _ if version.commit == start => {
                    let wrong = "it was committed at its start or before";
                    return Err(Error::corrupt_entry(VERSIONS, cursor.key(), wrong));
                }
                Kind::Put | Kind::Delete | Kind::Lock => Outcome::Committed(version.commit),
            }))
        },
    )?;
    Ok(found.unwrap_or(Outcome::Unknown))
}

/// The order in which a search visits the versions of a key.
enum Order {
    NewestFirst,
    /// From `from` on. The outcome of a transaction is near its start, however many versions
    /// follow.
    OldestFirst {
        from: Timestamp,
    },
}

/// Calls `visit` with the versions of an encoded key until it breaks, and returns its value.
fn search<T>(
    family: &ColumnFamily,
    encoded: Vec<u8>,
    order: Order,
    mut visit: impl FnMut(&DbIterator) -> Result<ControlFlow<T>>,
) -> Result<Option<T>> {
    let upper_bound = match order {
        Order::OldestFirst { from } if from > Timestamp::ZERO => {
            Some(newest_at(&encoded, from.previous()))
        }
        _ => None,
    };
    let mut cursor = family.iter(&ReadOptions {
        prefix: Some(encoded),
        upper_bound,
        prefetch_values: 0,
        ..ReadOptions::default()
    })?;
    match order {
        Order::NewestFirst => cursor.seek_to_first()?,
        Order::OldestFirst { .. } => cursor.seek_to_last()?,
    }
    while cursor.valid() {
        if let ControlFlow::Break(found) = visit(&cursor)? {
            return Ok(Some(found));
        }
        match order {
            Order::NewestFirst => cursor.next()?,
            Order::OldestFirst { .. } => cursor.prev()?,
        }
    }
    Ok(None)
}
