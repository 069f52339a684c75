//! Pessimistic locks and their release.

use std::cell::OnceCell;
use std::time::Duration;

use bytes::Bytes;
use titan_mvcc::{AnswerRoom, Error, LockDemands, LockedKey, PessimisticLock, Timestamp, Wait};

use super::call::{Call, Work};
use super::failure::Failure;
use super::key_errors::Caller;
use crate::proto::kvrpcpb::write_conflict::Reason;
use crate::proto::kvrpcpb::{
    Assertion, Op, PessimisticLockKeyResult, PessimisticLockKeyResultType, PessimisticLockRequest,
    PessimisticLockResponse, PessimisticLockWakeUpMode, PessimisticRollbackRequest,
    PessimisticRollbackResponse,
};
use crate::regions::KeyForm;

/// The longest wait for a lock, as TiKV's. Then the client looks whether the owner lives.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

impl Call for PessimisticLockRequest {
    fn run(self, work: &Work<'_>) -> Result<PessimisticLockResponse, Failure> {
        let within = work.within(self.context.as_ref(), KeyForm::Transactional)?;
        let keys: Vec<&Bytes> = self.mutations.iter().map(|m| &m.key).collect();
        within.keys(&keys)?;
        within.any_keys([&self.primary_lock])?;
        work.check_room(self.context.as_ref())?;
        for mutation in &self.mutations {
            if mutation.op != i32::from(Op::PessimisticLock) {
                let reason = format!("operation {} is no lock", mutation.op);
                return Err(Failure::abort(reason));
            }
        }
        let (start, for_update) = (Timestamp(self.start_version), Timestamp(self.for_update_ts));
        let absent = self.mutations.iter();
        let absent = absent.filter(|mutation| mutation.assertion() == Assertion::NotExist);
        let absent: Vec<&[u8]> = absent.map(|mutation| &*mutation.key).collect();
        let request = PessimisticLock {
            primary: &self.primary_lock,
            start,
            for_update,
            since: for_update,
            ttl: Duration::from_millis(self.lock_ttl),
            wait: match work.wait {
                Duration::ZERO => Wait::No,
                time => Wait::For(time),
            },
            return_values: self.return_values,
        };
        // A client that got no answer would not know of its locks, nor would one that has left.
        let refused = OnceCell::new();
        let has_room = |key: &LockedKey| {
            let value = key.value.as_ref().map_or(0, Bytes::len);
            let room = work
                .check_client()
                .and_then(|()| work.reserve(size_of::<PessimisticLockKeyResult>() + value));
            room.map_err(|failure| refused.set(failure)).is_ok()
        };
        let demands = LockDemands {
            absent: &absent,
            only_existing: self.lock_only_if_exists,
            existence: self.check_existence,
            despite_conflicts: self.is_forced(),
            room: Some(AnswerRoom(&has_room)),
        };
        let caller = Caller {
            start: self.start_version,
            primary: &self.primary_lock,
            reason: Reason::PessimisticRetry,
        };
        let percolator = work.percolator();
        let locked = percolator.pessimistic_lock_with(&keys, &request, &demands);
        let locked = locked.map_err(|error| match (error, refused.into_inner()) {
            (Error::NotAdmitted { .. }, Some(refusal)) => refusal,
            // A conflict would make the client try again with a new timestamp, for ever.
            (error @ Error::RolledBack { .. }, _) => Failure::abort(error.to_string()),
            (error, _) => caller.failure(error),
        })?;
        Ok(self.answer(locked))
    }

    fn wait(&self) -> Duration {
        match self.wait_timeout {
            0 => LONGEST_WAIT,
            1.. => Duration::from_millis(self.wait_timeout.unsigned_abs()).min(LONGEST_WAIT),
            _ => Duration::ZERO,
        }
    }
}

impl PessimisticLockRequest {
    /// Returns true if keys are to be locked even if they were written meanwhile.
    fn is_forced(&self) -> bool {
        self.wake_up_mode() == PessimisticLockWakeUpMode::WakeUpModeForceLock
    }

    fn answer(&self, locked: Vec<LockedKey>) -> PessimisticLockResponse {
        let mut answer = PessimisticLockResponse::default();
        if self.is_forced() {
            answer.results = locked.into_iter().map(result).collect();
            return answer;
        }
        if self.return_values || self.check_existence {
            let is_missing = |key: &LockedKey| key.exists == Some(false);
            answer.not_founds = locked.iter().map(is_missing).collect();
        }
        if self.return_values {
            let values = locked.into_iter().map(|key| key.value.unwrap_or_default());
            answer.values = values.collect();
        }
        answer
    }
}

fn result(locked: LockedKey) -> PessimisticLockKeyResult {
    let kind = match locked.conflict {
        None => PessimisticLockKeyResultType::LockResultNormal,
        Some(_) => PessimisticLockKeyResultType::LockResultLockedWithConflict,
    };
    PessimisticLockKeyResult {
        r#type: kind.into(),
        existence: locked.exists == Some(true),
        value: locked.value.unwrap_or_default(),
        locked_with_conflict_ts: locked.conflict.unwrap_or_default().0,
        skip_resolving_lock: false,
    }
}

impl Call for PessimisticRollbackRequest {
    fn run(self, work: &Work<'_>) -> Result<PessimisticRollbackResponse, Failure> {
        let within = work.within(self.context.as_ref(), KeyForm::Transactional)?;
        within.keys(&self.keys)?;
        let (start, for_update) = (Timestamp(self.start_version), Timestamp(self.for_update_ts));
        let percolator = work.percolator();
        let released = match self.keys.is_empty() {
            false => percolator.pessimistic_rollback(&self.keys, start, for_update),
            // All of the transaction in the region.
            true => {
                let for_update = match for_update {
                    Timestamp::ZERO => Timestamp::MAX,
                    for_update => for_update,
                };
                let (from, to) = within.bounds();
                let from = from.unwrap_or_default();
                percolator.pessimistic_rollback_range(start, for_update, &from, to.as_deref())
            }
        };
        released.map_err(|error| Caller::of(self.start_version).failure(error))?;
        Ok(PessimisticRollbackResponse::default())
    }
}
