//! Jobs that found no file descriptor left: all jobs wait for a while, and are tried again.

use std::time::Duration;

use crate::db::core::postponed::Postponements;
use crate::db::core::shared::Shared;
use crate::error::Error;
use crate::stats::notify;

impl Shared {
    /// Makes jobs wait after one of them failed with `reason`.
    pub(crate) fn postpone_jobs(&self, reason: &Error) {
        let now = self.opening.clock.monotonic();
        self.failure.postponed.postpone(reason, now);
        notify!(self.opening.listeners, job_postponed(reason));
    }

    /// To be called before a caller waits for jobs: see
    /// [`Postponed::retry_now`](crate::db::core::postponed::Postponed::retry_now).
    pub(crate) fn retry_postponed_jobs(&self) -> Postponements {
        let (seen, any) = self.failure.postponed.retry_now();
        if any {
            self.signals.raise_all();
        }
        seen
    }

    /// For how long no job may begin, since none could open its files; `None` if one may.
    pub(crate) fn jobs_postponed_for(&self) -> Option<Duration> {
        let clock = &self.opening.clock;
        self.failure.postponed.left(|| clock.monotonic())
    }
}
