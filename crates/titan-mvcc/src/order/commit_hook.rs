//! The commit hook of a store, which ends the commits that the engine has published.
//!
//! Promises: when the engine's write returns without an error, the commit whose timestamp is the
//! ticket of its batch has ended, unless the hook is poisoned. `commit_order` explains the choice
//! of that moment.

use std::sync::{Arc, OnceLock};

use titan::{BypassedRange, CommitHook, CommittedOps, SequenceNumber};

use super::commit_order::CommitOrder;
use super::commits_in_flight::CommitsInFlight;
use crate::timestamp::Timestamp;

/// The hook, around that of the program.
pub(crate) struct StoreHook {
    /// The program's own hook.
    other: Option<Arc<dyn CommitHook>>,
    in_flight: OnceLock<Arc<CommitsInFlight>>,
}

impl StoreHook {
    /// Passes all changes to the program's hook, but not the tickets, which are the store's own.
    pub(crate) fn new(other: Option<Arc<dyn CommitHook>>) -> Self {
        StoreHook {
            other,
            in_flight: OnceLock::new(),
        }
    }

    /// Connects the hook to the commits in flight, before the first commit.
    pub(crate) fn attach(&self, order: &CommitOrder) {
        // Called once.
        let _ = self.in_flight.set(Arc::clone(order.commits_in_flight()));
    }
}

impl CommitHook for StoreHook {
    fn before_publish(&self, first: SequenceNumber, operations: &CommittedOps<'_>) {
        if let Some(other) = &self.other {
            other.before_publish(first, operations);
        }
    }

    fn after_publish(&self, tickets: &mut dyn Iterator<Item = u64>) {
        if let Some(in_flight) = self.in_flight.get() {
            in_flight.end(tickets.map(Timestamp));
        }
    }

    fn on_bypass(&self, range: &BypassedRange<'_>, sequence: SequenceNumber) {
        if let Some(other) = &self.other {
            other.on_bypass(range, sequence);
        }
    }

    fn refuses_files(&self) -> Option<String> {
        Some("a store of versions".to_owned())
    }
}
