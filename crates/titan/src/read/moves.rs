//! The movements of an iterator, counted where no other thread counts.

use crate::stats::{self, Stripe};

/// Movements that the statistics do not have yet.
#[derive(Default)]
pub(super) struct Moves {
    pub(super) seeks: u64,
    /// Those that found a key.
    pub(super) seeks_found: u64,
    /// Steps forward.
    pub(super) nexts: u64,
    /// Steps back.
    pub(super) prevs: u64,
}

impl Moves {
    /// Adds them to the counters of a thread.
    pub(super) fn count(&self, to: &Stripe) {
        stats::add(&to.seeks, self.seeks);
        stats::add(&to.seeks_found, self.seeks_found);
        stats::add(&to.nexts, self.nexts);
        stats::add(&to.prevs, self.prevs);
    }
}
