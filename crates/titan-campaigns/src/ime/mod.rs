//! Random histories of a store of versions with a range cache, under many configurations: whatever
//! is held, loaded, pruned and dropped, everything that is read is as the model says.
//!
//! The histories are those of [`mvcc`](crate::mvcc), and a tenth of their operations are ones of
//! the cache.

pub mod configurations;

use configurations::CONFIGURATIONS;

use crate::mvcc::{self, Mvcc};
use crate::run::Run;

/// Size of a campaign.
#[derive(Clone, Copy, Debug)]
pub struct Ime {
    /// Operations of all configurations together, in each round.
    pub operations: u64,
    /// The number of rounds, if no time is given.
    pub rounds: u64,
}

impl Default for Ime {
    fn default() -> Self {
        Ime {
            operations: 5_000_000,
            rounds: 1,
        }
    }
}

impl Ime {
    /// Runs a history under every configuration, on all cores. Counts passed operations, and
    /// histories that failed.
    pub fn run(self, run: &Run) {
        let size = Mvcc {
            operations: self.operations,
            rounds: self.rounds,
        };
        mvcc::histories(run, &CONFIGURATIONS, size);
    }
}
