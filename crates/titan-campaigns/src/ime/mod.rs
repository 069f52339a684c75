//! Random histories of a store of versions with a range cache, under many configurations: whatever
//! is held, loaded, pruned and dropped, everything that is read is as the model says.
//!
//! The histories are those of [`mvcc`](crate::mvcc), and a tenth of their operations are ones of
//! the cache.

pub mod configurations;

use configurations::CONFIGURATIONS;

use crate::mvcc::{Coverage, Mvcc};
use crate::run::Run;

/// Runs the histories of [`Mvcc`] with a range cache.
#[derive(Clone, Debug, Default)]
pub struct Ime(pub Mvcc);

impl Ime {
    /// Runs lists of operations under every configuration, on all cores. Counts passed operations,
    /// and lists that failed. Returns what the histories have met.
    pub fn run(&self, run: &Run) -> Coverage {
        self.0.histories(run, &CONFIGURATIONS)
    }
}
