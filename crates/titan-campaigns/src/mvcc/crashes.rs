//! The machine stops: the commits left must be a prefix of all, with all that were durable.

use std::collections::BTreeSet;

use titan_mvcc::{Timestamp, VersionKind};
use titan_testkit::failure::{Checked, Doing, ensure};
use titan_testkit::sim::Loss;
use titan_testkit::versions::Kind;

use super::transactions::{Handle, State};
use super::world::World;

impl World {
    /// Marks the present promise in the journal, unless it was made before.
    pub(super) fn promise(&mut self) {
        let now = (self.durable, self.commits.len(), self.safe_point);
        if self.promised.last() != Some(&now) {
            self.promised.push(now);
            self.vfs.mark(self.promised.len() as u64);
        }
    }

    /// Goes on with the files that a crash leaves, so many operations of the file system ago. The
    /// model forgets the commits that it lost.
    pub(super) fn crash(&mut self, loss: Loss, back: usize) -> Checked<()> {
        self.promise();
        self.seen.crashes += 1;
        let journal = self.vfs.journal();
        let point = journal.len().saturating_sub(back);
        let mark = journal.acknowledged_before(point).checked_sub(1);
        let promised = mark.and_then(|mark| self.promised.get(mark as usize));
        let (durable, written, safe_point) = promised.copied().unwrap_or(self.opened);
        // The old process is gone; its later writes go to a file system that nobody sees any more.
        self.end_process()?;
        self.count_cache();
        drop(self.cache.take());
        self.vfs = journal.crash_at(point, &loss);
        self.reopen()?;
        let mut left = self.commits.len();
        let durable = if loss == Loss::None { written } else { durable };
        while left > durable && !self.is_there(left - 1)? {
            left -= 1;
        }
        // It may be that of an operation in the middle of which the machine stopped.
        let found = self.store.safe_point();
        ensure!(
            safe_point <= found && found <= self.safe_point,
            "after a crash the safe point is {found}, not from {safe_point} to {}",
            self.safe_point
        );
        self.safe_point = found;
        let lost: BTreeSet<Timestamp> = self.commits.drain(left..).map(|(at, _)| at).collect();
        self.durable = left;
        for at in &lost {
            self.model.forget(*at);
        }
        self.names.retain(|_, at| !lost.contains(at));
        self.starts.retain(|_, (_, at)| !lost.contains(at));
        let last = self.commits.iter().map(|(at, _)| *at).max();
        self.acknowledged = last.unwrap_or_default();
        let now = self.store.now();
        self.names.retain(|_, at| *at <= now);
        // Others may get the same timestamps, if the crash took all that was known of these.
        self.txns.retain(|_, txn| txn.start <= now);
        self.clients.retain(|start| *start <= now);
        self.reads.clear();
        let loses_calls = back > 0 || (loss != Loss::None && !self.configuration.sync);
        for txn in self.txns.values_mut() {
            let is_kept = matches!(txn.state, State::Committed(at) if !lost.contains(&at));
            if is_kept || !loses_calls {
                continue;
            }
            // Some of its prewrites may be lost, or its rollback, so its client must give it up.
            txn.handle = Handle::Gone;
            txn.end(State::RolledBack);
            txn.records.clear();
            if txn.is_of_client() {
                txn.state = State::Open;
                txn.is_doubtful = true;
                txn.locked = txn.order.iter().cloned().collect();
            }
        }
        Ok(())
    }

    /// Whether the store has one of the commits.
    fn is_there(&self, n: usize) -> Checked<bool> {
        let Some((at, keys)) = self.commits.get(n) else {
            return Ok(false);
        };
        // The locks of an async commit that is whole, which reads do not end if they write nothing.
        let mut starts = self.starts.iter();
        if let Some((start, _)) = starts.find(|(_, known)| **known == (Kind::Async, *at)) {
            let calls = self.store.percolator();
            let has_lock = |key: &Vec<u8>| {
                let lock = calls.scan_locks(Timestamp::MAX, key, 1).pop();
                lock.is_some_and(|lock| *lock.key == **key && lock.start == *start)
            };
            if keys.iter().all(has_lock) {
                return Ok(true);
            }
        }
        let present = self.store.snapshot();
        for key in keys {
            // Ends the lock of an async commit.
            present.get(key).doing("get after a crash")?;
            for version in self.store.versions(key).doing("versions")? {
                let version = version.doing("a version")?;
                if version.commit == *at && version.kind != VersionKind::Rollback {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Ends the process: its transactions end, those of clients go on.
    pub(super) fn end_process(&mut self) -> Checked<()> {
        self.count_engine()?;
        if !self.waiters.is_empty() {
            // Before the handles go: a transaction that goes rolls back, and a call that waits for
            // it would go on unseen.
            self.store.close().doing("closing")?;
            self.end_waiters()?;
        }
        self.snapshots.clear();
        self.holds.clear();
        self.iters.clear();
        self.loads.clear();
        let (clients, others): (Vec<_>, Vec<_>) =
            self.txns.values_mut().partition(|txn| txn.is_of_client());
        for txn in others {
            txn.handle = Handle::Gone;
            if txn.state == State::Open {
                txn.end(State::RolledBack);
            }
            txn.locked.clear();
        }
        // After the handles have gone, which may take time.
        let now = self.clock.elapsed();
        for txn in clients {
            txn.alive.1 = now;
        }
        Ok(())
    }

    /// After an opening only clients have locks.
    pub(super) fn check_locks(&self) -> Checked<()> {
        let calls = self.store.percolator();
        for lock in calls.scan_locks(Timestamp::MAX, b"", usize::MAX) {
            let is_clients = self.clients.contains(&lock.start);
            ensure!(is_clients, "{lock:?} is left after an opening");
        }
        Ok(())
    }
}
