//! The end of a transaction, and the content of a key, as its versions say.

use std::ops::ControlFlow;

use bytes::Bytes;
use titan::{ColumnFamily, DbIterator, ReadOptions};

use crate::error::Result;
use crate::format::version::{newest_at, split};
use crate::format::{Kind, LastChange, LockValue, Version, encode_key};
use crate::timestamp::Timestamp;

/// How a transaction ended on a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It committed at this timestamp.
    Committed(Timestamp),
    /// A record says that it was rolled back.
    RolledBack,
    /// The versions of the key do not know the transaction.
    Unknown,
}

/// The newest version of a key, whatever it is. Cost: a point read of the engine.
pub(crate) fn newest_version(family: &ColumnFamily, key: &[u8]) -> Result<Option<Version>> {
    let encoded = encode_key(key);
    let found = family.first_in_prefix(&encoded, &encoded)?;
    found.map(|(found, _)| Ok(split(&found)?.1)).transpose()
}

/// The newest version of a key that is no record of a rollback. Cost: a point read of the engine; if the newest
/// version is such a record, an iterator that steps over them.
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

/// Content of a key at present, for a lock of it that is about to be written. No other version of the key may be
/// written meanwhile. If it cannot be read, that is not said, which is always right: a lock must end even where the
/// key's versions are damaged. Cost: a point read of the engine; if the newest version is a record of a rollback, or a
/// lock that does not say it, an iterator that steps over them.
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

/// Claim of a version about the content of its key; `value` reads its value.
fn claim_of(version: Version, value: impl FnOnce() -> titan::Result<Bytes>) -> Result<LastChange> {
    // MUTANT: a lock after a deletion leads to the value that was deleted.
    let passes_deletions = mutant!(
        "lock-leads-past-a-deletion",
        "-p titan-campaigns --test it mvcc::"
    );
    Ok(match version.kind {
        Kind::Put => LastChange::Put(version.commit),
        Kind::Delete if passes_deletions => LastChange::Unknown,
        Kind::Delete => LastChange::NoValue,
        Kind::Lock => LockValue::read(&value()?, version.commit).last_change,
        Kind::Rollback => LastChange::Unknown,
    })
}

/// How the transaction that began at `start` ended on a key. Cost: a point read if the newest version of the key
/// is older; otherwise an iterator that steps over what was committed between the start and the end.
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
                Kind::Put | Kind::Delete | Kind::Lock => Outcome::Committed(version.commit),
            }))
        },
    )?;
    Ok(found.unwrap_or(Outcome::Unknown))
}

/// In which order versions of a key are looked at.
enum Order {
    NewestFirst,
    /// Those that were committed at `from` or later. What a transaction did is near its start, however much has come
    /// since.
    OldestFirst {
        from: Timestamp,
    },
}

/// Calls `look` with the versions of an encoded key, and returns the value with which it breaks.
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
