//! The errors of checks: calls that failed, and violated expectations.

use std::fmt;

use titan::Error;
use titan_testkit::history::Diff;

/// Why a check failed.
#[derive(Clone, Debug)]
pub enum Trouble {
    /// A call of the engine failed. Where faults are injected, that may be legitimate.
    Failed(Error),
    /// A violated expectation, in words.
    Wrong(String),
}

/// A result, or trouble.
pub type Checked<T> = Result<T, Trouble>;

impl Trouble {
    /// A violated expectation.
    pub fn wrong(what: impl fmt::Display) -> Trouble {
        Trouble::Wrong(what.to_string())
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Trouble {
        Trouble::Failed(error)
    }
}

impl From<Diff> for Trouble {
    fn from(diff: Diff) -> Trouble {
        Trouble::wrong(diff)
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::Failed(error) => write!(f, "{error}"),
            Trouble::Wrong(what) => f.write_str(what),
        }
    }
}

/// Adds a context where every trouble is a failure.
pub trait Doing<T> {
    /// Turns any trouble into a violated expectation, with what was being done.
    fn doing(self, what: impl fmt::Display) -> Checked<T>;
}

impl<T, E: fmt::Display> Doing<T> for Result<T, E> {
    fn doing(self, what: impl fmt::Display) -> Checked<T> {
        self.map_err(|e| Trouble::Wrong(format!("{what}: {e}")))
    }
}

/// Returns an error unless the condition holds.
macro_rules! ensure {
    ($holds:expr, $($what:tt)*) => {
        if !$holds {
            return Err($crate::trouble::Trouble::Wrong(format!($($what)*)));
        }
    };
}
pub(crate) use ensure;
