//! Dropping expired values in compactions.
//!
//! A value in a blob file is not read for this. It stays until it is overwritten or deleted; reads
//! do not find it.

use std::sync::Arc;

use titan::{
    CompactionFilter, CompactionFilterFactory, Decision, FilterContext, FilterEntry, Result,
    SystemClock,
};

use super::entry::Entry;

/// Makes filters that drop expired values.
pub(crate) struct DropExpired {
    pub(crate) clock: Arc<dyn SystemClock>,
}

impl CompactionFilterFactory for DropExpired {
    fn name(&self) -> &str {
        "titan-server.DropExpired"
    }

    fn create(&self, _context: &FilterContext<'_>) -> Option<Box<dyn CompactionFilter>> {
        let now = self.clock.unix_time().as_secs();
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
