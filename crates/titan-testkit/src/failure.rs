//! The errors of checks: calls that failed, and violated expectations.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use titan::Error;

use crate::ledger::Mismatch;

/// Why a check failed.
#[derive(Clone, Debug)]
pub enum CheckFailure {
    /// A call of the engine failed. Where faults are injected, that may be legitimate.
    Failed(Error),
    /// A violated expectation, in words.
    Wrong(String),
}

/// A result, or why a check failed.
pub type Checked<T> = Result<T, CheckFailure>;

impl CheckFailure {
    /// A violated expectation.
    pub fn wrong(what: impl fmt::Display) -> CheckFailure {
        CheckFailure::Wrong(what.to_string())
    }
}

impl From<Error> for CheckFailure {
    fn from(error: Error) -> CheckFailure {
        CheckFailure::Failed(error)
    }
}

impl From<Mismatch> for CheckFailure {
    fn from(mismatch: Mismatch) -> CheckFailure {
        CheckFailure::wrong(mismatch)
    }
}

impl fmt::Display for CheckFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CheckFailure::Failed(error) => write!(f, "{error}"),
            CheckFailure::Wrong(what) => f.write_str(what),
        }
    }
}

/// The result of a check; a panic is a failure, too, which `wrong` makes of its text.
pub fn catch<T, E>(
    check: impl FnOnce() -> Result<T, E>,
    wrong: impl FnOnce(String) -> E,
) -> Result<T, E> {
    catch_unwind(AssertUnwindSafe(check)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        let text = text.unwrap_or("without a text");
        Err(wrong(format!("panicked: {text}")))
    })
}

/// Adds a context where each one is a failed call.
pub trait Doing<T> {
    /// Turns any failure into a violated expectation, with what was being done.
    fn doing(self, what: impl fmt::Display) -> Checked<T>;
}

impl<T, E: fmt::Display> Doing<T> for Result<T, E> {
    fn doing(self, what: impl fmt::Display) -> Checked<T> {
        self.map_err(|e| CheckFailure::Wrong(format!("{what}: {e}")))
    }
}

/// Returns an error unless the condition holds.
#[macro_export]
macro_rules! ensure {
    ($holds:expr, $($what:tt)*) => {
        if !$holds {
            return Err($crate::failure::CheckFailure::Wrong(format!($($what)*)));
        }
    };
}
pub use ensure;
