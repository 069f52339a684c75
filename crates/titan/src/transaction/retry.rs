//! Repeats transactions that others were in the way of.
//!
//! A transaction that fails with a [retryable](Retryable) error is rolled back and run again from
//! its beginning, after a wait that is random and grows. Random, because transactions that met once
//! would otherwise meet again.

use std::time::Duration;

use super::handle::Transaction;
use super::options::TransactionOptions;
use crate::clock::SystemClock;
use crate::db::Db;
use crate::error::{Error, Result, Retryable};

/// Number of times that a transaction is run, and the time that it waits in between.
///
/// ```
/// use std::time::Duration;
/// use titan::{Retry, StdClock};
///
/// let retry = Retry { attempts: 3, ..Retry::default() };
/// let mut runs = 0;
/// let outcome: titan::Result<()> = retry.run(&StdClock, || {
///     runs += 1;
///     Err(titan::Error::new(titan::ErrorKind::Conflict, "as ever"))
/// });
/// assert!(outcome.unwrap_err().is_retryable());
/// assert_eq!(runs, 3);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// The most times that it is run: at least one. Default: 20.
    pub attempts: u32,
    /// The longest wait before the second run. Each later one is twice as long. Default: 1 ms.
    pub first_wait: Duration,
    /// No wait is longer. Default: 100 ms.
    pub longest_wait: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Retry {
            attempts: 20,
            first_wait: Duration::from_millis(1),
            longest_wait: Duration::from_millis(100),
        }
    }
}

impl Retry {
    /// Calls `attempt` until it succeeds, fails with an error that is not retryable, or has been
    /// called [`attempts`](Retry::attempts) times; returns its last result. Waits by the clock.
    ///
    /// # Errors
    /// The last one of `attempt`.
    pub fn run<T, E: Retryable>(
        &self,
        clock: &dyn SystemClock,
        mut attempt: impl FnMut() -> Result<T, E>,
    ) -> Result<T, E> {
        let mut runs = 1;
        loop {
            match attempt() {
                Err(e) if e.is_retryable() && runs < self.attempts => {}
                ended => return ended,
            }
            self.wait(clock, runs);
            runs += 1;
        }
    }

    /// Waits after so many runs.
    fn wait(&self, clock: &dyn SystemClock, runs: u32) {
        let doubled = 1_u32.checked_shl(runs - 1).unwrap_or(u32::MAX);
        let longest = self
            .first_wait
            .saturating_mul(doubled)
            .min(self.longest_wait);
        let part = match mutant!(no_jitter) {
            true => u32::MAX,
            false => clock.unique_id() as u32,
        };
        let wait = longest.mul_f64(f64::from(part) / f64::from(u32::MAX));
        let until = clock.monotonic().saturating_add(wait);
        loop {
            let left = until.saturating_sub(clock.monotonic());
            if left.is_zero() {
                return;
            }
            std::thread::sleep(clock.begin_wait(left));
        }
    }
}

impl Db {
    /// Runs `body` in an optimistic transaction and commits it; from the beginning again if others
    /// were in the way, as [`Retry::default`] says. Returns the result of `body`.
    ///
    /// `body` may run several times, so it should have no other effects, and take its first values
    /// from the transaction alone. To roll back, return an error.
    ///
    /// ```
    /// # fn main() -> titan::Result<()> {
    /// # let dir = tempfile::tempdir()?;
    /// # let db = titan::Db::open(dir.path(), &titan::Options::default())?;
    /// let visits = db.transaction(|t| {
    ///     let before = t.get_for_update(&db, "visits")?;
    ///     let before = before.map_or(0, |value| value[0]);
    ///     t.put(&db, "visits", [before + 1])?;
    ///     Ok(before + 1)
    /// })?;
    /// assert_eq!(visits, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of `body`, of [`Db::begin`] and of [`Transaction::commit`]. `Conflict` if it was run
    /// as often as is allowed.
    pub fn transaction<T>(&self, body: impl FnMut(&Transaction) -> Result<T>) -> Result<T> {
        self.transaction_with(&TransactionOptions::default(), &Retry::default(), body)
    }

    /// The same with options, and with errors of the caller's own type: it says by [`Retryable`]
    /// which of them are to be tried again.
    ///
    /// # Errors
    /// Those of [`Db::transaction`]; of pessimistic transactions also `LockTimeout` and `Deadlock`.
    pub fn transaction_with<T, E: From<Error> + Retryable>(
        &self,
        options: &TransactionOptions,
        retry: &Retry,
        mut body: impl FnMut(&Transaction) -> Result<T, E>,
    ) -> Result<T, E> {
        let clock = self.clock();
        retry.run(&*clock, || {
            let transaction = self.begin(options)?;
            // An error drops the transaction before the wait, and with it its locks.
            let value = body(&transaction)?;
            transaction.commit()?;
            Ok(value)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::{ErrorKind, Options, TransactionOptions};

    /// Counts the time that waits ask for, and lets it pass without waiting.
    #[derive(Default)]
    struct Hurried {
        now: AtomicU64,
        seed: AtomicU64,
    }

    impl SystemClock for Hurried {
        fn monotonic(&self) -> Duration {
            Duration::from_nanos(self.now.load(Ordering::Relaxed))
        }

        fn unix_time(&self) -> Duration {
            Duration::ZERO
        }

        fn begin_wait(&self, timeout: Duration) -> Duration {
            let nanos = timeout.as_nanos() as u64;
            self.now.fetch_add(nanos, Ordering::Relaxed);
            Duration::ZERO
        }

        fn unique_id(&self) -> u128 {
            let seed = self.seed.fetch_add(1, Ordering::Relaxed);
            u128::from(fastrand::Rng::with_seed(seed).u64(..))
        }
    }

    #[test]
    fn waits_grow_to_a_bound_and_are_not_alike() {
        let retry = Retry::default();
        for (runs, longest) in [(1, 1), (2, 2), (4, 8), (8, 100), (40, 100)] {
            let clock = Hurried::default();
            let mut waits = BTreeSet::new();
            for _ in 0..200 {
                let before = clock.monotonic();
                retry.wait(&clock, runs);
                waits.insert(clock.monotonic() - before);
            }
            let longest = Duration::from_millis(longest);
            let last = *waits.last().unwrap();
            assert!(last <= longest && last > longest / 2, "{runs}: {last:?}");
            assert!(waits.len() > 100, "{runs}: {}", waits.len());
        }
    }

    fn said(kind: ErrorKind) -> Error {
        Error::new(kind, "said")
    }

    #[test]
    fn only_what_may_succeed_is_tried_again_and_not_for_ever() {
        let clock = Hurried::default();
        let runs_of = |kinds: &[ErrorKind], attempts| {
            let mut runs = 0;
            let retry = Retry {
                attempts,
                ..Retry::default()
            };
            let outcome = retry.run(&clock, || {
                runs += 1;
                kinds.get(runs - 1).map_or(Ok(()), |kind| Err(said(*kind)))
            });
            (runs, outcome.err().map(|e| e.kind()))
        };
        let conflict = ErrorKind::Conflict;
        assert_eq!(runs_of(&[], 20), (1, None));
        assert_eq!(runs_of(&[conflict, ErrorKind::Deadlock], 20), (3, None));
        let stopped = ErrorKind::WritesStopped;
        assert_eq!(
            runs_of(&[conflict, stopped, conflict], 20),
            (2, Some(stopped))
        );
        assert_eq!(runs_of(&[conflict; 9], 4), (4, Some(conflict)));
        assert_eq!(runs_of(&[conflict; 9], 0), (1, Some(conflict)));
    }

    #[test]
    fn counters_that_threads_share_lose_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path(), &Options::default()).unwrap();
        let pessimistic = TransactionOptions::pessimistic();
        for options in [TransactionOptions::default(), pessimistic] {
            let retry = Retry {
                attempts: 1000,
                ..Retry::default()
            };
            let add = || {
                db.transaction_with(&options, &retry, |t| {
                    let before = t.get_for_update(&db, "sum")?.map_or(0, |value| value[0]);
                    std::thread::yield_now();
                    t.put(&db, "sum", [before + 1])
                })
            };
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| (0..25).for_each(|_| add().unwrap()));
                }
            });
            assert_eq!(db.get(b"sum").unwrap().unwrap(), [100][..]);
            db.delete(b"sum").unwrap();
        }
    }

    #[test]
    fn an_error_of_the_caller_rolls_back() {
        #[derive(Debug, PartialEq)]
        enum Own {
            TooLittle,
            Engine(ErrorKind),
        }
        impl From<Error> for Own {
            fn from(e: Error) -> Self {
                Own::Engine(e.kind())
            }
        }
        impl Retryable for Own {
            fn is_retryable(&self) -> bool {
                matches!(self, Own::Engine(kind) if kind.is_retryable())
            }
        }
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path(), &Options::default()).unwrap();
        let (options, retry) = (TransactionOptions::default(), Retry::default());
        let mut runs = 0;
        let outcome = db.transaction_with(&options, &retry, |t| {
            runs += 1;
            t.put(&db, "k", "v")?;
            if runs < 3 {
                // Another writer is in the way of the commit.
                db.put(b"k", b"other")?;
                return Ok(());
            }
            Err(Own::TooLittle)
        });
        assert_eq!((outcome, runs), (Err(Own::TooLittle), 3));
        assert_eq!(db.get(b"k").unwrap().unwrap(), "other");
    }
}
