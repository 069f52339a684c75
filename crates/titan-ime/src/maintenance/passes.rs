//! Maintenance: the passes over a cache, and the loads of its program.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering;
use std::time::Duration;

use titan_mvcc::{Store, codec};

use crate::content::keys::EncodedRange;
use crate::error::Result;
use crate::maintenance::attached::Attached;
use crate::maintenance::audit::{Audit, AuditReport, Auditor};
use crate::maintenance::policy::Policy;
use crate::maintenance::range_load::Load;
use crate::maintenance::segment_load::{Kind, Progress, SegmentLoad};
use crate::stats::Dropped;

/// The most leaves of rows for a gap; a load with more is abandoned.
const LEAVES_OF_GAP: usize = 16;

/// A cache with its store, policy and auditor.
pub(crate) struct Maintenance {
    pub(crate) attached: Attached,
    pub(crate) store: Store,
    pub(crate) auditor: Auditor,
    pub(crate) safe_lag: Duration,
    pub(crate) audited_per_mille: u32,
    /// None if the program chooses the ranges.
    pub(crate) policy: Option<Policy>,
}

impl Maintenance {
    /// Moves the limits of pruning to the store's readers of now.
    pub(crate) fn update_target(&self) {
        self.attached
            .shared
            .update_target(&self.store, self.safe_lag);
    }

    /// Begins to load a range of keys for the program.
    pub(crate) fn begin_load(
        &self,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
        kind: Kind,
    ) -> Result<Load> {
        self.store.db().check_not_inherited()?;
        self.update_target();
        let lower = from.map(codec::encode_key).unwrap_or_default();
        let range = (lower, to.map(codec::encode_key));
        Load::begin(&self.attached, range, kind)
    }

    /// Runs a pass. A panic is counted, and the next pass goes on.
    pub(crate) fn maintain(&self) {
        let passed = catch_unwind(AssertUnwindSafe(|| self.pass()));
        match passed {
            Ok(()) => self.attached.shared.faults.passed(),
            Err(panic) if mutant!(maintenance_panics_on) => {
                resume_unwind(panic);
            }
            Err(panic) => {
                // What panics again here leaves the cache off, which is always right.
                let survived = catch_unwind(AssertUnwindSafe(|| self.survive(&*panic)));
                if survived.is_err() {
                    self.attached.shared.faults.turn_off();
                }
            }
        }
    }

    /// Goes on after a pass that panicked.
    fn survive(&self, panic: &(dyn Any + Send)) {
        let shared = &self.attached.shared;
        if shared.faults.panicked(panic) {
            shared.faults.turn_off();
            shared.give_back();
        } else {
            // ORDER: a segment gets or loses its content at one moment, so one without it answers
            // nothing. It may have been left so for good, and then its range could not be held
            // again.
            let left = mutant!(segments_without_content_stay);
            shared.drop_segments(Dropped::Panicked, |segment| {
                segment.root().is_none() && !left
            });
        }
        self.note();
    }

    fn pass(&self) {
        if self.attached.shared.faults.is_off() {
            self.attached.shared.maintain();
            self.note();
            return;
        }
        self.update_target();
        #[cfg(test)]
        self.attached.shared.may_panic("gaps");
        self.load_gaps();
        self.attached.shared.maintain();
        if let Some(policy) = &self.policy {
            policy.decide(&self.attached);
        }
        self.with_audit(|audit| self.auditor.audit_some(self.audited_per_mille, audit));
    }

    /// Compares everything with the engine.
    pub(crate) fn audit(&self) -> Result<AuditReport> {
        self.store.db().check_not_inherited()?;
        self.with_audit(|audit| audit.all())
    }

    fn with_audit<T>(&self, run: impl FnOnce(&Audit<'_>) -> T) -> T {
        run(&Audit {
            attached: &self.attached,
            safe_point: &|| self.store.safe_point(),
        })
    }

    /// Writes the hot set, and ends the load under way.
    pub(crate) fn remember(&self) {
        if let Some(policy) = &self.policy {
            policy.remember(&self.attached);
        }
    }

    /// Writes faults to the hot set.
    fn note(&self) {
        if let Some(policy) = &self.policy {
            policy.note(&self.attached);
        }
    }

    /// Loads the gaps that scans reported, while there is room.
    fn load_gaps(&self) {
        let budget = &self.attached.shared.budget;
        for gap in self.attached.shared.cold.gaps.take() {
            let policy = self
                .policy
                .as_ref()
                .filter(|_| !mutant!(dropped_gap_is_loaded_at_once));
            if policy.is_some_and(|policy| policy.is_barred(&gap)) {
                continue;
            }
            if budget.used() < budget.limit() / 4 * 3 && self.load_gap(gap).is_ok_and(|held| held) {
                self.attached
                    .shared
                    .counters
                    .gaps
                    .fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Loads a gap. On an error (it overlaps by now, does not fit, or cannot be read) scans go on
    /// as before. False if it is no gap any more.
    fn load_gap(&self, gap: EncodedRange) -> Result<bool> {
        let mut load = SegmentLoad::begin(&self.attached, gap, Kind::Gap)?;
        while load.leaves() <= LEAVES_OF_GAP {
            if load.step()? == Progress::Done {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
#[cfg(workspace)]
mod tests {
    use std::time::Duration;

    use std::sync::Arc;

    use titan::DbOptions;
    use titan_mvcc::{Direction, StoreOptions};
    use titan_testkit::sim::SimVfs;

    use crate::{CacheOptions, RangeCache, Remembered};

    /// A hundred rows, of which the second half is dead. The first half is held; two of its
    /// segments are small.
    fn cache(store: &StoreOptions, maintenance: Option<Duration>) -> RangeCache {
        let cache_options = CacheOptions {
            maintenance,
            segment_size: 4_000,
            safe_lag: Duration::ZERO,
            ..CacheOptions::default()
        };
        let cache = RangeCache::open("/store", store, &cache_options).unwrap();
        for is_put in [true, false] {
            let mut transaction = cache.store().begin();
            for key in 0..100_u8 {
                match (is_put, key) {
                    (true, _) => transaction.put(&[key], &[key; 100]),
                    (false, 50..) => transaction.delete(&[key]),
                    (false, _) => {}
                }
            }
            transaction.commit().unwrap();
        }
        for (from, to) in [(0, 40), (40, 41), (41, 42), (42, 50)] {
            cache.load(Some(&[from]), Some(&[to])).unwrap();
        }
        cache
    }

    fn store_options() -> StoreOptions {
        StoreOptions {
            db: DbOptions {
                vfs: Arc::new(SimVfs::new()),
                ..DbOptions::default()
            },
            ..StoreOptions::default()
        }
    }

    fn count(cache: &RangeCache) -> usize {
        let snapshot = cache.store().snapshot();
        let scan = snapshot.scan(None, None, Direction::Forward).unwrap();
        scan.fold(0, |n, row| n + usize::from(row.is_ok()))
    }

    #[test]
    fn a_panic_of_maintenance_is_counted_and_survived() {
        for place in ["gaps", "sweep", "join", "load"] {
            let cache = cache(&store_options(), None);
            assert_eq!(count(&cache), 50);
            // A load that a program makes meanwhile.
            let mut load = cache.begin_load(Some(&[60]), None).unwrap();
            load.step().unwrap();
            cache.shared().panics_at.lock().replace(place);
            for panics in 1..=2 {
                if place == "join" && panics == 2 {
                    for key in [40, 41] {
                        cache.load(Some(&[key]), Some(&[key + 1])).unwrap();
                    }
                }
                cache.maintain();
                let faults = cache.faults();
                assert_eq!((faults.is_off, faults.panics), (false, panics), "{place}");
                assert!(faults.what.unwrap().ends_with("as a test asked"), "{place}");
                assert_eq!(count(&cache), 50, "{place}");
            }
            cache.shared().panics_at.lock().take();
            drop(load);
            cache.maintain();
            let stats = cache.stats();
            assert_eq!((stats.loading, stats.maintenance_panics), (0, 2), "{place}");
            // What was lost can be held again.
            cache.drop_range(None, None);
            cache.load(None, None).unwrap();
            let misses = cache.stats().parts.not_held;
            assert_eq!(count(&cache), 50, "{place}");
            assert_eq!(cache.stats().parts.not_held, misses, "{place}");
            cache.audit().unwrap();
            cache.maintain();
            assert_eq!(cache.stats().maintenance_panics, 2);
        }
    }

    #[test]
    fn maintenance_that_panics_again_and_again_turns_the_cache_off_and_says_so() {
        let options = store_options();
        let cache = cache(&options, None);
        cache.shared().panics_at.lock().replace("sweep");
        for panics in 1..=7 {
            assert_eq!(cache.is_off(), panics > 5, "{panics}");
            cache.maintain();
            assert_eq!(count(&cache), 50);
        }
        let (stats, faults) = (cache.stats(), cache.faults());
        assert_eq!((stats.segments, stats.memory_used), (0, 0), "{stats:?}");
        assert_eq!((faults.is_off, faults.panics), (true, 5), "{faults:?}");
        let written = || Remembered::read(&*options.db.vfs, "/store".as_ref()).unwrap();
        assert_eq!(written().faults, faults);
        cache.close().unwrap();
        assert_eq!(written().faults, faults);
    }

    #[test]
    fn the_thread_of_maintenance_survives_a_panic() {
        let cache = cache(&store_options(), Some(Duration::from_millis(1)));
        let waits_for = |panics| {
            while cache.stats().maintenance_panics < panics {
                std::thread::yield_now();
            }
        };
        cache.shared().panics_at.lock().replace("sweep");
        waits_for(2);
        cache.shared().panics_at.lock().take();
        assert_eq!(count(&cache), 50);
        cache.close().unwrap();
    }
}
