//! The commit hook of a store, which ends the commits that the engine has published.
//!
//! Promises: a commit whose batch has its timestamp as its ticket has ended when the engine's write returns without an
//! error, unless the hook is poisoned. `commit_order` says why that is the moment.

use std::sync::{Arc, OnceLock};

use titan::{BypassedRange, CommitHook, CommittedOps, SequenceNumber};

use super::commit_order::CommitOrder;
use super::commits_in_flight::CommitsInFlight;
use crate::timestamp::Timestamp;

/// See the module.
pub(crate) struct StoreHook {
    /// That of the program.
    other: Option<Arc<dyn CommitHook>>,
    in_flight: OnceLock<Arc<CommitsInFlight>>,
}

impl StoreHook {
    /// Shows `other` all changes. Tickets are the store's own, and `other` is not told them.
    pub(crate) fn new(other: Option<Arc<dyn CommitHook>>) -> Self {
        StoreHook {
            other,
            in_flight: OnceLock::new(),
        }
    }

    /// From now on it ends these commits. Nothing was committed before.
    pub(crate) fn attach(&self, order: &CommitOrder) {
        // It is called once.
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
}
