//! Ending transactions, and asking how they ended.

use std::time::Duration;

use bytes::Bytes;
use titan_mvcc::{
    Error, SecondariesStatus, StatusAction, StatusCheck, Timestamp, TransactionStatus,
};

use super::call::{Call, Work};
use super::failure::Failure;
use super::key_errors::{Caller, millis, txn_not_found};
use crate::proto::kvrpcpb::{
    Action, BatchRollbackRequest, BatchRollbackResponse, CheckSecondaryLocksRequest,
    CheckSecondaryLocksResponse, CheckTxnStatusRequest, CheckTxnStatusResponse, CleanupRequest,
    CleanupResponse, ResolveLockRequest, ResolveLockResponse, ScanLockRequest, ScanLockResponse,
    TxnHeartBeatRequest, TxnHeartBeatResponse, TxnInfo,
};
use crate::regions::KeyForm;

/// Locks that a scan of locks reads at once.
const LOCKS_AT_ONCE: usize = 1024;

impl Call for BatchRollbackRequest {
    fn run(self, work: &Work<'_>) -> Result<BatchRollbackResponse, Failure> {
        let within = work.within(self.context.as_ref(), KeyForm::Transactional)?;
        within.keys(&self.keys)?;
        work.percolator()
            .batch_rollback(&self.keys, Timestamp(self.start_version))
            .map_err(|error| Caller::of(self.start_version).failure(error))?;
        Ok(BatchRollbackResponse::default())
    }
}

impl Call for CleanupRequest {
    fn run(self, work: &Work<'_>) -> Result<CleanupResponse, Failure> {
        let within = work.within(self.context.as_ref(), KeyForm::Transactional)?;
        within.keys([&self.key])?;
        // Zero ends the lock with any time to live.
        let now = match self.current_ts {
            0 => Timestamp::MAX,
            now => Timestamp(now),
        };
        let start = Timestamp(self.start_version);
        let commit_version = match work.percolator().cleanup(&self.key, start, now) {
            Ok(()) => 0,
            Err(Error::AlreadyCommitted { committed, .. }) => committed.0,
            Err(error) => return Err(Caller::of(self.start_version).failure(error)),
        };
        Ok(CleanupResponse {
            commit_version,
            ..CleanupResponse::default()
        })
    }
}

impl Call for TxnHeartBeatRequest {
    fn run(self, work: &Work<'_>) -> Result<TxnHeartBeatResponse, Failure> {
        let within = work.within(self.context.as_ref(), KeyForm::Transactional)?;
        within.keys([&self.primary_lock])?;
        let start = Timestamp(self.start_version);
        let ttl = Duration::from_millis(self.advise_lock_ttl);
        match work.percolator().heartbeat(&self.primary_lock, start, ttl) {
            Ok(ttl) => Ok(TxnHeartBeatResponse {
                lock_ttl: millis(ttl),
                ..TxnHeartBeatResponse::default()
            }),
            Err(Error::LockNotFound { key, start }) => Err(txn_not_found(key, start.0).into()),
            Err(error) => Err(Caller::of(self.start_version).failure(error)),
        }
    }
}

impl Call for CheckTxnStatusRequest {
    fn run(self, work: &Work<'_>) -> Result<CheckTxnStatusResponse, Failure> {
        let within = work.within(self.context.as_ref(), KeyForm::Transactional)?;
        within.keys([&self.primary_key])?;
        let check = StatusCheck {
            reader: Timestamp(self.caller_start_ts),
            now: Timestamp(self.current_ts),
            roll_back_if_missing: self.rollback_if_not_exist,
            has_fallen_back: self.force_sync_commit,
            for_pessimistic: self.resolving_pessimistic_lock,
            verify_is_primary: self.verify_is_primary,
            ..StatusCheck::of(&self.primary_key, Timestamp(self.lock_ts))
        };
        let checked = work
            .percolator()
            .check_status(&check)
            .map_err(|error| Caller::of(self.lock_ts).failure(error))?;
        let mut answer = CheckTxnStatusResponse::default();
        answer.set_action(match checked.action {
            StatusAction::Nothing => Action::NoAction,
            StatusAction::Pushed => Action::MinCommitTsPushed,
            StatusAction::ExpiredRolledBack => Action::TtlExpireRollback,
            StatusAction::MissingRolledBack => Action::LockNotExistRollback,
            StatusAction::ExpiredUnlocked => Action::TtlExpirePessimisticRollback,
            StatusAction::MissingLeft => Action::LockNotExistDoNothing,
        });
        match checked.status {
            Some(TransactionStatus::Running { lock, .. }) => {
                answer.lock_ttl = millis(lock.ttl);
                answer.lock_info = Some(work.lock(&lock)?);
            }
            Some(TransactionStatus::Committed(at)) => answer.commit_version = at.0,
            Some(TransactionStatus::RolledBack) | None => {}
        }
        Ok(answer)
    }
}

impl Call for CheckSecondaryLocksRequest {
    fn run(self, work: &Work<'_>) -> Result<CheckSecondaryLocksResponse, Failure> {
        let within = work.within(self.context.as_ref(), KeyForm::Transactional)?;
        within.keys(&self.keys)?;
        let status = work
            .percolator()
            .check_secondary_locks(&self.keys, Timestamp(self.start_version))
            .map_err(|error| Caller::of(self.start_version).failure(error))?;
        let mut answer = CheckSecondaryLocksResponse::default();
        match status {
            SecondariesStatus::Locked(locks) => {
                let locks = locks.iter().map(|lock| work.lock(lock));
                answer.locks = locks.collect::<Result<_, _>>()?;
            }
            SecondariesStatus::Committed(at) => answer.commit_ts = at.0,
            SecondariesStatus::RolledBack => {}
        }
        Ok(answer)
    }
}

impl Call for ScanLockRequest {
    fn run(self, work: &Work<'_>) -> Result<ScanLockResponse, Failure> {
        let within = work.within(self.context.as_ref(), KeyForm::Transactional)?;
        let (from, to) = within.range(&self.start_key, &self.end_key)?;
        let limit = match self.limit {
            0 => usize::MAX,
            limit => limit as usize,
        };
        let (percolator, until) = (work.percolator(), Timestamp(self.max_version));
        let mut locks = Vec::new();
        let mut from = from.unwrap_or_default();
        while locks.len() < limit {
            work.check_time()?;
            let wanted = LOCKS_AT_ONCE.min(limit - locks.len());
            let found = percolator.scan_locks(until, &from, wanted);
            let is_last = found.len() < wanted;
            let mut is_beyond = false;
            for lock in found {
                if to.as_ref().is_some_and(|to| lock.key >= to) {
                    is_beyond = true;
                    break;
                }
                // The next key.
                from = [&*lock.key, &[0]].concat().into();
                locks.push(work.lock(&lock)?);
            }
            if is_last || is_beyond {
                break;
            }
        }
        Ok(ScanLockResponse {
            locks,
            ..ScanLockResponse::default()
        })
    }

    fn is_read(&self) -> bool {
        true
    }
}

impl Call for ResolveLockRequest {
    fn run(self, work: &Work<'_>) -> Result<ResolveLockResponse, Failure> {
        let within = work.within(self.context.as_ref(), KeyForm::Transactional)?;
        within.keys(&self.keys)?;
        let own = TxnInfo {
            txn: self.start_version,
            status: self.commit_version,
        };
        let transactions = match self.txn_infos.is_empty() {
            true => vec![own],
            false => self.txn_infos,
        };
        let keys: Option<&[Bytes]> = (!self.keys.is_empty()).then_some(&self.keys);
        for TxnInfo { txn, status } in transactions {
            work.check_time()?;
            let commit = (status > 0).then_some(Timestamp(status));
            work.percolator()
                .resolve_lock(Timestamp(txn), commit, keys)
                .map_err(|error| Caller::of(txn).failure(error))?;
        }
        Ok(ResolveLockResponse::default())
    }
}
