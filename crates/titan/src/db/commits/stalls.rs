//! Stalled writes: how long they wait, and when that is evaluated again.

use std::time::Duration;

use crate::batch::BatchOp;
use crate::db::core::shared::Shared;
use crate::db::core::state::{FamilyState, State};
use crate::db::resources::lack_of_room::NoRoom;
use crate::error::{Error, ErrorKind, Result};
use crate::stats::{self, HistogramKind, StallCause, StallEvent, perf_context};
use crate::sync::MutexGuard;
use crate::write::queue::{Group, Lead};

/// The longest single sleep of a delayed write, so that it notices when the delay is over.
const MAX_DELAY: Duration = Duration::from_millis(10);

impl Shared {
    /// Fails with `Busy` if a write would have to wait now.
    pub(crate) fn check_not_stalled(&self) -> Result<()> {
        match self.stall() {
            StallEvent::Normal => Ok(()),
            // The delay depends on the contents of the batch.
            StallEvent::Delayed(StallCause::SpaceAmplification) => Ok(()),
            StallEvent::Delayed(cause) | StallEvent::Stopped(cause) => Err(stalled(cause)),
        }
    }

    /// Stall of writes. Takes no lock if they are not.
    fn stall(&self) -> StallEvent {
        match self.admission.are_writes_stalled() {
            true => self.state.lock().stalls.strongest,
            false => StallEvent::Normal,
        }
    }

    /// Waits while writes are stalled. Writers in line that do not want to wait get `Busy`. Cost:
    /// takes no lock if writes are not stalled.
    pub(super) fn wait_out_stall(&self, lead: &Lead<'_>, group: &Group) -> Result<()> {
        self.wait_out(Load::Group(group), |cause| {
            if !mutant!(those_in_line_wait_for_a_stopped_leader) {
                lead.refuse_waiting(|options| options.no_slowdown, &stalled(cause));
            }
        })
    }

    /// The same, for the next bytes of a value that goes to a blob file at once. The caller does
    /// not lead the queue: other writers wait as long as their own writes must.
    pub(crate) fn wait_out_stall_of_value(&self, bytes: u64, no_slowdown: bool) -> Result<()> {
        self.wait_out(Load::Value { bytes, no_slowdown }, |_| ())
    }

    fn wait_out(&self, load: Load<'_>, refuse_waiting: impl Fn(StallCause)) -> Result<()> {
        if !self.admission.are_writes_stalled() {
            return Ok(());
        }
        let state = self.state.lock();
        let stall = state.stalls.strongest;
        if stall == StallEvent::Normal {
            return Ok(());
        }
        let delay = self.delay(&state, load)?;
        drop(state);
        if delay.is_zero() && matches!(stall, StallEvent::Delayed(_)) {
            return Ok(());
        }
        let clock = &*self.opening.clock;
        let started = clock.monotonic();
        let postponements = self.retry_postponed_jobs();
        let elapsed = || clock.monotonic().saturating_sub(started);
        let mut waited = false;
        let outcome = loop {
            let seen = self.signals.progress.seen();
            let stall = self.state.lock().stalls.strongest;
            match stall {
                StallEvent::Normal => break Ok(()),
                StallEvent::Stopped(cause) | StallEvent::Delayed(cause) if load.no_slowdown() => {
                    break Err(stalled(cause));
                }
                StallEvent::Delayed(cause) => {
                    let left = delay.saturating_sub(elapsed());
                    if left.is_zero() {
                        break Ok(());
                    }
                    refuse_waiting(cause);
                    let step = clock.begin_wait(left.min(MAX_DELAY));
                    self.signals.progress.wait_for(seen, step);
                }
                StallEvent::Stopped(cause) => {
                    match self.no_room_for_writes(load) {
                        Some(NoRoom::AtAll(_)) if self.retries_flush() => {}
                        Some(NoRoom::AtAll(error)) => break Err(error),
                        Some(NoRoom::ButForDeletions) => break Ok(()),
                        None => {}
                    }
                    refuse_waiting(cause);
                    let ends = || {
                        self.check_not_stopped()?;
                        self.check_open()?;
                        self.failure.postponed.check_none_since(postponements)
                    };
                    if let Err(e) = ends() {
                        break Err(e);
                    }
                    gate!("stall: waited for");
                    self.signals.progress.wait(seen);
                }
            }
            waited = true;
        };
        if waited {
            let (statistics, waited) = (&self.opening.statistics, elapsed());
            stats::add(&statistics.stall_micros, waited.as_micros() as u64);
            let nanos = waited.as_nanos() as u64;
            perf_context::add(|running| &running.write_delay_time, nanos);
            if let Some(detailed) = statistics.detailed() {
                detailed.record(HistogramKind::WriteStall, nanos);
            }
        }
        outcome
    }

    fn no_room_for_writes(&self, load: Load<'_>) -> Option<NoRoom> {
        let state = self.state.lock();
        state.no_room_for_writes(&self.files.dir, load.is_deletions())
    }

    /// Time that a write waits while writes are delayed: that of the cause that takes longest.
    fn delay(&self, state: &State, load: Load<'_>) -> Result<Duration> {
        let rate = self.opening.options.load().delayed_write_rate;
        let mut delay = Duration::ZERO;
        if state.stalls.delays.for_tree {
            delay = Duration::from_secs_f64(load.bytes() as f64 / rate as f64);
        }
        if state.stalls.delays.for_space {
            delay = delay.max(state.collections.freeing.delay(
                load.put_bytes()?,
                state.stalls.space_excess,
                rate,
            ));
        }
        Ok(delay)
    }

    /// Evaluates the families that have changed, and how writes are stalled; releases the state
    /// lock; notifies listeners of changes. Wakes the thread that collects garbage if something is
    /// to be collected.
    pub(crate) fn update_stalls(&self, mut state: MutexGuard<'_, State>) {
        if self.signals.take_ended_version() {
            let families = state.families.values_mut();
            families.for_each(FamilyState::has_changed);
        }
        state.evaluate(&self.admission.notifier);
        let writes_stalled = state.stalls.strongest != StallEvent::Normal;
        self.admission.set_writes_stalled(writes_stalled);
        let urgent = writes_stalled || state.is_level0_long();
        self.admission.set_urgent(urgent);
        self.state_priority(&state, urgent);
        let kept = state.keeps_for_snapshots();
        self.signals.set_kept_for_snapshots(kept);
        self.signals.progress.raise();
        let to_collect = || state.to_collect().is_some();
        if state.to_count().is_some() || to_collect() || state.may_drop_tombstones() {
            self.signals.collector.raise();
        }
        drop(state);
        if self.admission.notifier.notify(&self.opening.listeners) {
            self.signals.progress.raise();
        }
    }
}

/// Data that waits to be written.
#[derive(Clone, Copy)]
enum Load<'a> {
    Group(&'a Group),
    /// A piece of a value that is written without a batch.
    Value {
        bytes: u64,
        no_slowdown: bool,
    },
}

impl Load<'_> {
    fn no_slowdown(self) -> bool {
        match self {
            Load::Group(group) => group.options.no_slowdown,
            Load::Value { no_slowdown, .. } => no_slowdown,
        }
    }

    fn is_deletions(self) -> bool {
        match self {
            Load::Group(group) => is_deletions(group),
            Load::Value { .. } => false,
        }
    }

    fn bytes(self) -> u64 {
        match self {
            Load::Group(group) => group.batches.iter().map(|b| b.size_bytes() as u64).sum(),
            Load::Value { bytes, .. } => bytes,
        }
    }

    /// Bytes that take space: deletions give it back.
    fn put_bytes(self) -> Result<u64> {
        let group = match self {
            Load::Group(group) => group,
            Load::Value { bytes, .. } => return Ok(bytes),
        };
        let mut bytes = 0;
        for op in group.batches.iter().flat_map(|batch| batch.iter()) {
            if let BatchOp::Put { key, value, .. } = op? {
                bytes += (key.len() + value.len()) as u64;
            }
        }
        Ok(bytes)
    }
}

/// Whether a group deletes, and does nothing else.
fn is_deletions(group: &Group) -> bool {
    let mut ops = group.batches.iter().flat_map(|batch| batch.iter());
    ops.all(|op| {
        matches!(
            op,
            Ok(BatchOp::Delete { .. }
                | BatchOp::SingleDelete { .. }
                | BatchOp::DeleteRange { .. }
                | BatchOp::LogData { .. })
        )
    })
}

fn stalled(cause: StallCause) -> Error {
    Error::new(ErrorKind::Busy, format!("writes are stalled: {cause}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::WriteBatch;
    use crate::db::core::state::Delays;
    use crate::{ColumnFamilyId, Db, Options, WriteOptions};

    #[test]
    fn two_causes_delay_writes_for_as_long_as_the_slower_one() {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path(), &Options::default()).unwrap();
        let shared = &db.core.shared;
        let mut batch = WriteBatch::new();
        batch
            .put(ColumnFamilyId::DEFAULT, b"k", [7; 1 << 20])
            .unwrap();
        let mut state = shared.state.lock();
        state.stalls.space_excess = 0.9;
        let mut delay = |for_tree, for_space| {
            state.stalls.delays = Delays {
                for_tree,
                for_space,
            };
            let group = Group::alone(batch.clone(), WriteOptions::default());
            shared.delay(&state, Load::Group(&group)).unwrap()
        };
        let (tree, space) = (delay(true, false), delay(false, true));
        assert!(!tree.is_zero() && !space.is_zero() && tree != space);
        assert_eq!(delay(true, true), tree.max(space));
        assert!(delay(false, false).is_zero());
    }
}
