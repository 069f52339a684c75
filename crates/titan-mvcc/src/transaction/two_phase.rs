//! Commits in two phases.
//!
//! The first phase locks all keys, in pieces. Committing the primary key commits the transaction.
//! The second phase commits the other keys; if it does not run, other transactions commit them. An
//! async commit is acknowledged after the first phase.
//!
//! A crash between the phases, or dropping the value of a phase, leaves locks. Other transactions
//! roll them back when they expire. The next opening ends them at once.

use std::sync::Arc;

use bytes::Bytes;
use titan::invariant;

use super::writes::Writes;
use crate::core::Core;
use crate::error::{Error, Result};
use crate::format::lock::Owner;
use crate::percolator::{
    self, Demands, Mutation, Prewrite, commit_at, end_locks, heartbeat, release_locks,
    wait_for_locks,
};
use crate::timestamp::Timestamp;

/// The most keys of an async commit: the primary lock lists all of them.
const MAX_ASYNC: usize = 256;

/// The timestamps of a transaction.
#[derive(Clone, Copy)]
pub(super) struct TransactionTimestamps {
    /// The start timestamp, which identifies the transaction.
    pub(super) start: Timestamp,
    /// Later versions conflict.
    pub(super) read_at: Timestamp,
    /// The timestamp for update of a pessimistic transaction's last lock.
    pub(super) for_update: Option<Timestamp>,
}

/// A transaction whose keys are all locked, with their values. Dropping it leaves the locks, as a
/// crash would: other transactions roll it back when they expire, or commit it if it is an async
/// commit.
#[must_use = "a transaction that is dropped between the phases leaves locks"]
pub struct PrewrittenTransaction {
    core: Arc<Core>,
    start: Timestamp,
    read_at: Timestamp,
    /// All keys, the primary key first.
    keys: Vec<Vec<u8>>,
    /// The commit timestamp of an async commit.
    committed: Option<Timestamp>,
}

/// A transaction that has committed, with locks on its secondary keys. Dropping it leaves the
/// locks: transactions that meet them commit them.
pub struct CommittedTransaction {
    core: Arc<Core>,
    start: Timestamp,
    commit: Timestamp,
    keys: Vec<Vec<u8>>,
}

/// Prewrites a transaction with this primary key, or with any.
pub(super) fn prewrite(
    core: Arc<Core>,
    writes: &Writes,
    timestamps: TransactionTimestamps,
    primary: Option<&[u8]>,
) -> Result<PrewrittenTransaction> {
    let mut mutations: Vec<Mutation<'_>> = writes.iter().collect();
    mutations.sort_unstable_by_key(Mutation::key);
    let is_write = |write: &&Mutation<'_>| !matches!(write, Mutation::Lock { .. });
    let primary = primary.map(<[u8]>::to_vec);
    let primary = primary.or_else(|| {
        let first = mutations.iter().find(is_write).or(mutations.first())?;
        Some(first.key().to_vec())
    });
    mutations.sort_by_key(|mutation| primary.as_deref() != Some(mutation.key()));
    let mut prewritten = PrewrittenTransaction {
        core,
        start: timestamps.start,
        read_at: timestamps.read_at,
        keys: mutations.iter().map(|it| it.key().to_vec()).collect(),
        committed: None,
    };
    invariant!(
        prewritten.keys.first() == primary.as_ref(),
        "the first key of a transaction is not its primary key"
    );
    let done = prewritten.prewrite_pieces(&mutations, timestamps);
    if done.is_err() {
        prewritten.release();
    }
    done.map(|()| prewritten)
}

impl PrewrittenTransaction {
    /// The start timestamp, which identifies the transaction in its locks.
    pub fn start(&self) -> Timestamp {
        self.start
    }

    /// The commit timestamp of an async commit, which has committed already.
    pub fn committed(&self) -> Option<Timestamp> {
        self.committed
    }

    /// Commits. Returns when all keys are committed and reads of the present see them.
    ///
    /// # Errors
    /// Those of [`PrewrittenTransaction::commit_primary`].
    pub fn commit(self) -> Result<Timestamp> {
        Ok(self.commit_primary()?.commit_secondaries())
    }

    /// Commits the primary key, and with it the transaction: from then on, reads of the present see
    /// all of it. Returns at once for an async commit, which has committed already.
    ///
    /// # Errors
    /// `RolledBack`: the locks expired, and another transaction rolled this one back. `Oracle`: it
    /// was rolled back. `Engine` with `Busy`: writes are stalled, and the store writes with
    /// `no_slowdown`; it was rolled back after the stall. Other `Engine`: this opening does not see
    /// it, but a later one may find that it has committed.
    pub fn commit_primary(self) -> Result<CommittedTransaction> {
        self.core.check_not_inherited()?;
        let commit = match (self.keys.first(), self.committed) {
            (None, _) => self.read_at,
            (_, Some(committed)) => committed,
            (Some(primary), None) => self.commit_key(primary)?,
        };
        Ok(CommittedTransaction {
            core: self.core,
            start: self.start,
            commit,
            keys: self.keys,
        })
    }

    /// Rolls back: releases the locks. An async commit has committed and stays.
    pub fn rollback(self) {
        if self.committed.is_none() && self.core.check_not_inherited().is_ok() {
            self.release();
        }
    }

    fn commit_key(&self, primary: &[u8]) -> Result<Timestamp> {
        let core = &*self.core;
        loop {
            let in_flight = match core.order.begin() {
                Ok(in_flight) => in_flight,
                Err(e) => {
                    self.release();
                    return Err(e);
                }
            };
            match commit_at(
                core,
                &[primary],
                self.start,
                in_flight.timestamp(),
                &core.config.write,
            ) {
                Ok(()) => return Ok(in_flight.published()),
                // A reader at a later timestamp has pushed the lock.
                Err(Error::CommitTsExpired { .. }) => {}
                Err(Error::LockNotFound { key, start }) => {
                    self.release();
                    return Err(Error::RolledBack { key, start });
                }
                // Nothing was written, so it has not committed.
                Err(Error::Engine(e)) if e.is_retryable() => {
                    self.release();
                    return Err(Error::Engine(e));
                }
                Err(e) => return Err(e),
            }
        }
    }

    fn prewrite_pieces(
        &mut self,
        mutations: &[Mutation<'_>],
        timestamps: TransactionTimestamps,
    ) -> Result<()> {
        let core = &*self.core;
        let options = core.config.transactions;
        let Some(primary) = self.keys.first() else {
            return Ok(());
        };
        let secondaries: Option<Vec<Bytes>> =
            (options.async_commit && self.keys.len() <= MAX_ASYNC).then(|| {
                let keys = self.keys.iter().skip(1);
                keys.map(|key| Bytes::copy_from_slice(key)).collect()
            });
        let mut last_heartbeat = core.clock.monotonic();
        let mut last = Timestamp::ZERO;
        let mut left = mutations;
        while !left.is_empty() {
            let (piece, rest) = left.split_at(piece_len(left, options.one_batch_bytes));
            left = rest;
            let prewritten = prewrite_piece(
                core,
                &Prewrite {
                    mutations: piece,
                    primary,
                    start: timestamps.start,
                    read_at: timestamps.read_at,
                    ttl: options.lock_ttl,
                    txn_size: mutations.len() as u64,
                    min_commit: Timestamp::ZERO,
                    for_update: timestamps.for_update,
                    secondaries: secondaries.as_deref(),
                },
            )?;
            last = last.max(prewritten.min_commit);
            let now = core.clock.monotonic();
            // After its last piece an async commit has committed, and its locks may be gone.
            if !left.is_empty() && now.saturating_sub(last_heartbeat) > options.lock_ttl / 3 {
                last_heartbeat = now;
                match heartbeat(core, primary, timestamps.start, options.lock_ttl) {
                    Ok(_) => {}
                    Err(Error::LockNotFound { key, start }) => {
                        return Err(Error::RolledBack { key, start });
                    }
                    Err(e) => return Err(e),
                }
            }
        }
        let start = timestamps.start;
        invariant!(start < last, "{start} may commit from {last} on");
        self.committed = secondaries.map(|_| last);
        Ok(())
    }

    /// Releases the locks. A lock that cannot be released expires.
    fn release(&self) {
        let keys: Vec<&[u8]> = self.keys.iter().map(Vec::as_slice).collect();
        let _ = release_locks(&self.core, &keys, self.start);
    }
}

/// Prewrites one piece, and waits for locks of other transactions.
fn prewrite_piece(core: &Core, request: &Prewrite<'_>) -> Result<percolator::Prewritten> {
    let now = core.clock.monotonic();
    let deadline = now.saturating_add(core.config.transactions.lock_wait);
    loop {
        match percolator::prewrite(core, request, &Demands::default(), Owner::Store) {
            Err(Error::KeyIsLocked(_)) => {}
            other => return other,
        }
        let keys = request.mutations.iter().map(Mutation::key);
        if let Some((key, active)) = wait_for_locks(core, keys, Some(request.start), deadline)? {
            return Err(active.key_is_locked(key));
        }
    }
}

/// The number of mutations for one batch of about `bytes`, at least one.
fn piece_len(mutations: &[Mutation<'_>], bytes: usize) -> usize {
    let mut size = 0;
    let mut len = 0;
    for mutation in mutations {
        let value = match mutation {
            Mutation::Put { value, .. } => value.len(),
            Mutation::Delete { .. } | Mutation::Lock { .. } => 0,
        };
        size += mutation.key().len() + value;
        if len > 0 && size > bytes {
            break;
        }
        len += 1;
    }
    len
}

impl CommittedTransaction {
    /// The start timestamp, which identifies the transaction in its locks.
    pub fn start(&self) -> Timestamp {
        self.start
    }

    /// The commit timestamp.
    pub fn timestamp(&self) -> Timestamp {
        self.commit
    }

    /// Runs the second phase: commits the other keys. If it fails, transactions that meet the locks
    /// commit them. Returns the commit timestamp.
    pub fn commit_secondaries(self) -> Timestamp {
        if self.core.check_not_inherited().is_err() {
            return self.commit;
        }
        let keys: Vec<&[u8]> = self.keys.iter().map(Vec::as_slice).collect();
        let _ = end_locks(&self.core, &keys, self.start, Some(self.commit));
        self.commit
    }
}

impl std::fmt::Debug for PrewrittenTransaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PrewrittenTransaction")
            .field("start", &self.start)
            .field("keys", &self.keys.len())
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for CommittedTransaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CommittedTransaction")
            .field("start", &self.start)
            .field("commit", &self.commit)
            .finish_non_exhaustive()
    }
}
