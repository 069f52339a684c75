//! The wake-ups of the sweeper: time, the end of a hold, a commit after everything was swept.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use titan::SystemClock;

/// Wakes the sweeper. Raising is cheap, and no wake-up is lost.
#[derive(Default)]
pub(crate) struct Wakeups {
    state: Mutex<State>,
    changed: Condvar,
    /// True if the sweeper waits for the next commit.
    awaits_commit: AtomicBool,
}

#[derive(Default)]
struct State {
    is_raised: bool,
    is_stopped: bool,
}

impl Wakeups {
    /// Wakes the sweeper.
    pub(crate) fn raise(&self) {
        self.state.lock().is_raised = true;
        self.changed.notify_all();
    }

    /// Stops the sweeper.
    pub(crate) fn stop(&self) {
        self.state.lock().is_stopped = true;
        self.changed.notify_all();
    }

    /// Returns true once the sweeper was stopped.
    pub(crate) fn is_stopped(&self) -> bool {
        self.state.lock().is_stopped
    }

    /// Wakes the sweeper if it waits for a commit. Cost: one atomic exchange.
    pub(crate) fn on_commit(&self) {
        // Not a load: either this sees the flag, or the thread that sets it sees the commit.
        if self.awaits_commit.swap(false, Ordering::AcqRel) {
            self.raise();
        }
    }

    /// Announces that the sweeper is about to wait for a commit. It must check for one after this.
    pub(crate) fn await_commit(&self) {
        self.awaits_commit.swap(true, Ordering::AcqRel);
    }

    /// Returns true if the next commit wakes the sweeper.
    #[cfg(test)]
    pub(crate) fn awaits_commit(&self) -> bool {
        self.awaits_commit.load(Ordering::Acquire)
    }

    /// Waits for a wake-up, or until the monotonic time `until`. Returns false if the sweeper was
    /// stopped.
    pub(crate) fn wait(&self, until: Option<(&dyn SystemClock, Duration)>) -> bool {
        let mut state = self.state.lock();
        loop {
            if state.is_stopped {
                return false;
            }
            if std::mem::take(&mut state.is_raised) {
                return true;
            }
            let Some((clock, until)) = until else {
                self.changed.wait(&mut state);
                continue;
            };
            let left = until.saturating_sub(clock.monotonic());
            if left.is_zero() {
                return true;
            }
            // A simulated clock advances here, and leaves nothing to wait for.
            let step = clock.begin_wait(left);
            if !step.is_zero() {
                self.changed.wait_for(&mut state, step);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use titan::StdClock;

    use super::*;

    #[test]
    fn what_is_raised_before_the_wait_is_not_lost() {
        let wake = Wakeups::default();
        wake.raise();
        assert!(wake.wait(None));
        wake.await_commit();
        wake.on_commit();
        assert!(wake.wait(None));
        // The sweeper waits for no commit now.
        wake.on_commit();
        let soon = StdClock.monotonic();
        assert!(wake.wait(Some((&StdClock, soon))));
        wake.stop();
        wake.raise();
        assert!(!wake.wait(None));
        assert!(wake.is_stopped());
    }

    #[test]
    fn a_thread_that_waits_is_woken() {
        let wake = Arc::new(Wakeups::default());
        let waiting = Arc::clone(&wake);
        let waits = thread::spawn(move || {
            let for_ever = Duration::from_secs(1 << 40);
            (
                waiting.wait(Some((&StdClock, for_ever))),
                waiting.wait(None),
            )
        });
        wake.raise();
        while wake.state.lock().is_raised {
            thread::yield_now();
        }
        wake.stop();
        assert_eq!(waits.join().unwrap(), (true, false));
    }
}
