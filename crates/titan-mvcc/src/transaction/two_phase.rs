//! The commit of a transaction in two phases.
//!
//! The first phase locks all keys, in pieces. Then the primary key is committed: with that the transaction has
//! committed. The second phase commits the other keys; if it does not come to that, others do it. An async
//! commit is acknowledged after the first phase.
//!
//! What stops between the phases, by a crash or because the value that stands for the phase is dropped, leaves locks.
//! Others roll them back when their time to live is over; the next opening ends them at once.

use std::sync::Arc;

use bytes::Bytes;

use super::writes::Writes;
use crate::core::Core;
use crate::error::{Error, Result};
use crate::format::lock::Owner;
use crate::percolator::{
    self, Mutation, Prewrite, commit_at, end_locks, heartbeat, release_locks, wait_for_locks,
};
use crate::timestamp::Timestamp;

/// The most keys of an async commit: all of them are written to the lock of the primary key.
const MAX_ASYNC: usize = 256;

/// The timestamps of a transaction.
#[derive(Clone, Copy)]
pub(super) struct TransactionTimestamps {
    /// Identifies it.
    pub(super) start: Timestamp,
    /// What was committed later is a conflict.
    pub(super) read_at: Timestamp,
    /// For a pessimistic transaction: when it took its last lock.
    pub(super) for_update: Option<Timestamp>,
}

/// A transaction whose keys are all locked, with their values. Dropping it leaves the locks, as if its process had
/// been killed: others roll it back when the time to live is over, or commit it if it is an async commit.
#[must_use = "a transaction that is dropped between the phases leaves locks"]
pub struct PrewrittenTransaction {
    core: Arc<Core>,
    start: Timestamp,
    read_at: Timestamp,
    /// All keys, the primary one first.
    keys: Vec<Vec<u8>>,
    /// When an async commit has committed.
    committed: Option<Timestamp>,
}

/// A transaction that has committed, with locks on its secondary keys. Dropping it leaves the locks: others
/// commit them when they find them.
pub struct CommittedTransaction {
    core: Arc<Core>,
    start: Timestamp,
    commit: Timestamp,
    keys: Vec<Vec<u8>>,
}

/// Prewrites a transaction, with this primary key or any.
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
    let done = prewritten.prewrite_pieces(&mutations, timestamps);
    if done.is_err() {
        prewritten.release();
    }
    done.map(|()| prewritten)
}

impl PrewrittenTransaction {
    /// Identifies the transaction in its locks.
    pub fn start(&self) -> Timestamp {
        self.start
    }

    /// When the transaction has committed, if it is an async commit.
    pub fn committed(&self) -> Option<Timestamp> {
        self.committed
    }

    /// Commits. Returns when all keys are committed and every read of the present sees them.
    ///
    /// # Errors
    /// Those of [`PrewrittenTransaction::commit_primary`].
    pub fn commit(self) -> Result<Timestamp> {
        Ok(self.commit_primary()?.commit_secondaries())
    }

    /// Commits the primary key, and with it the transaction: every read of the present sees all of it from then on.
    /// An async commit has committed already, and this takes no time.
    ///
    /// # Errors
    /// `RolledBack` if the locks had expired and others rolled it back; `Oracle`: it was rolled back; `Engine`
    /// with `Busy`, if writes are stalled and the store's have `no_slowdown`: it was rolled back, which waits for the
    /// stall; other `Engine`: it is not seen by this opening, but a later one may find that it has committed.
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

    /// Rolls back: removes the locks. An async commit has committed and stays so.
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
                // Somebody who reads at a later timestamp has pushed it.
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
            // After the last piece an async commit has committed, and others may have ended its locks already.
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
        self.committed = secondaries.map(|_| last);
        Ok(())
    }

    /// Removes the locks. What cannot be removed expires.
    fn release(&self) {
        let keys: Vec<&[u8]> = self.keys.iter().map(Vec::as_slice).collect();
        let _ = release_locks(&self.core, &keys, self.start);
    }
}

/// Prewrites one piece, and waits for locks of others.
fn prewrite_piece(core: &Core, request: &Prewrite<'_>) -> Result<percolator::Prewritten> {
    let now = core.clock.monotonic();
    let deadline = now.saturating_add(core.config.transactions.lock_wait);
    loop {
        match percolator::prewrite(core, request, Owner::Store) {
            Err(Error::KeyIsLocked(_)) => {}
            other => return other,
        }
        let keys = request.mutations.iter().map(Mutation::key);
        if let Some((key, active)) = wait_for_locks(core, keys, Some(request.start), deadline)? {
            return Err(active.lock.key_is_locked(key));
        }
    }
}

/// How many of the mutations are written in one batch of about `bytes`: one at least.
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
    /// Identifies the transaction in its locks.
    pub fn start(&self) -> Timestamp {
        self.start
    }

    /// When the transaction committed.
    pub fn timestamp(&self) -> Timestamp {
        self.commit
    }

    /// The second phase: commits the other keys. What fails is left to others, who find the locks. Returns the
    /// timestamp of the commit.
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
