//! One sweep: the safe point moves by time, and ranges that are worth it are compacted.

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

/// For how long a version may have been droppable before the range is compacted that has fewer of them.
const OVERDUE_AFTER: Duration = Duration::from_secs(3600);

/// The sweeps of a store.
pub(crate) struct Sweeps {
    pub(super) core: Arc<Core>,
    /// For how long versions can be read; for ever, or as long as the safe point is not moved by hand.
    retention: Option<Duration>,
    /// The time for which they have been so.
    retained: Option<Mutex<Retained>>,
    /// The time between two sweeps.
    pub(super) interval: Duration,
    /// What all sweeps have done. Locked only for moments.
    stats: Mutex<SweepStats>,
    /// One sweep at a time.
    running: Mutex<()>,
}

/// What a sweep did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Swept {
    /// Where the safe point is now.
    pub safe_point: Timestamp,
    /// How many ranges of keys were compacted.
    pub ranges: u64,
}

/// What the sweeps of a store have done since it was opened.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct SweepStats {
    /// Sweeps that have ended well.
    pub sweeps: u64,
    /// Ranges of keys that they compacted.
    pub ranges: u64,
    /// Sweeps that have failed. What they did not do, the next one does.
    pub failed: u64,
    /// Why the last sweep failed, if it did.
    pub error: Option<Error>,
}

impl Sweeps {
    pub(crate) fn new(core: Arc<Core>, retention: Option<Duration>, interval: Duration) -> Self {
        let visible = core.order.visible();
        let opened = Moment {
            monotonic: core.clock.monotonic(),
            // The oracle of a program has just given its first timestamp.
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

    /// What they have done.
    pub(crate) fn stats(&self) -> SweepStats {
        self.stats.lock().clone()
    }

    /// What wakes the thread that does them.
    pub(super) fn wake(&self) -> &Wakeups {
        self.core.order.wake()
    }

    /// Sweeps. Waits for a sweep that is under way.
    ///
    /// # Errors
    /// `Oracle`, `Engine`; the next sweep does what was not done.
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

    /// Drops everything that can be dropped at the safe point.
    ///
    /// # Errors
    /// `Engine`.
    pub(crate) fn drop_all(&self) -> Result<()> {
        let safe_point = self.core.safe_point.droppable();
        if safe_point == Timestamp::ZERO {
            return Ok(());
        }
        // What is committed up to the safe point is in tables then.
        self.core.versions.flush()?;
        for range in Tables::load(&self.core.versions)?.with_droppable(safe_point) {
            self.compact(&range)?;
        }
        // A deletion goes one compaction after what it hid.
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
        // MUTANT: deletions that a compaction kept are left for ever.
        if mutant!(
            "deletions-left-for-ever",
            "-p titan-mvcc --test it sweeps::"
        ) {
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

    /// Moves the safe point to where the retention lets it go.
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
        // MUTANT: the safe point follows the present, whatever is to be retained.
        let to = match mutant!("retention-ignored", "-p titan-mvcc --test it sweeps::") {
            true => visible,
            false => to.min(visible),
        };
        // Locks keep the safe point back.
        let ended = end_expired_locks(&self.core, to);
        self.core.safe_point.advance_by_time(to, &self.core.order)?;
        ended
    }

    /// The time by which timestamps are made.
    fn time(&self) -> Result<Duration> {
        match self.core.timestamps.is_given {
            true => Ok(self.core.timestamps.oracle.next()?.unix_time()),
            false => Ok(self.core.clock.unix_time()),
        }
    }

    /// Where a look leads that an earlier opening has noted. Notes one if that is due. Cost: none, unless timestamps are ahead
    /// of the clock; then a synced write once in a retention.
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

    /// Where the safe point would be without holds.
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

    /// What could be dropped at this timestamp already is overdue.
    fn overdue(&self, safe_point: Timestamp) -> Timestamp {
        let now = match self.retention {
            Some(retention) => self.core.clock.unix_time().saturating_sub(retention),
            None => safe_point.unix_time(),
        };
        before(now, OVERDUE_AFTER).min(safe_point)
    }

    /// Whether there will be something to sweep after some time, though nothing is committed. If not, the next
    /// commit wakes the sweeper.
    pub(super) fn waits_for_time(&self) -> bool {
        if self.retention.is_none() {
            return false;
        }
        // MUTANT: commits wake the sweeper while it waits for time, so it sweeps all the time.
        let always = mutant!("every-commit-sweeps", "-p titan-mvcc --lib sweep::");
        if self.has_work_later() && !always {
            return true;
        }
        // ORDER: before the look at the visible timestamp, so no commit is missed.
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
