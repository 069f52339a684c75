//! The state that the clients of a round share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use titan_testkit::failure::{CheckFailure, Checked};
use titan_testkit::versions::isolation::{Changes, History};

use super::node::ServedNode;

/// A transaction whose client does not know its fate.
pub(super) struct Pending {
    pub(super) start: u64,
    pub(super) primary: u8,
    pub(super) changes: Changes,
}

pub(super) struct Shared<'a> {
    pub(super) node: &'a ServedNode,
    pub(super) history: History,
    /// Transactions with unknown fates.
    pub(super) pending: Mutex<Vec<Pending>>,
    /// For each client, a timestamp before all that it still uses.
    pub(super) floors: Vec<AtomicU64>,
    /// Transactions that have ended, in any way.
    pub(super) ended: AtomicU64,
    transactions: u64,
    is_stopped: AtomicBool,
    over: Mutex<()>,
    is_over: Condvar,
    failure: Mutex<Option<CheckFailure>>,
}

impl<'a> Shared<'a> {
    pub(super) fn new(node: &'a ServedNode, transactions: u64, clients: u64) -> Self {
        Shared {
            node,
            history: History::default(),
            pending: Mutex::default(),
            floors: (0..clients).map(|_| AtomicU64::new(0)).collect(),
            ended: AtomicU64::new(0),
            transactions,
            is_stopped: AtomicBool::new(false),
            over: Mutex::new(()),
            is_over: Condvar::new(),
            failure: Mutex::new(None),
        }
    }

    /// Counts a transaction that has ended.
    pub(super) fn count(&self) {
        let ended = self.ended.fetch_add(1, Ordering::Relaxed) + 1;
        if ended >= self.transactions {
            self.stop();
        }
    }

    /// Whether clients begin no more transactions.
    pub(super) fn is_over(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    pub(super) fn stop(&self) {
        let _over = self.over.lock();
        self.is_stopped.store(true, Ordering::Relaxed);
        self.is_over.notify_all();
    }

    /// Waits. Returns `true` at once when the round is over.
    pub(super) fn wait_for_the_end(&self, time: Duration) -> bool {
        let mut over = self.over.lock();
        if !self.is_over() {
            self.is_over.wait_for(&mut over, time);
        }
        self.is_over()
    }

    /// Notes the first failure, and ends the round.
    pub(super) fn fail(&self, failure: CheckFailure) {
        self.failure.lock().get_or_insert(failure);
        self.stop();
    }

    /// The first failure.
    pub(super) fn failure(&self) -> Checked<()> {
        self.failure.lock().take().map_or(Ok(()), Err)
    }
}
