//! The fates of transactions, and the end of locks that others have left.

use titan_server::proto::kvrpcpb::{
    Action, CheckSecondaryLocksRequest, CheckTxnStatusRequest, LockInfo, Op,
    PessimisticRollbackRequest, ResolveLockRequest,
};
use tonic::Request;

use super::connection::{Called, Connection, key, number, wrong};

/// The fate of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Committed(u64),
    RolledBack,
    /// Its client may still be there.
    Alive,
    /// The same, and it commits after the reader that asked.
    CommitsLater,
}

/// A question about a transaction.
#[derive(Clone, Copy)]
pub(super) struct Question {
    pub(super) start: u64,
    pub(super) primary: u8,
    /// The timestamp of the reader that asks, or 0.
    pub(super) reader: u64,
    /// The timestamp by which the asking client judges whether a lock has expired.
    pub(super) now: u64,
    /// Whether the transaction is rolled back if its primary key has no lock.
    pub(super) gives_up: bool,
    /// Whether the lock in the way is a pessimistic one.
    pub(super) is_pessimistic: bool,
}

/// A timestamp so many milliseconds later.
pub(super) fn later(timestamp: u64, millis: u64) -> u64 {
    ((timestamp >> 18) + millis) << 18
}

impl Connection<'_> {
    /// Asks for the fate of a transaction. A dead one is rolled back or committed by that.
    pub(super) fn fate(&mut self, asked: Question) -> Called<Fate> {
        self.fate_of(asked, false)
    }

    fn fate_of(&mut self, asked: Question, force_sync_commit: bool) -> Called<Fate> {
        let answer = self.persist(|own| {
            own.region_of(asked.primary, async |tikv, context| {
                let request = CheckTxnStatusRequest {
                    context: Some(context),
                    primary_key: key(asked.primary),
                    lock_ts: asked.start,
                    caller_start_ts: asked.reader,
                    current_ts: asked.now,
                    rollback_if_not_exist: asked.gives_up,
                    resolving_pessimistic_lock: asked.is_pessimistic,
                    force_sync_commit,
                    ..CheckTxnStatusRequest::default()
                };
                tikv.kv_check_txn_status(Request::new(request)).await
            })
        })?;
        if let Some(error) = answer.error {
            return match error.txn_not_found {
                Some(_) => Ok(Fate::Alive),
                None => wrong(format!("a status check: {error:?}")),
            };
        }
        if answer.commit_version > 0 {
            return Ok(Fate::Committed(answer.commit_version));
        }
        if answer.lock_ttl == 0 {
            return Ok(Fate::RolledBack);
        }
        let is_expired = later(asked.start, answer.lock_ttl) <= asked.now;
        match answer.lock_info {
            Some(lock) if lock.use_async_commit && is_expired && !force_sync_commit => {
                match self.decided(&lock)? {
                    Some(fate) => Ok(fate),
                    None => self.fate_of(asked, true),
                }
            }
            _ if answer.action == i32::from(Action::MinCommitTsPushed) => Ok(Fate::CommitsLater),
            _ => Ok(Fate::Alive),
        }
    }

    /// The fate of an async commit whose client is dead. `None` if it has become one in two phases.
    fn decided(&mut self, primary: &LockInfo) -> Called<Option<Fate>> {
        let start = primary.lock_version;
        let secondaries = primary.secondaries.iter();
        let secondaries: Vec<u8> = secondaries.map(|key| number(key)).collect::<Called<_>>()?;
        let answers = self.persist(|own| {
            own.regions(&secondaries, async |tikv, context, keys| {
                let request = CheckSecondaryLocksRequest {
                    context: Some(context),
                    keys: keys.iter().map(|number| key(*number)).collect(),
                    start_version: start,
                };
                tikv.kv_check_secondary_locks(Request::new(request)).await
            })
        })?;
        let (mut locks, mut commit, mut found) = (0, primary.min_commit_ts, None);
        for answer in answers {
            if let Some(error) = answer.error {
                return wrong(format!("a check of secondary locks: {error:?}"));
            }
            if answer.commit_ts > 0 {
                found = Some(answer.commit_ts);
            }
            for lock in answer.locks {
                if !lock.use_async_commit {
                    return Ok(None);
                }
                commit = commit.max(lock.min_commit_ts);
                locks += 1;
            }
        }
        let commit = match found {
            Some(commit) => commit,
            None if locks < secondaries.len() => 0,
            None => commit,
        };
        let mut keys = secondaries;
        keys.push(number(&primary.key)?);
        self.end_locks(start, commit, &keys)?;
        Ok(Some(match commit {
            0 => Fate::RolledBack,
            _ => Fate::Committed(commit),
        }))
    }

    /// Ends locks of a transaction with this commit timestamp, or 0 for a rollback.
    fn end_locks(&mut self, start: u64, commit: u64, keys: &[u8]) -> Called<()> {
        let answers = self.persist(|own| {
            own.regions(keys, async |tikv, context, keys| {
                let request = ResolveLockRequest {
                    context: Some(context),
                    start_version: start,
                    commit_version: commit,
                    keys: keys.iter().map(|number| key(*number)).collect(),
                    ..ResolveLockRequest::default()
                };
                tikv.kv_resolve_lock(Request::new(request)).await
            })
        })?;
        match answers.into_iter().find_map(|answer| answer.error) {
            Some(error) => wrong(format!("resolving: {error:?}")),
            None => Ok(()),
        }
    }

    /// Ends a lock that is in the way, if the fate of its transaction is known. `now` is the time
    /// by which it may have expired.
    pub(super) fn end(&mut self, lock: &LockInfo, reader: u64, now: u64) -> Called<Fate> {
        let is_pessimistic = lock.lock_type == i32::from(Op::PessimisticLock);
        let fate = self.fate(Question {
            start: lock.lock_version,
            primary: number(&lock.primary_lock)?,
            reader,
            now,
            gives_up: later(lock.lock_version, lock.lock_ttl) <= now,
            is_pessimistic,
        })?;
        let commit = match fate {
            Fate::Committed(commit) => commit,
            Fate::RolledBack => 0,
            Fate::Alive | Fate::CommitsLater => return Ok(fate),
        };
        let held = number(&lock.key)?;
        if !is_pessimistic {
            self.end_locks(lock.lock_version, commit, &[held])?;
            return Ok(fate);
        }
        self.release(lock.lock_version, u64::MAX, &[held])?;
        Ok(fate)
    }

    /// Ends pessimistic locks up to a timestamp.
    pub(super) fn release(&mut self, start: u64, for_update: u64, keys: &[u8]) -> Called<()> {
        let answers = self.persist(|own| {
            own.regions(keys, async |tikv, context, keys| {
                let request = PessimisticRollbackRequest {
                    context: Some(context),
                    start_version: start,
                    for_update_ts: for_update,
                    keys: keys.iter().map(|number| key(*number)).collect(),
                };
                tikv.kv_pessimistic_rollback(Request::new(request)).await
            })
        })?;
        match answers.into_iter().find(|answer| !answer.errors.is_empty()) {
            Some(answer) => wrong(format!("releasing: {:?}", answer.errors)),
            None => Ok(()),
        }
    }
}
