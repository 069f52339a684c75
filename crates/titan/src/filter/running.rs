//! Whether code of a filter runs on this thread. Its job waits for it, so it must not wait for
//! jobs.

use std::cell::Cell;

use crate::error::{Error, Result};
use crate::panics::{Panicked, contain};

thread_local! {
    static RUNS: Cell<bool> = const { Cell::new(false) };
}

/// Calls code of a filter or of its factory.
pub(crate) fn run<T>(call: impl FnOnce() -> T) -> Result<T, Panicked> {
    let before = RUNS.replace(true);
    let outcome = contain(call);
    RUNS.set(before);
    outcome
}

/// Fails with `InvalidArgument` in code of a filter.
pub(crate) fn check_may_wait_for_jobs() -> Result<()> {
    match RUNS.get() {
        true => Err(Error::invalid_argument(
            "called from a compaction filter, this would wait for the job of the filter",
        )),
        false => Ok(()),
    }
}
