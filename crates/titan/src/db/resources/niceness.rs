//! The niceness of threads: the higher, the more of the processor other threads get.
//!
//! Owns the knowledge of whether threads of this process may lower their niceness again, which
//! needs a permission that few processes have. Promises: no niceness is raised that could not be
//! lowered when that was tried last, or a job that becomes urgent would stay slow. A permission may
//! end while a thread is nice: that thread stays so, and no other one becomes so. Assumes that a
//! thread restores the niceness that it raised.

use std::sync::OnceLock;
// Not those of models: niceness is of the process, and is left alone there.
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::io::Errno;
use rustix::process::{getpriority_process, setpriority_process};

/// Added niceness of a thread while it yields.
pub(super) const NICER: i32 = 10;
/// The highest niceness.
pub(super) const NICEST: i32 = 19;

/// Has the niceness of the calling thread.
pub(super) trait Scheduler: Sync {
    fn get(&self) -> Result<i32, Errno>;
    fn set(&self, niceness: i32) -> Result<(), Errno>;
}

/// The operating system's.
pub(super) struct Os;

impl Scheduler for Os {
    fn get(&self) -> Result<i32, Errno> {
        getpriority_process(None)
    }

    fn set(&self, niceness: i32) -> Result<(), Errno> {
        setpriority_process(None, niceness)
    }
}

/// Niceness of all threads of this process.
pub(super) static NICENESS: Niceness<Os> = Niceness::new(Os);

/// See the module.
pub(super) struct Niceness<S> {
    scheduler: S,
    /// Whether a niceness could be lowered again, tried once.
    came_back: OnceLock<bool>,
    /// Whether one could not be lowered since.
    stayed: AtomicBool,
}

impl<S: Scheduler> Niceness<S> {
    const fn new(scheduler: S) -> Self {
        Niceness {
            scheduler,
            came_back: OnceLock::new(),
            stayed: AtomicBool::new(false),
        }
    }

    /// Raises the niceness of the calling thread. Returns its former value; `None` if it is left
    /// alone.
    pub(super) fn raise(&self) -> Option<i32> {
        if !self.comes_back() {
            return None;
        }
        let usual = self.scheduler.get().ok()?;
        let nicer = usual.saturating_add(NICER).min(NICEST);
        // Where the system refuses, the job goes on as it is.
        self.scheduler.set(nicer).ok()?;
        Some(usual)
    }

    /// Gives the calling thread the niceness back that it had before it was raised.
    pub(super) fn restore(&self, usual: i32) {
        let again = mutant!(niceness_is_raised_again);
        if self.scheduler.set(usual).is_err() && !again {
            // The permission is gone. No other thread is to be caught the same way.
            self.stayed.store(true, Ordering::Relaxed);
        }
    }

    /// Whether threads may lower their niceness again: tried once, on a thread that ends, and no
    /// longer believed once it has failed.
    pub(super) fn comes_back(&self) -> bool {
        let came_back = *self.came_back.get_or_init(|| {
            let try_it = || {
                let usual = self.scheduler.get()?;
                self.scheduler.set(usual.saturating_add(1))?;
                self.scheduler.set(usual)
            };
            thread::scope(|scope| {
                let tried = thread::Builder::new().spawn_scoped(scope, try_it);
                tried.is_ok_and(|tried| matches!(tried.join(), Ok(Ok(()))))
            })
        });
        came_back && !self.stayed.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicI32;

    use super::*;

    /// One niceness for all threads, which can be lowered as long as that is permitted.
    struct Simulated {
        niceness: AtomicI32,
        permitted: AtomicBool,
    }

    impl Scheduler for Simulated {
        fn get(&self) -> Result<i32, Errno> {
            Ok(self.niceness.load(Ordering::SeqCst))
        }

        fn set(&self, niceness: i32) -> Result<(), Errno> {
            let lowers = niceness < self.get()?;
            if lowers && !self.permitted.load(Ordering::SeqCst) {
                return Err(Errno::ACCESS);
            }
            self.niceness.store(niceness, Ordering::SeqCst);
            Ok(())
        }
    }

    fn simulated(permitted: bool) -> Niceness<Simulated> {
        Niceness::new(Simulated {
            niceness: AtomicI32::new(0),
            permitted: AtomicBool::new(permitted),
        })
    }

    #[test]
    fn a_niceness_is_raised_and_taken_back() {
        let niceness = simulated(true);
        for usual in [0, 5, 15, NICEST] {
            niceness.scheduler.set(usual).unwrap();
            assert_eq!(niceness.raise(), Some(usual));
            let nicer = (usual + NICER).min(NICEST);
            assert_eq!(niceness.scheduler.get(), Ok(nicer));
            niceness.restore(usual);
            assert_eq!(niceness.scheduler.get(), Ok(usual));
        }
    }

    #[test]
    fn without_the_permission_to_lower_it_niceness_is_left_alone() {
        let niceness = simulated(false);
        assert_eq!(niceness.raise(), None);
        // The niceness that the trying thread could not lower went with that thread.
        niceness.scheduler.niceness.store(0, Ordering::SeqCst);
        assert_eq!(niceness.raise(), None);
        assert_eq!(niceness.scheduler.get(), Ok(0));
    }

    #[test]
    fn a_niceness_that_could_not_be_taken_back_is_not_raised_again() {
        let niceness = simulated(true);
        let usual = niceness.raise().unwrap();
        niceness.scheduler.permitted.store(false, Ordering::SeqCst);
        niceness.restore(usual);
        assert_eq!(niceness.scheduler.get(), Ok(NICER), "it stays");
        // Another thread, which has the usual niceness.
        niceness.scheduler.niceness.store(usual, Ordering::SeqCst);
        assert_eq!(niceness.raise(), None);
        assert_eq!(niceness.scheduler.get(), Ok(usual));
    }
}
