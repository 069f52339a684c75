//! Attempts at a transaction that may conflict.

use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::kv::Budget;

/// Attempts of an operation. With the locks of a volume, only background work conflicts.
const ATTEMPTS: usize = 100;

/// Repeats an attempt at a transaction until one returns something. All have one budget.
///
/// # Errors
/// Those of an attempt; `EAGAIN` if it conflicted too often.
pub(in crate::volume) fn until_committed<T>(
    attempt: impl Fn(&Budget) -> Result<Option<T>>,
) -> Result<T> {
    let budget = Budget::default();
    for _ in 0..ATTEMPTS {
        if let Some(done) = attempt(&budget)? {
            return Ok(done);
        }
    }
    let what = "the operation conflicted with others again and again";
    Err(Error::of_store(Errno::AGAIN, what))
}
