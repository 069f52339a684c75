//! The first phase: locks with the values.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use titan::WriteBatch;

use super::mutation::Mutation;
use crate::core::Core;
use crate::error::{Error, Result};
use crate::format::lock::{Lock, Owner};
use crate::lookup::{Outcome, newest_version, newest_write, outcome};
use crate::timestamp::Timestamp;

/// What [`Percolator::prewrite`](super::Percolator::prewrite) is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Prewrite<'a> {
    /// What is done to the keys, once for each.
    pub mutations: &'a [Mutation<'a>],
    /// The key that decides on the transaction. It must be prewritten by this call or another.
    pub primary: &'a [u8],
    /// When the transaction began. This names it.
    pub start: Timestamp,
    /// What was committed after this timestamp is a conflict. The start, but for transactions that read at an
    /// earlier timestamp.
    pub read_at: Timestamp,
    /// Others may roll the transaction back when this time has passed without a sign of life.
    pub ttl: Duration,
    /// About how many keys the transaction has; zero if unknown.
    pub txn_size: u64,
    /// The transaction must not commit before this timestamp.
    pub min_commit: Timestamp,
    /// For pessimistic transactions, which have locks of all the keys: the last timestamp at which they took one.
    pub for_update: Option<Timestamp>,
    /// For an async commit: the other keys of the transaction if the primary key is among the mutations,
    /// otherwise none. The transaction has then committed when all prewrites have succeeded, at the last of the
    /// minimal commit timestamps that they returned.
    pub secondaries: Option<&'a [Bytes]>,
}

impl Prewrite<'_> {
    /// What was committed after this timestamp is a conflict, for a key that the transaction has no lock of.
    fn conflicts_after(&self) -> Timestamp {
        match self.for_update {
            // A pessimistic transaction that has lost its lock may go on if nobody has written the key since it began.
            Some(_) => self.start,
            None => self.read_at,
        }
    }
}

/// What [`Percolator::prewrite`](super::Percolator::prewrite) did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Prewritten {
    /// The transaction commits at this timestamp or later.
    pub min_commit: Timestamp,
    /// The transaction had committed at this timestamp already.
    pub committed: Option<Timestamp>,
}

/// What is to be done for a key.
enum Found {
    /// It is to be locked.
    New,
    /// This pessimistic lock of the transaction is to be replaced.
    Locked(Lock),
    /// It is prewritten already, with this lock.
    Prewritten(Lock),
    /// The transaction has committed.
    Committed(Timestamp),
}

pub(crate) fn prewrite(core: &Core, request: &Prewrite<'_>, owner: Owner) -> Result<Prewritten> {
    let start = request.start;
    let given = request.for_update.unwrap_or(start).max(request.min_commit);
    core.order.check_handed_out(given.max(start))?;
    let latches = core
        .latches
        .take(request.mutations.iter().map(Mutation::key));
    let mut result = Prewritten {
        min_commit: request.min_commit.max(start.next().unwrap_or(start)),
        committed: None,
    };
    let mut to_lock = Vec::with_capacity(request.mutations.len());
    // When an async commit commits at last, as its locks say.
    let mut async_commit = None;
    for mutation in request.mutations {
        match check(core, request, mutation.key())? {
            Found::New => to_lock.push((mutation, None)),
            Found::Locked(lock) => {
                result.min_commit = result.min_commit.max(lock.min_commit);
                to_lock.push((mutation, Some(lock)));
            }
            Found::Prewritten(lock) => {
                result.min_commit = result.min_commit.max(lock.min_commit);
                if lock.is_async() {
                    async_commit = async_commit.max(Some(lock.min_commit));
                }
            }
            Found::Committed(at) => {
                result.committed = Some(at);
                // ORDER: before the wait, in which nobody else is to wait for this.
                drop(latches);
                // The call that committed it may not have returned yet.
                core.order.include(at);
                return Ok(result);
            }
        }
    }
    if to_lock.is_empty() {
        drop(latches);
        // The same: the call that prewrote it may still wait for older commits.
        async_commit.map_or(Ok(()), |at| core.order.wait_for_commits(at))?;
        return Ok(result);
    }
    // After the checks: what they must find had not been dropped then.
    core.safe_point.check(request.conflicts_after())?;
    // An async commit must be after all reads of its keys. Those that have been made are before this timestamp;
    // later ones find the locks, or wait for the commit in flight.
    let in_flight = match request.secondaries {
        Some(_) => Some(core.order.begin()?),
        None => None,
    };
    if let Some(in_flight) = &in_flight {
        result.min_commit = in_flight.timestamp();
    }
    let secondaries: Option<Arc<[Bytes]>> = request.secondaries.map(Arc::from);
    let none: Option<Arc<[Bytes]>> = request.secondaries.map(|_| Arc::from([]));
    let primary = Bytes::copy_from_slice(request.primary);
    let mut batch = WriteBatch::new();
    let mut locks = Vec::with_capacity(to_lock.len());
    for (mutation, replaced) in to_lock {
        let key = mutation.key();
        let (for_update, ttl) = match replaced {
            Some(lock) => (lock.for_update, lock.ttl),
            None => Default::default(),
        };
        let lock = Lock {
            kind: mutation.kind(),
            owner,
            primary: primary.clone(),
            start,
            for_update: for_update.max(request.for_update.unwrap_or_default()),
            min_commit: result.min_commit,
            ttl: ttl.max(request.ttl),
            txn_size: request.txn_size,
            secondaries: match key == request.primary {
                true => secondaries.clone(),
                false => none.clone(),
            },
        };
        core.locks
            .batch_put(&mut batch, key, &lock, mutation.value())?;
        locks.push((Bytes::copy_from_slice(key), lock));
    }
    // ORDER: readers find the locks before the transaction can have a commit timestamp.
    let inserted = core.locks.insert_all(locks)?;
    core.db.write(batch, &core.config.write)?;
    inserted.keep();
    // ORDER: before the wait for older commits: one of them may wait for a latch.
    drop(latches);
    if let Some(in_flight) = in_flight {
        in_flight.published();
    }
    Ok(result)
}

/// # Errors
/// `InvalidArgument` for two mutations of the same key: the lock would be that of the last one, and the value that of the
/// last put.
pub(super) fn refuse_repeated_keys(mutations: &[Mutation<'_>]) -> Result<()> {
    // So most clients send them.
    if mutations.is_sorted_by(|a, b| a.key() < b.key()) {
        return Ok(());
    }
    let mut keys = BTreeSet::new();
    let repeated = mutations
        .iter()
        .map(Mutation::key)
        .find(|key| !keys.insert(*key));
    match repeated {
        None => Ok(()),
        Some(key) => {
            let what = format!("two mutations of the key \"{}\"", key.escape_ascii());
            Err(titan::Error::invalid_argument(what).into())
        }
    }
}

/// Whether the transaction may lock a key.
fn check(core: &Core, request: &Prewrite<'_>, key: &[u8]) -> Result<Found> {
    let start = request.start;
    if let Some(active) = core.locks.get(key) {
        let lock = active.lock;
        return match lock.start == start {
            false => Err(lock.key_is_locked(key)),
            true if lock.is_prewritten() => Ok(Found::Prewritten(lock)),
            true => Ok(Found::Locked(lock)),
        };
    }
    let since = request.conflicts_after();
    let Some(newest) = newest_version(&core.versions, key)? else {
        return Ok(Found::New);
    };
    let key_bytes = || Bytes::copy_from_slice(key);
    if newest.commit >= start {
        match outcome(&core.versions, key, start)? {
            Outcome::Committed(at) => return Ok(Found::Committed(at)),
            // MUTANT: a late prewrite brings a transaction back to life that was rolled back.
            Outcome::RolledBack
                if mutant!("rollback-forgotten", "-p titan-mvcc --test it percolator::") =>
            {
                return Ok(Found::New);
            }
            Outcome::RolledBack => {
                return Err(Error::RolledBack {
                    key: key_bytes(),
                    start,
                });
            }
            Outcome::Unknown => {}
        }
    }
    // A later record of a rollback is a conflict: it may have replaced the one of this transaction. An earlier
    // one says nothing.
    let conflict = match newest.commit > start {
        true => Some(newest),
        false => newest_write(&core.versions, key)?.filter(|write| write.commit > since),
    };
    match conflict {
        None => Ok(Found::New),
        // MUTANT: a prewrite overlooks what was committed since the transaction's read.
        Some(_)
            if mutant!(
                "prewrite-over-newer",
                "-p titan-mvcc --test it percolator::"
            ) =>
        {
            Ok(Found::New)
        }
        Some(_) if request.for_update.is_some() => Err(Error::PessimisticLockNotFound {
            key: key_bytes(),
            start,
        }),
        Some(newest) => Err(Error::Conflict {
            key: key_bytes(),
            start: request.read_at,
            committed: newest.commit,
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;
    use crate::percolator::commit_at;
    use crate::{Store, StoreOptions};

    fn deletion<'a>(start: Timestamp, mutations: &'a [Mutation<'a>]) -> Prewrite<'a> {
        Prewrite {
            mutations,
            primary: b"k",
            start,
            read_at: start,
            ttl: Duration::from_secs(1000),
            txn_size: 1,
            min_commit: Timestamp::ZERO,
            for_update: None,
            secondaries: Some(&[]),
        }
    }

    #[test]
    fn an_async_prewrite_waits_for_older_commits_without_latches() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), &StoreOptions::default()).unwrap();
        let core = store.percolator().0;
        let start = core.order.next_timestamp().unwrap();
        // A commit that has its timestamp, and then takes its latches.
        let older = core.order.begin().unwrap();
        let mutations = [Mutation::Delete { key: b"k" }];
        let request = deletion(start, &mutations);
        let (done, returned) = mpsc::channel();
        thread::scope(|scope| {
            let first = scope.spawn(|| prewrite(&core, &request, Owner::Client));
            while core.locks.get(b"k").is_none() {
                thread::yield_now();
            }
            // Its primary key has the same latch. If that were held, neither would ever end.
            drop(core.latches.take(std::iter::once(&b"k"[..])));
            // The same call again, as by a client that has had no answer: the transaction is not acknowledged yet.
            let again = scope.spawn(|| {
                let result = prewrite(&core, &request, Owner::Client);
                done.send(()).unwrap();
                result
            });
            for _ in 0..1000 {
                assert!(returned.try_recv().is_err());
                thread::yield_now();
            }
            let commit = older.published();
            let prewritten = first.join().unwrap().unwrap();
            assert_eq!(again.join().unwrap().unwrap(), prewritten);
            assert!(commit < prewritten.min_commit);
            assert_eq!(core.order.visible(), prewritten.min_commit);
        });
    }

    #[test]
    fn a_prewrite_that_finds_its_transaction_committed_returns_when_reads_see_it() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), &StoreOptions::default()).unwrap();
        let core = store.percolator().0;
        let start = core.order.next_timestamp().unwrap();
        let mutations = [Mutation::Delete { key: b"k" }];
        let request = Prewrite {
            secondaries: None,
            ..deletion(start, &mutations)
        };
        prewrite(&core, &request, Owner::Client).unwrap();
        // The engine has published the commit, and its call has not returned.
        let commit = core.order.next_timestamp().unwrap();
        commit_at(&core, &[b"k"], start, commit, &core.config.write).unwrap();
        assert_eq!(
            prewrite(&core, &request, Owner::Client).unwrap().committed,
            Some(commit)
        );
        assert_eq!(core.order.visible(), commit);
    }
}
