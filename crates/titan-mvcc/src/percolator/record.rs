//! How a transaction ended, as the versions of a key say.

use std::ops::ControlFlow;

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
    search(family, key, |version| match version.kind {
        Kind::Rollback => ControlFlow::Continue(()),
        _ => ControlFlow::Break(version),
    })
}

/// How the transaction that began at `start` ended on a key. Cost: a point read if the newest version of the key
/// is older; otherwise an iterator that steps over what was committed later.
pub(crate) fn ended(family: &ColumnFamily, key: &[u8], start: Timestamp) -> Result<Ended> {
    match newest_version(family, key)? {
        Some(newest) if newest.commit >= start => {}
        _ => return Ok(Ended::Unknown),
    }
    let found = search(family, key, |version| {
        if version.commit < start {
            return ControlFlow::Break(Ended::Unknown);
        }
        if version.start != start {
            return ControlFlow::Continue(());
        }
        ControlFlow::Break(match version.kind {
            Kind::Rollback => Ended::RolledBack,
            Kind::Put | Kind::Delete | Kind::Lock => Ended::Committed(version.commit),
        })
    })?;
    Ok(found.unwrap_or(Ended::Unknown))
}

/// What `look` breaks with, which is called with the versions of a key, the newest first.
fn search<T>(
    family: &ColumnFamily,
    key: &[u8],
    mut look: impl FnMut(Version) -> ControlFlow<T>,
) -> Result<Option<T>> {
    let mut cursor = family.iter(&ReadOptions {
        prefix: Some(encode_key(key)),
        ..ReadOptions::default()
    })?;
    cursor.seek_to_first()?;
    while cursor.valid() {
        if let ControlFlow::Break(found) = look(split(cursor.key())?.1) {
            return Ok(Some(found));
        }
        cursor.next()?;
    }
    Ok(None)
}
