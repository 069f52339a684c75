//! Attempts at a transaction that may conflict.

use rustix::io::Errno;

use crate::error::{Error, Result};

/// Attempts of an operation. With the locks of a volume, only background work conflicts.
const ATTEMPTS: usize = 100;

/// Repeats an attempt at a transaction until one returns something.
///
/// # Errors
/// Those of an attempt; `EAGAIN` if it conflicted too often.
pub(in crate::volume) fn until_committed<T>(attempt: impl Fn() -> Result<Option<T>>) -> Result<T> {
    for _ in 0..ATTEMPTS {
        if let Some(done) = attempt()? {
            return Ok(done);
        }
    }
    let what = "the operation conflicted with others again and again";
    Err(Error::new(Errno::AGAIN, what))
}
