//! What a check runs into: calls that failed, and things that are not as they should be.

use std::fmt;

use titan::Error;
use titan_testkit::history::Diff;

/// Why a check did not come to its end.
#[derive(Clone, Debug)]
pub enum Trouble {
    /// A call of the engine failed. Where faults are injected, that may be as it should be.
    Failed(Error),
    /// Something is wrong, in words.
    Wrong(String),
}

/// Something good, or trouble.
pub type Checked<T> = Result<T, Trouble>;

impl Trouble {
    /// Something is wrong.
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

/// Says what was being done where any trouble is one too many.
pub trait Doing<T> {
    /// Turns trouble of whatever kind into something wrong, with what was being done.
    fn doing(self, what: impl fmt::Display) -> Checked<T>;
}

impl<T, E: fmt::Display> Doing<T> for Result<T, E> {
    fn doing(self, what: impl fmt::Display) -> Checked<T> {
        self.map_err(|e| Trouble::Wrong(format!("{what}: {e}")))
    }
}

/// Returns what is wrong unless the condition holds.
macro_rules! ensure {
    ($holds:expr, $($what:tt)*) => {
        if !$holds {
            return Err($crate::trouble::Trouble::Wrong(format!($($what)*)));
        }
    };
}
pub(crate) use ensure;
