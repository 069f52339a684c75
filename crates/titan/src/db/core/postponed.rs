//! Jobs that could not open a file, because the process has no file descriptor left: nothing of
//! them took effect, so they are retried after a while, and writes go on.

use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::sync::Mutex;

/// The time for which jobs wait before the first retry; each time twice as long, up to [`LONGEST`].
const FIRST: Duration = Duration::from_millis(20);
const LONGEST: Duration = Duration::from_secs(2);

/// Whether, why and until when jobs are postponed.
#[derive(Default)]
pub(crate) struct Postponed(Mutex<Jobs>);

#[derive(Default)]
struct Jobs {
    /// Number of times that a job failed for want of descriptors.
    count: u64,
    /// The last such failure; `None` once a job has succeeded since.
    reason: Option<Error>,
    /// The wait after that failure.
    wait: Duration,
    /// The monotonic time at which it ends.
    until: Duration,
}

/// Number of times that jobs had been postponed when a caller began to wait for them.
#[derive(Clone, Copy)]
pub(crate) struct Postponements(u64);

impl Postponed {
    /// A job failed with `reason` at the monotonic time `now`.
    pub(crate) fn postpone(&self, reason: &Error, now: Duration) {
        let mut jobs = self.0.lock();
        jobs.count += 1;
        jobs.wait = match jobs.reason.replace(reason.clone()) {
            Some(_) => (jobs.wait * 2).min(LONGEST),
            None => FIRST,
        };
        invariant!(
            (FIRST..=LONGEST).contains(&jobs.wait),
            "jobs are postponed for {:?}",
            jobs.wait
        );
        jobs.until = now + jobs.wait;
    }

    /// A job has succeeded.
    pub(crate) fn end(&self) {
        self.0.lock().reason = None;
    }

    /// For how long no job may begin; `None` if jobs are not postponed. `now` is read only if they
    /// are.
    pub(crate) fn left(&self, now: impl FnOnce() -> Duration) -> Option<Duration> {
        let jobs = self.0.lock();
        jobs.reason.as_ref()?;
        let left = jobs.until.saturating_sub(now());
        (!left.is_zero()).then_some(left)
    }

    /// To be called by a caller before it waits for jobs: postponed ones are retried at once, so
    /// that it learns soon whether they can go on. Also returns whether there are any.
    pub(crate) fn retry_now(&self) -> (Postponements, bool) {
        let mut jobs = self.0.lock();
        jobs.until = Duration::ZERO;
        (Postponements(jobs.count), jobs.reason.is_some())
    }

    /// Fails with `TooManyOpenFiles` if a job has been postponed since: a caller that waits for
    /// jobs might wait for ever.
    pub(crate) fn check_none_since(&self, seen: Postponements) -> Result<()> {
        let jobs = self.0.lock();
        match &jobs.reason {
            Some(reason) if jobs.count > seen.0 => {
                let message = "background jobs could not open files, and will be retried";
                Err(Error::new(ErrorKind::TooManyOpenFiles, message).with_source(reason.clone()))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_wait_longer_each_time_until_one_succeeds() {
        let postponed = Postponed::default();
        let reason = Error::new(ErrorKind::TooManyOpenFiles, "open file");
        let left = |now| postponed.left(|| now);
        let mut now = Duration::from_secs(1);
        assert_eq!(left(now), None);
        let (seen, false) = postponed.retry_now() else {
            panic!("none is postponed");
        };
        postponed.check_none_since(seen).unwrap();
        let mut waits = Vec::new();
        for _ in 0..9 {
            postponed.postpone(&reason, now);
            waits.extend(left(now));
            now += left(now).unwrap();
            assert_eq!(left(now), None, "the wait is over");
        }
        assert_eq!(waits.first(), Some(&FIRST));
        assert_eq!(waits.last(), Some(&LONGEST));
        assert!(waits.is_sorted(), "{waits:?}");
        let error = postponed.check_none_since(seen).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooManyOpenFiles);
        postponed.postpone(&reason, now);
        let (retried, true) = postponed.retry_now() else {
            panic!("they are postponed");
        };
        assert_eq!(left(now), None, "a caller waits for them");
        postponed.check_none_since(retried).unwrap();
        postponed.end();
        postponed.check_none_since(seen).unwrap();
        postponed.postpone(&reason, now);
        assert_eq!(left(now), Some(FIRST));
    }
}
