//! The rate of a due collection: as configured while users of the `Env` are active and nothing
//! waits for its end, else unthrottled.

use std::cell::Cell;
use std::time::Duration;

use crate::db::core::family::Family;
use crate::db::core::shared::Shared;
use crate::db::core::state::State;
use crate::env::Parts;
use crate::error::{Error, ErrorKind, Result};
use crate::format::ColumnFamilyId;
use crate::stats::StallEvent;

/// After so long without activity of users, a collection disturbs no user.
const IDLE: Duration = Duration::from_millis(20);

impl Shared {
    /// The throttle of a collection: none if a caller waits for the collection or no user is
    /// active, else the configured rate. Fails if collecting is paused.
    pub(super) fn rate_limit_of(&self, family: &Family) -> impl Fn(u64) -> Result<()> {
        let clock = &*self.opening.clock;
        let Parts {
            activity,
            collection_rate: rate,
            ..
        } = self.opening.env.parts();
        let due = Cell::new(Duration::ZERO);
        // When activity of users was last seen, and their activity up to then.
        let seen = Cell::new((clock.monotonic(), activity.all()));
        move |bytes| {
            due.set(due.get().max(clock.monotonic()) + rate.time_for(bytes));
            loop {
                let seen_progress = self.signals.progress.seen();
                self.check_open()?;
                let now = clock.monotonic();
                let left = due.get().saturating_sub(now);
                self.heed_ended_versions();
                let mut state = self.state.lock();
                if state.collections.pauses > 0 {
                    return Err(paused());
                }
                if self.is_waited_for(&mut state, family.id, now) {
                    // An unthrottled step is not made up for later.
                    due.set(now);
                    return Ok(());
                }
                if left.is_zero() {
                    return Ok(());
                }
                let seen_now = activity.all();
                if seen_now != seen.get().1 {
                    seen.set((now, seen_now));
                } else if now.saturating_sub(seen.get().0) >= IDLE {
                    // A step that disturbed no user is not made up for either.
                    due.set(now);
                    return Ok(());
                }
                let step = clock.begin_wait(left.min(IDLE));
                drop(state);
                self.signals.progress.wait_for(seen_progress, step);
                let waited = clock.monotonic().saturating_sub(now);
                self.state.lock().collections.waited_for_rate += waited;
            }
        }
    }

    /// Whether a due collection of a family must run unthrottled: since it is urgent, or since that
    /// of another family or database is, which has to wait for the end of this one. Much garbage
    /// alone is no reason: while nobody writes, space does not grow.
    fn is_waited_for(&self, state: &mut State, family: ColumnFamilyId, now: Duration) -> bool {
        // `resume` waits for the end of this, and so does every writer.
        if state.collections.manual > 0 || self.failure.get().is_some() {
            return true;
        }
        if self.opening.env.is_collector_awaited_by_another() {
            return true;
        }
        let writes = state
            .recent_writes
            .are_going_on(self.counters.last_sequence(), now)
            || state.stalls.strongest != StallEvent::Normal;
        !state.families.contains_key(&family) || (writes && state.is_collecting_urgent())
    }
}

/// Why a running collection ends.
fn paused() -> Error {
    Error::new(ErrorKind::Busy, "collecting garbage is paused")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::SystemClock;
    use crate::db::core::running_jobs::RunningJob;
    use crate::db::tests::clock::TestClock;
    use crate::gc::selection::Urgency;
    use crate::{Db, Options, StallCause, stats};

    #[test]
    fn the_most_urgent_family_is_collected_first_and_hurries_another() {
        let dir = tempfile::tempdir().unwrap();
        let mut options = Options::default();
        options.default.disable_auto_compactions = true;
        let db = Db::open(dir.path(), &options).unwrap();
        let calm = ColumnFamilyId::DEFAULT;
        let busy = db
            .create_column_family("busy", options.default.clone())
            .unwrap()
            .id();
        let shared = &db.core.shared;
        shared.update_stalls(shared.state.lock());
        let mut state = shared.state.lock();
        for (id, urgency) in [(calm, Urgency::Low), (busy, Urgency::High)] {
            let garbage = state
                .families
                .get_mut(&id)
                .unwrap()
                .evaluation
                .garbage
                .as_mut();
            garbage.unwrap().urgency = Some(urgency);
        }
        let first = state.to_collect().map(|f| f.family.id);
        let stall = StallEvent::Delayed(StallCause::SpaceAmplification);
        state.stalls.strongest = stall;
        let now = shared.opening.clock.monotonic();
        let hurries = shared.is_waited_for(&mut state, calm, now);
        state.stalls.strongest = StallEvent::Normal;
        drop(state);
        assert_eq!(first, Some(busy));
        assert!(hurries, "the urgent one waits for its end");
    }

    #[test]
    fn much_garbage_is_urgent_while_somebody_writes_or_has_to_wait_and_no_longer() {
        let dir = tempfile::tempdir().unwrap();
        let clock = Arc::new(TestClock::default());
        let mut options = Options::default();
        options.db.clock = Arc::clone(&clock) as _;
        options.db.blob_garbage_collection_rate = 1 << 20;
        // No idle cleanup, so that no other thread advances the clock.
        options.default.disable_auto_compactions = true;
        let db = Db::open(dir.path(), &options).unwrap();
        let shared = &db.core.shared;
        // Keeps the background thread from looking for garbage.
        let job = RunningJob::Collection;
        shared.state.lock().running.begin(job);
        // A user reads meanwhile.
        let statistics = Arc::clone(&shared.opening.statistics);
        clock.at_waits(move || stats::add(&statistics.gets, 1));
        let id = ColumnFamilyId::DEFAULT;
        let set = |urgency, stall| {
            let mut state = shared.state.lock();
            state.stalls.strongest = stall;
            let garbage = &mut state.families.get_mut(&id).unwrap().evaluation.garbage;
            garbage.as_mut().unwrap().urgency = urgency;
        };
        let family = shared.family(id).unwrap();
        let limit_rate = shared.rate_limit_of(&family);
        let takes = || {
            let before = clock.monotonic();
            limit_rate(1 << 20).unwrap();
            (clock.monotonic() - before).as_millis()
        };

        db.put(b"k", b"v").unwrap();
        set(Some(Urgency::High), StallEvent::Normal);
        assert_eq!(takes(), 0, "somebody has just written");
        set(Some(Urgency::Low), StallEvent::Normal);
        assert_eq!(takes(), 1000, "the rate that the options say");
        clock.advance(Duration::from_secs(1));
        set(Some(Urgency::High), StallEvent::Normal);
        assert_eq!(takes(), 1000, "nobody writes");
        set(
            Some(Urgency::High),
            StallEvent::Delayed(StallCause::SpaceAmplification),
        );
        assert_eq!(takes(), 0, "writes are delayed");
        set(Some(Urgency::High), StallEvent::Normal);
        assert_eq!(takes(), 1000);
        db.put(b"k", b"v").unwrap();
        assert_eq!(takes(), 0, "writes have been resumed");
        clock.advance(Duration::from_millis(999));
        assert_eq!(takes(), 0);
        clock.advance(Duration::from_millis(1));
        assert_eq!(takes(), 1000);
        shared.state.lock().running.end(job);
    }
}
