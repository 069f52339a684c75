//! Pessimistic locks and their release.

use std::time::Duration;

use bytes::Bytes;
use titan_mvcc::{PessimisticLock, Timestamp, Wait};

use super::call::{Call, Work};
use super::failure::Failure;
use super::key_errors::Caller;
use crate::proto::kvrpcpb::write_conflict::Reason;
use crate::proto::kvrpcpb::{
    AlreadyExist, Assertion, KeyError, PessimisticLockKeyResult, PessimisticLockRequest,
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
        for key in &keys {
            work.check_sizes(key, &[])?;
        }
        let (start, for_update) = (Timestamp(self.start_version), Timestamp(self.for_update_ts));
        let needs_absence = |at: usize| {
            self.mutations
                .get(at)
                .is_some_and(|mutation| mutation.assertion() == Assertion::NotExist)
        };
        let checks_absence = (0..keys.len()).any(needs_absence);
        let asks = self.return_values || self.check_existence || self.lock_only_if_exists;
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
            return_values: asks || checks_absence,
        };
        let caller = Caller {
            start: self.start_version,
            primary: &self.primary_lock,
            reason: Reason::PessimisticRetry,
        };
        let percolator = work.percolator();
        let values = percolator
            .pessimistic_lock(&keys, &request)
            .map_err(|error| caller.failure(error))?;
        let existing = |(at, value): (usize, &Option<Bytes>)| value.is_some() && needs_absence(at);
        if let Some(at) = values.iter().enumerate().position(existing) {
            percolator
                .pessimistic_rollback(&keys, start, for_update)
                .map_err(|error| caller.failure(error))?;
            return Err(Failure::from(KeyError {
                already_exist: Some(AlreadyExist {
                    key: keys.get(at).map_or_else(Bytes::new, |key| Bytes::clone(key)),
                }),
                ..KeyError::default()
            }));
        }
        if self.lock_only_if_exists {
            let found = keys.iter().zip(&values);
            let missing = found.filter_map(|(key, value)| value.is_none().then_some(*key));
            let missing: Vec<&Bytes> = missing.collect();
            percolator
                .pessimistic_rollback(&missing, start, for_update)
                .map_err(|error| caller.failure(error))?;
        }
        Ok(self.answer(values))
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
    fn answer(&self, values: Vec<Option<Bytes>>) -> PessimisticLockResponse {
        let mut answer = PessimisticLockResponse::default();
        let asks = self.return_values || self.check_existence;
        if self.wake_up_mode() == PessimisticLockWakeUpMode::WakeUpModeForceLock {
            let result = |value: Option<Bytes>| PessimisticLockKeyResult {
                existence: asks && value.is_some(),
                value: value.filter(|_| self.return_values).unwrap_or_default(),
                ..PessimisticLockKeyResult::default()
            };
            answer.results = values.into_iter().map(result).collect();
            return answer;
        }
        if asks {
            answer.not_founds = values.iter().map(Option::is_none).collect();
        }
        if self.return_values {
            answer.values = values.into_iter().map(Option::unwrap_or_default).collect();
        }
        answer
    }
}

impl Call for PessimisticRollbackRequest {
    fn run(self, work: &Work<'_>) -> Result<PessimisticRollbackResponse, Failure> {
        let within = work.within(self.context.as_ref(), KeyForm::Transactional)?;
        within.keys(&self.keys)?;
        let (start, for_update) = (Timestamp(self.start_version), Timestamp(self.for_update_ts));
        work.percolator()
            .pessimistic_rollback(&self.keys, start, for_update)
            .map_err(|error| Caller::of(self.start_version).failure(error))?;
        Ok(PessimisticRollbackResponse::default())
    }
}
