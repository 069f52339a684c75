//! Two scenarios at once.

use anyhow::Result;
use titan_mvcc::Store;
use titan_workload::keys::scatter;

use super::super::pools::{Job, Work};
use super::super::time::StoreTime;
use super::super::variants::Opened;
use super::{Event, Scenario};

/// Of all jobs, the share `first` are those of the first scenario.
pub(super) struct Together {
    pub(super) scenarios: [Box<dyn Scenario>; 2],
    pub(super) first: f64,
}

impl Work for Together {
    fn read(&self, number: u64, store: &Store) -> Result<Job> {
        let [first, second] = &self.scenarios;
        // Not what the scenarios draw from the number.
        let draw = scatter(number.wrapping_add(1 << 40)) as f64 / u64::MAX as f64;
        match draw < self.first {
            true => first.read(number, store),
            false => second.read(number, store),
        }
    }
}

impl Scenario for Together {
    fn load(&self, store: &Store, time: &StoreTime) -> Result<()> {
        // The tables without a history first: they are older.
        let mut scenarios = self.scenarios.iter().rev();
        scenarios.try_for_each(|scenario| scenario.load(store, time))
    }

    fn begin(&self, opened: &Opened) -> Result<()> {
        let mut scenarios = self.scenarios.iter();
        scenarios.try_for_each(|scenario| scenario.begin(opened))
    }

    fn happen(&self, event: Event, store: &Store) -> Result<()> {
        let mut scenarios = self.scenarios.iter();
        scenarios.try_for_each(|scenario| scenario.happen(event, store))
    }
}
