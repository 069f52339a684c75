//! The second phase of a commit: versions replace locks.

use bytes::Bytes;
use titan::{WriteBatch, WriteOptions, invariant};

use crate::core::Core;
use crate::error::{Error, Result};
use crate::format::lock::Lock;
use crate::format::{Kind, LockValue, Version, encode_key};
use crate::lock_info::LockKind;
use crate::locks::lost_value;
use crate::lookup::{Outcome, last_change, outcome};
use crate::timestamp::Timestamp;

/// Commits keys at a timestamp that the oracle has handed out. Returns after the engine has
/// published the commit.
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
    commit_if(core, keys, start, commit, write, false)
}

/// Commits keys that were locked a moment ago. A key may have no trace of the transaction: another
/// thread has committed it, the safe point has passed the commit, and a compaction has dropped the
/// version.
///
/// # Errors
/// See [`Percolator::resolve_lock`](super::Percolator::resolve_lock).
pub(super) fn commit_locked(
    core: &Core,
    keys: &[&[u8]],
    start: Timestamp,
    commit: Timestamp,
) -> Result<()> {
    check_recorded(core, start, commit)?;
    commit_if(core, keys, start, commit, &core.config.unsynced, true)
}

/// Checks the commit timestamp that locks or versions of a transaction record. A commit after the
/// present would hide all later ones. Costs an atomic load if reads of the present see it.
///
/// # Errors
/// `Corruption` if the oracle has not handed it out; those of the oracle.
pub(super) fn check_recorded(core: &Core, start: Timestamp, commit: Timestamp) -> Result<()> {
    match core.order.check_handed_out(commit) {
        Err(Error::InFuture { now, .. }) => Err(Error::Corruption {
            what: format!("transaction {start} has committed at {commit}, but it is {now} now"),
        }),
        checked => checked,
    }
}

/// Commits keys, none of them twice. With `may_be_unknown`, a key may have no trace of the
/// transaction.
fn commit_if(
    core: &Core,
    keys: &[&[u8]],
    start: Timestamp,
    commit: Timestamp,
    write: &WriteOptions,
    may_be_unknown: bool,
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
        match core.locks.owned_by(key, start) {
            Some(active) => locked.push((key, active.lock)),
            None => check_committed(core, key, start, may_be_unknown)?,
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
    gate!("commit: chosen");
    let written = write_committed(core, &locked, commit, write);
    if written.is_err() {
        core.locks.abort_commit(locked_keys);
    }
    written
}

/// Replaces the locks of a transaction by versions. The caller has taken the latches of the keys.
fn write_committed(
    core: &Core,
    locked: &[(&[u8], Lock)],
    commit: Timestamp,
    write: &WriteOptions,
) -> Result<()> {
    let mut batch = WriteBatch::new();
    for (key, lock) in locked {
        let (start, min_commit) = (lock.start, lock.min_commit);
        invariant!(durable: start < commit, "{start} commits at {commit}")?;
        invariant!(
            min_commit <= commit,
            "{commit} is before the bound {min_commit}"
        );
        core.locks.batch_delete(&mut batch, key, lock)?;
        let value = match lock.kind {
            LockKind::Put => value(core, key)?,
            LockKind::Delete | LockKind::Lock | LockKind::Pessimistic => Bytes::new(),
        };
        put_version(core, &mut batch, (key, lock.kind, &value), start, commit)?;
    }
    core.db.write(batch, write)?;
    // ORDER: after the versions are published, so that a reader without a lock finds them.
    core.locks.remove(locked.iter().map(|(key, _)| *key));
    Ok(())
}

/// Adds the version of a write that commits to a batch: a key, its lock, and its value if it has
/// one. The caller has taken the latch of the key. Cost: a point read for a write that only locks.
pub(super) fn put_version(
    core: &Core,
    batch: &mut WriteBatch,
    (key, lock, value): (&[u8], LockKind, &[u8]),
    start: Timestamp,
    commit: Timestamp,
) -> Result<()> {
    let lock_value;
    let (kind, value) = match lock {
        LockKind::Put => (Kind::Put, value),
        LockKind::Delete => (Kind::Delete, &b""[..]),
        // A pessimistic lock without a prewrite writes nothing.
        LockKind::Lock | LockKind::Pessimistic => {
            let value = LockValue {
                // No other transaction has written the key since it was locked.
                last_change: last_change(&core.versions, key),
                // Late calls and other locks of the transaction ask for its outcome.
                is_replaceable: false,
            };
            lock_value = value.encode(commit);
            (Kind::Lock, &lock_value[..])
        }
    };
    let version = Version {
        commit,
        start,
        kind,
    };
    let mut engine_key = encode_key(key);
    version.put_after(&mut engine_key);
    batch.put(&core.versions, engine_key, value)?;
    Ok(())
}

/// The value of a prewritten put. The caller has taken the latch of its key.
fn value(core: &Core, key: &[u8]) -> Result<Bytes> {
    let value = core
        .locks
        .prewritten_value(key)?
        .ok_or_else(|| lost_value(key))?;
    Ok(value.fetch()?)
}

/// Checks that a key without a lock was committed before.
fn check_committed(core: &Core, key: &[u8], start: Timestamp, may_be_unknown: bool) -> Result<()> {
    match outcome(&core.versions, key, start)? {
        Outcome::Committed(_) => Ok(()),
        Outcome::Unknown if may_be_unknown => Ok(()),
        Outcome::RolledBack if mutant!(commit_after_a_rollback) => Ok(()),
        Outcome::RolledBack | Outcome::Unknown => Err(Error::LockNotFound {
            key: Bytes::copy_from_slice(key),
            start,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mutation, Prewrite, Store, StoreOptions};

    fn prewrite(store: &Store) -> Timestamp {
        let start = store.oracle().next().unwrap();
        let request = Prewrite {
            mutations: &[Mutation::Put {
                key: b"k",
                value: b"first",
            }],
            primary: b"k",
            start,
            read_at: start,
            ttl: std::time::Duration::from_secs(1000),
            txn_size: 1,
            min_commit: Timestamp::ZERO,
            for_update: None,
            secondaries: None,
        };
        store.percolator().prewrite(&request).unwrap();
        start
    }

    /// Another thread may end the lock between a reader's search for it and its latch.
    #[test]
    fn a_lock_whose_version_is_gone_already_has_been_ended_by_another_thread() {
        let dir = tempfile::tempdir().unwrap();
        let options = StoreOptions {
            retention: None,
            ..StoreOptions::default()
        };
        let store = Store::open(dir.path(), &options).unwrap();
        let core = store.percolator().0;
        let start = prewrite(&store);
        let commit = store.oracle().next().unwrap();
        let keys: [&[u8]; 1] = [b"k"];
        store.percolator().commit(&keys, start, commit).unwrap();
        commit_locked(&core, &keys, start, commit).unwrap();
        let mut newer = store.begin();
        newer.put(b"k", b"newer");
        newer.commit().unwrap();
        store.advance_safe_point(store.now()).unwrap();
        store.db().flush().unwrap();
        store.drop_old_versions().unwrap();
        assert_eq!(
            outcome(&core.versions, b"k", start).unwrap(),
            Outcome::Unknown
        );
        commit_locked(&core, &keys, start, commit).unwrap();
        let unknown = commit_at(&core, &keys, start, commit, &core.config.unsynced);
        assert!(matches!(unknown, Err(Error::LockNotFound { .. })));
        // A rolled back transaction is a different case.
        let start = prewrite(&store);
        let commit = store.oracle().next().unwrap();
        store.percolator().batch_rollback(&keys, start).unwrap();
        let refused = commit_locked(&core, &keys, start, commit);
        assert!(
            matches!(refused, Err(Error::LockNotFound { .. })),
            "{refused:?}"
        );
        let found = store.snapshot().get(b"k").unwrap();
        assert_eq!(found.as_deref(), Some(&b"newer"[..]));
    }
}
