//! What the sweeper waits for: time, the end of what kept the safe point back, a commit where all was swept.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use titan::SystemClock;

/// How the sweeper is woken. Raising it is cheap, and nothing that is raised is lost.
#[derive(Default)]
pub(crate) struct Wakeups {
    state: Mutex<State>,
    changed: Condvar,
    /// Whether the sweeper waits for the next commit.
    awaits_commit: AtomicBool,
}

#[derive(Default)]
struct State {
    is_raised: bool,
    is_stopped: bool,
}

impl Wakeups {
    /// There may be something to sweep.
    pub(crate) fn raise(&self) {
        self.state.lock().is_raised = true;
        self.changed.notify_all();
    }

    /// The sweeper is to end.
    pub(crate) fn stop(&self) {
        self.state.lock().is_stopped = true;
        self.changed.notify_all();
    }

    /// Whether it is to end.
    pub(crate) fn is_stopped(&self) -> bool {
        self.state.lock().is_stopped
    }

    /// A commit has become visible. Cost: one atomic exchange.
    pub(crate) fn on_commit(&self) {
        // Not just read: then either this sees the flag, or the thread that sets it sees the commit.
        if self.awaits_commit.swap(false, Ordering::AcqRel) {
            self.raise();
        }
    }

    /// The sweeper is about to wait for a commit. It must look for one after this.
    pub(crate) fn await_commit(&self) {
        self.awaits_commit.swap(true, Ordering::AcqRel);
    }

    /// Whether the next commit will raise it.
    #[cfg(test)]
    pub(crate) fn awaits_commit(&self) -> bool {
        self.awaits_commit.load(Ordering::Acquire)
    }

    /// Waits until it is raised, or until `until` of the monotonic time of the clock. False if the sweeper is
    /// to end.
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
            // A simulated clock advances here, and returns nothing to wait for.
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
        // Nobody waits for one now.
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
