//! Dropping expired values in compactions.
//!
//! A value in a blob file is not read for this. It stays until it is overwritten or deleted; reads
//! do not find it.

use titan::{
    CompactionFilter, CompactionFilterFactory, Decision, FilterContext, FilterEntry, Result,
};

use super::entry::Entry;
use crate::clock::seconds_now;

/// Makes filters that drop expired values.
pub(crate) struct DropExpired;

impl CompactionFilterFactory for DropExpired {
    fn name(&self) -> &str {
        "titan-server.DropExpired"
    }

    fn create(&self, _context: &FilterContext<'_>) -> Option<Box<dyn CompactionFilter>> {
        let now = seconds_now();
        Some(Box::new(Filter { now }))
    }
}

struct Filter {
    now: u64,
}

impl CompactionFilter for Filter {
    fn filter(&mut self, entry: &FilterEntry<'_>) -> Result<Decision> {
        if entry.is_separated() {
            return Ok(Decision::Keep);
        }
        Ok(match Entry::decode(entry.value().fetch()?, self.now) {
            Some(_) => Decision::Keep,
            None => Decision::Remove,
        })
    }
}
