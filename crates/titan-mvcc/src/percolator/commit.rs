//! The second phase: versions in place of locks.

use bytes::Bytes;
use titan::{WriteBatch, WriteOptions};

use super::record::{Ended, ended};
use crate::error::{Error, Result};
use crate::format::lock::{Lock, LockKind};
use crate::format::{Kind, Version, encode_key};
use crate::locks::lost_value;
use crate::store::Core;
use crate::timestamp::Timestamp;

/// Commits keys at a timestamp that the oracle has handed out. Returns when the engine has published it.
///
/// # Errors
/// See [`Percolator::commit`](super::Percolator::commit).
pub(crate) fn commit_at(
    core: &Core,
    keys: &[&[u8]],
    start: Timestamp,
    commit: Timestamp,
    write: &WriteOptions,
) -> Result<()> {
    let expired = |key: &[u8], min_commit| Error::CommitTsExpired {
        key: Bytes::copy_from_slice(key),
        asked: commit,
        min_commit,
    };
    if commit <= start {
        let key = keys.first().copied().unwrap_or_default();
        return Err(expired(key, start.next().unwrap_or(start)));
    }
    let mut latches = core.latches.take(keys.iter().copied());
    let mut locked: Vec<(&[u8], Lock)> = Vec::with_capacity(keys.len());
    for key in keys {
        match core.locks.of(key, start) {
            Some(held) => locked.push((key, held.lock)),
            None => check_committed(core, key, start)?,
        }
    }
    if locked.is_empty() {
        return Ok(());
    }
    let locked_keys = locked.iter().map(|(key, _)| *key);
    core.locks
        .begin_commit(locked_keys.clone(), commit)
        .map_err(|(key, min_commit)| expired(&key, min_commit))?;
    latches.note(commit);
    let written = write_committed(core, &locked, commit, write);
    if written.is_err() {
        core.locks.end_commit(locked_keys);
    }
    written
}

/// Writes the versions of a transaction in place of its locks. The caller has the latches of the keys.
fn write_committed(
    core: &Core,
    locked: &[(&[u8], Lock)],
    commit: Timestamp,
    write: &WriteOptions,
) -> Result<()> {
    let mut batch = WriteBatch::new();
    for (key, lock) in locked {
        core.locks.delete(&mut batch, key, lock)?;
        let (kind, value) = match lock.kind {
            LockKind::Put => (Kind::Put, value(core, key)?),
            LockKind::Delete => (Kind::Delete, Bytes::new()),
            // What was not prewritten was only to be kept from others.
            LockKind::Lock | LockKind::Pessimistic => (Kind::Lock, Bytes::new()),
        };
        let version = Version {
            commit,
            start: lock.start,
            kind,
        };
        let mut engine_key = encode_key(key);
        version.put_after(&mut engine_key);
        batch.put(&core.versions, engine_key, value)?;
    }
    core.db.write(batch, write)?;
    // ORDER: after the versions are published: a reader that finds no lock finds them.
    core.locks.remove(locked.iter().map(|(key, _)| *key));
    Ok(())
}

/// The value of a prewritten put, whose latch the caller has.
fn value(core: &Core, key: &[u8]) -> Result<Bytes> {
    let value = core.locks.value(key)?.ok_or_else(|| lost_value(key))?;
    Ok(value.fetch()?)
}

/// A key without a lock: it may have been committed before.
fn check_committed(core: &Core, key: &[u8], start: Timestamp) -> Result<()> {
    match ended(&core.versions, key, start)? {
        Ended::Committed(_) => Ok(()),
        Ended::RolledBack | Ended::Unknown => Err(Error::LockNotFound {
            key: Bytes::copy_from_slice(key),
            start,
        }),
    }
}
