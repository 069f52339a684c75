//! How a transaction ended, as the versions of a key say.

use titan::{ColumnFamily, ReadOptions};

use crate::error::Result;
use crate::format::version::split;
use crate::format::{Kind, Version, encode_key};
use crate::timestamp::Timestamp;

/// How a transaction ended on a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
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
    let mut cursor = family.iter(&ReadOptions {
        prefix: Some(encode_key(key)),
        ..ReadOptions::default()
    })?;
    cursor.seek_to_first()?;
    while cursor.valid() {
        let version = split(cursor.key())?.1;
        if version.kind != Kind::Rollback {
            return Ok(Some(version));
        }
        cursor.next()?;
    }
    Ok(None)
}

/// How the transaction that began at `start` ended on a key. Cost: a point read if the newest version of the key
/// is older; otherwise an iterator that steps over what was committed later.
pub(crate) fn ended(family: &ColumnFamily, key: &[u8], start: Timestamp) -> Result<Ended> {
    match newest_version(family, key)? {
        Some(newest) if newest.commit >= start => {}
        _ => return Ok(Ended::Unknown),
    }
    let mut cursor = family.iter(&ReadOptions {
        prefix: Some(encode_key(key)),
        ..ReadOptions::default()
    })?;
    cursor.seek_to_first()?;
    while cursor.valid() {
        let version = split(cursor.key())?.1;
        if version.commit < start {
            break;
        }
        if version.start == start {
            return Ok(match version.kind {
                Kind::Rollback => Ended::RolledBack,
                Kind::Put | Kind::Delete | Kind::Lock => Ended::Committed(version.commit),
            });
        }
        cursor.next()?;
    }
    Ok(Ended::Unknown)
}
