//! Random histories of a store of versions with a range cache, under many configurations: with any
//! ranges held, loaded, pruned and dropped, every read agrees with the model.
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
    /// and lists that failed. Returns the counts of events in the histories.
    pub fn run(&self, run: &Run) -> Coverage {
        self.0.histories(run, &CONFIGURATIONS)
    }
}
