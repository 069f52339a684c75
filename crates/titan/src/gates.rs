//! The macro `gate!`, which marks the points at which a test can stop a thread.
//!
//! Some bugs show only if one thread acts between two steps of another. A gate between the steps
//! makes that order certain:
//!
//! ```text
//! let flushed = self.write_out(family, immutables)?;
//! gate!("flush: written");
//! self.install_flushes(&[flushed], synced_to)?;
//! ```
//!
//! A unit test stops the next thread there, waits until it has come, does something else, and lets
//! it go on; see the module `gates` of the test kit. A thread passes a gate at which no test stops
//! it. The part of the name before the colon names the thread's activity.
//!
//! Only the unit tests of this crate have gates. In every other build, that of the integration
//! tests and those of the model checkers included, `gate!` expands to nothing.
//!
//! # Whose gates
//!
//! Many tests run in one process at the same time, and a gate must stop only the threads of its own
//! test. So each test has a set of gates, and a thread-local variable names the set of a thread. A
//! thread has the set of the thread that started it ([`inherit`]), if a test or the engine started
//! it; all other threads have none and pass. So a database needs no mark, and code that knows no
//! database, as that of a blob file, can have gates.
//!
//! The thread that directs a test has no set, or it would stop and wait for itself. It has one only
//! while it opens a database, for the threads of that database to inherit.
//!
//! A gate may be passed while a lock is held. A test that stops a thread there must not wait for
//! anything that needs the lock.

/// A point at which a test can stop the thread: see the module.
#[cfg(all(test, not(any(loom, shuttle))))]
macro_rules! gate {
    ($name:literal) => {
        ::titan_testkit::gates::come_to($name)
    };
}

#[cfg(not(all(test, not(any(loom, shuttle)))))]
macro_rules! gate {
    ($name:literal) => {};
}

#[cfg(all(test, not(any(loom, shuttle))))]
pub(crate) use titan_testkit::gates::inherit;

/// Wraps the function that a thread of the engine runs: it has the gates of the calling thread.
#[cfg(not(all(test, not(any(loom, shuttle)))))]
#[inline(always)]
pub(crate) fn inherit<F>(run: F) -> F {
    run
}
