//! Failed checks, and how they are reported.

use std::fmt;

/// A violated expectation, in words.
#[derive(Clone, Debug)]
pub struct Failure(pub String);

pub type Checked<T> = Result<T, Failure>;

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Says what was being done.
pub trait Context<T> {
    fn context(self, what: impl fmt::Display) -> Checked<T>;
}

impl<T, E: fmt::Display> Context<T> for Result<T, E> {
    fn context(self, what: impl fmt::Display) -> Checked<T> {
        self.map_err(|e| Failure(format!("{what}: {e}")))
    }
}

impl<T> Context<T> for Option<T> {
    fn context(self, what: impl fmt::Display) -> Checked<T> {
        self.ok_or_else(|| Failure(what.to_string()))
    }
}

/// The seeds of a test: `usual` of them, or `TIFS_TEST_SEEDS` times as many.
pub fn seeds(first: u64, usual: u64) -> std::ops::Range<u64> {
    let times = std::env::var("TIFS_TEST_SEEDS")
        .ok()
        .and_then(|times| times.parse().ok());
    first..first + usual * times.unwrap_or(1)
}
