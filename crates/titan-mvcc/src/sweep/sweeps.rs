//! One sweep: moves the safe point by time, and compacts ranges with many old versions.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use titan::CompactRangeOptions;

use super::retained::{Moment, Retained, StoredSample, before};
use crate::core::Core;
use crate::error::{Error, Result};
use crate::meta::{Meta, NOTED, NOTED_AT};
use crate::old_versions::{KeyRange, Tables};
use crate::order::Wakeups;
use crate::percolator::end_expired_locks;
use crate::timestamp::Timestamp;

/// Droppable versions older than this make a range overdue, which needs fewer of them.
const OVERDUE_AFTER: Duration = Duration::from_secs(3600);

/// The sweeps of a store.
pub(crate) struct Sweeps {
    pub(super) core: Arc<Core>,
    /// The retention; `None` if only calls move the safe point.
    retention: Option<Duration>,
    /// The age of versions, with a retention.
    retained: Option<Mutex<Retained>>,
    /// The time between two sweeps.
    pub(super) interval: Duration,
    /// The results of all sweeps. Locked only for moments.
    stats: Mutex<SweepStats>,
    /// Locked during a sweep, so that sweeps exclude each other.
    running: Mutex<()>,
}

/// The result of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Swept {
    /// The safe point after the sweep.
    pub safe_point: Timestamp,
    /// Compacted ranges of keys.
    pub ranges: u64,
}

/// The results of all sweeps since the store was opened.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct SweepStats {
    /// Successful sweeps.
    pub sweeps: u64,
    /// Ranges of keys that they compacted.
    pub ranges: u64,
    /// Failed sweeps. The next one does their work.
    pub failed: u64,
    /// The error of the last sweep, if it failed.
    pub error: Option<Error>,
}

impl Sweeps {
    pub(crate) fn new(core: Arc<Core>, retention: Option<Duration>, interval: Duration) -> Self {
        let visible = core.order.visible();
        let opened = Moment {
            monotonic: core.clock.monotonic(),
            // The program's oracle has just given its first timestamp.
            clock: match core.timestamps.is_given {
                true => visible.unix_time(),
                false => core.clock.unix_time(),
            },
            visible,
        };
        let is_doubted = core.timestamps.clock_jump.is_some();
        let retained = retention.map(|time| Mutex::new(Retained::new(time, opened, is_doubted)));
        Sweeps {
            core,
            retention,
            retained,
            interval,
            stats: Mutex::default(),
            running: Mutex::default(),
        }
    }

    /// The results so far.
    pub(crate) fn stats(&self) -> SweepStats {
        self.stats.lock().clone()
    }

    /// The wake-ups of the thread.
    pub(super) fn wake(&self) -> &Wakeups {
        self.core.order.wake()
    }

    /// Sweeps. Waits for a running sweep.
    ///
    /// # Errors
    /// `Oracle`, `Engine`. The next sweep does the rest.
    pub(crate) fn sweep(&self) -> Result<Swept> {
        let _running = self.running.lock();
        let swept = self.run();
        let mut stats = self.stats.lock();
        match &swept {
            Ok(swept) => {
                stats.sweeps += 1;
                stats.ranges += swept.ranges;
                stats.error = None;
            }
            Err(e) => {
                stats.failed += 1;
                stats.error = Some(e.clone());
            }
        }
        swept
    }

    fn run(&self) -> Result<Swept> {
        let followed = self.follow_time();
        let safe_point = self.core.safe_point.droppable();
        self.core.versions.advance_garbage_moment(safe_point.0);
        let mut ranges = 0;
        if safe_point > Timestamp::ZERO {
            let tables = Tables::load(&self.core.versions)?;
            for range in tables.worth_compacting(safe_point, self.overdue(safe_point)) {
                if self.wake().is_stopped() {
                    break;
                }
                self.drop_within(&range, safe_point)?;
                ranges += 1;
            }
        }
        followed?;
        Ok(Swept { safe_point, ranges })
    }

    /// Drops every version that may be dropped at the safe point.
    ///
    /// # Errors
    /// `Engine`.
    pub(crate) fn drop_all(&self) -> Result<()> {
        let safe_point = self.core.safe_point.droppable();
        if safe_point == Timestamp::ZERO {
            return Ok(());
        }
        // Now every commit up to the safe point is in tables.
        self.core.versions.flush()?;
        for range in Tables::load(&self.core.versions)?.with_droppable(safe_point) {
            self.compact(&range)?;
        }
        // A deletion goes one compaction after the versions that it hid.
        for range in self.deletions_left(safe_point)? {
            self.compact(&range)?;
        }
        Ok(())
    }

    fn drop_within(&self, range: &KeyRange, safe_point: Timestamp) -> Result<()> {
        self.compact(range)?;
        let left = self.deletions_left(safe_point)?;
        let is_within = |left: &&KeyRange| left.begin <= range.end && left.end >= range.begin;
        for left in left.iter().filter(is_within) {
            self.compact(left)?;
        }
        Ok(())
    }

    fn deletions_left(&self, safe_point: Timestamp) -> Result<Vec<KeyRange>> {
        if mutant!(deletions_left_for_ever) {
            return Ok(Vec::new());
        }
        Ok(Tables::load(&self.core.versions)?.with_deletions(safe_point))
    }

    fn compact(&self, range: &KeyRange) -> Result<()> {
        let options = CompactRangeOptions {
            force_bottommost: true,
        };
        let (begin, end) = (Some(&range.begin[..]), Some(&range.end[..]));
        Ok(self.core.versions.compact_range(begin, end, &options)?)
    }

    /// Moves the safe point as far as the retention allows.
    fn follow_time(&self) -> Result<()> {
        let Some(retained) = &self.retained else {
            return Ok(());
        };
        let visible = self.core.order.visible();
        if visible <= self.core.safe_point.droppable() {
            // Nothing was committed since.
            return Ok(());
        }
        let mut retained = retained.lock();
        let now = Moment {
            monotonic: self.core.clock.monotonic(),
            clock: self.time()?,
            visible,
        };
        retained.add_sample(now);
        let to = retained
            .until(now.monotonic)
            .max(self.by_stored_sample(&retained)?);
        drop(retained);
        let to = match mutant!(retention_ignored) {
            true => visible,
            false => to.min(visible),
        };
        // The safe point does not pass locks.
        let ended = end_expired_locks(&self.core, to);
        self.core.safe_point.advance_by_time(to, &self.core.order)?;
        ended
    }

    /// The time of the clock that makes timestamps.
    fn time(&self) -> Result<Duration> {
        match self.core.timestamps.is_given {
            true => Ok(self.core.timestamps.oracle.next()?.unix_time()),
            false => Ok(self.core.clock.unix_time()),
        }
    }

    /// The limit by the sample on disk. Stores a new one if it is due. Cost: none, unless
    /// timestamps are ahead of the clock; then a synced write once in a retention.
    fn by_stored_sample(&self, retained: &Retained) -> Result<Timestamp> {
        let meta = Meta(self.core.db.clone());
        let noted = || -> Result<Option<StoredSample>> {
            let numbers = meta.get(NOTED_AT)?.zip(meta.get(NOTED)?);
            Ok(numbers.map(|(at, visible)| StoredSample {
                at: Duration::from_millis(at),
                visible: Timestamp(visible),
            }))
        };
        if self.core.timestamps.is_given || !retained.is_ahead() {
            return Ok(Timestamp::ZERO);
        }
        let Some((to, note)) = retained.by_stored_sample(noted()?) else {
            return Ok(Timestamp::ZERO);
        };
        if let Some(note) = note {
            let at = u64::try_from(note.at.as_millis()).unwrap_or(u64::MAX);
            meta.set_all(&[(NOTED_AT, at), (NOTED, note.visible.0)])?;
        }
        Ok(to)
    }

    /// The safe point that the retention alone would allow.
    pub(crate) fn limit_without_holds(&self) -> Timestamp {
        let visible = self.core.order.visible();
        let reach = match &self.retained {
            Some(retained) => retained
                .lock()
                .until(self.core.clock.monotonic())
                .min(visible),
            None => visible,
        };
        reach.max(self.core.safe_point.get())
    }

    /// Versions that could have been dropped at this safe point are overdue.
    fn overdue(&self, safe_point: Timestamp) -> Timestamp {
        let now = match self.retention {
            Some(retention) => self.core.clock.unix_time().saturating_sub(retention),
            None => safe_point.unix_time(),
        };
        before(now, OVERDUE_AFTER).min(safe_point)
    }

    /// Returns true if time alone will bring work. Otherwise the next commit wakes the sweeper.
    pub(super) fn waits_for_time(&self) -> bool {
        if self.retention.is_none() {
            return false;
        }
        let always = mutant!(every_commit_sweeps);
        if self.has_work_later() && !always {
            return true;
        }
        // ORDER: before the visible timestamp is read, so that no commit is missed.
        self.wake().await_commit();
        self.has_work_later()
    }

    fn has_work_later(&self) -> bool {
        let safe_point = self.core.safe_point.droppable();
        self.core.order.visible() > safe_point || self.overdue(safe_point) < safe_point
    }
}

#[cfg(test)]
mod tests {
    use crate::{Store, StoreOptions};

    use super::*;

    #[test]
    fn commits_do_not_wake_a_sweeper_that_waits_for_time() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), &StoreOptions::default()).unwrap();
        let mut transaction = store.begin();
        transaction.put(b"k", b"v");
        transaction.commit().unwrap();
        let core = Arc::clone(&store.percolator().0);
        let hour = Duration::from_secs(3600);
        let sweeps = Sweeps::new(core, Some(hour), hour);
        assert!(sweeps.waits_for_time());
        assert!(!sweeps.wake().awaits_commit());
    }
}
