//! What the hook, the readers, loads and maintenance of a cache share.

use std::collections::HashSet;
use std::sync::Arc;

use titan::ColumnFamilyId;
use titan_mvcc::Timestamp;

use crate::content::memory::Budget;
use crate::content::root::Target;
use crate::content::timestamps::Served;
use crate::maintenance::audit::Auditor;
use crate::maintenance::hot_set::Hot;
use crate::segments::cold_points::Points;
use crate::segments::cold_scans::Interest;
use crate::segments::directory::{Changing, Directory};
use crate::segments::faults::{Panics, Trouble};
use crate::segments::gaps::Gaps;
use crate::segments::pending_writes::Pending;
use crate::segments::segment::Segment;
use crate::stats::{Counters, Dropped};
use crate::sync::Cell;
use crate::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// No family has this number.
const NO_FAMILY: u32 = u32::MAX;

/// See the module. The store owns it, so it has no handle of the store.
pub(crate) struct Shared {
    pub(crate) directory: Directory,
    pub(crate) budget: Arc<Budget>,
    pub(crate) pending: Pending,
    /// What may be pruned.
    pub(crate) target: Cell<Arc<Target>>,
    pub(crate) counters: Counters,
    pub(crate) gaps: Gaps,
    pub(crate) points: Points,
    pub(crate) interest: Interest,
    pub(crate) auditor: Auditor,
    pub(crate) panics: Panics,
    /// Whether the cache decides by itself what is held.
    pub(crate) chooses: bool,
    /// Bytes of a segment, about.
    pub(crate) segment_size: usize,
    family: AtomicU32,
    is_off: AtomicBool,
    /// Makes the hook or maintenance panic at this place.
    #[cfg(test)]
    pub(crate) panics_at: parking_lot::Mutex<Option<&'static str>>,
}

impl Shared {
    pub(crate) fn new(limit: usize, segment_size: usize, chooses: bool) -> Self {
        let nothing = Served::new(Timestamp::ZERO, []);
        Shared {
            directory: Directory::new(),
            budget: Arc::new(Budget::new(limit)),
            pending: Pending::new(),
            target: Cell::new(Arc::new(Target {
                kept: nothing.clone(),
                needed: nothing,
            })),
            counters: Counters::default(),
            gaps: Gaps::default(),
            points: Points::default(),
            interest: Interest::default(),
            auditor: Auditor::default(),
            panics: Panics::default(),
            chooses,
            segment_size,
            family: AtomicU32::new(NO_FAMILY),
            is_off: AtomicBool::new(false),
            #[cfg(test)]
            panics_at: parking_lot::Mutex::default(),
        }
    }

    /// The family that has the versions. Until it is set there are no segments.
    pub(crate) fn set_family(&self, family: ColumnFamilyId) {
        self.family.store(family.0, Ordering::Release);
    }

    pub(crate) fn is_versions(&self, family: ColumnFamilyId) -> bool {
        self.family.load(Ordering::Acquire) == family.0
    }

    /// Whether nothing may be read from memory any more, for good.
    pub(crate) fn is_off(&self) -> bool {
        self.is_off.load(Ordering::Acquire)
    }

    /// Turns the cache off for good. Cost: one store; the memory is given back by [`Shared::give_back`].
    pub(crate) fn turn_off(&self) {
        // ORDER: a hook that panicked does this before its group is published, so no reader that must see the
        // group takes memory for complete.
        self.is_off.store(true, Ordering::Release);
    }

    /// How the cache fares.
    pub(crate) fn trouble(&self) -> Trouble {
        let is_off = self.is_off();
        let difference = self.auditor.difference().map(str::to_owned);
        let what = difference.or_else(|| self.panics.last());
        Trouble {
            is_off,
            panics: self.panics.count(),
            what: what.or_else(|| is_off.then(|| "the commit hook panicked".to_owned())),
        }
    }

    /// Panics if a test asked for it, at this place.
    #[cfg(test)]
    pub(crate) fn may_panic(&self, place: &'static str) {
        let is_here = *self.panics_at.lock() == Some(place);
        assert!(!is_here, "as a test asked");
    }

    /// Drops the segments that `which` picks. Returns how many were.
    pub(crate) fn drop_segments(&self, why: Dropped, which: impl Fn(&Segment) -> bool) -> usize {
        if !self.directory.load().iter().any(|segment| which(segment)) {
            return 0;
        }
        let mut changing = self.directory.change();
        let (gone, kept) = std::mem::take(&mut changing.list)
            .into_iter()
            .partition::<Vec<_>, _>(|segment| which(segment));
        changing.list = kept;
        self.end(&changing, &gone, why);
        gone.len()
    }

    /// The ranges that are held: neighbouring segments are one.
    pub(crate) fn held(&self) -> Vec<Hot> {
        let mut held: Vec<Hot> = Vec::new();
        for segment in self.directory.load().iter() {
            let Some(bytes) = segment.root().as_ref().map(|root| root.bytes as u64) else {
                continue;
            };
            let worth = segment.usage.worth();
            match held.last_mut() {
                Some(last)
                    if last.range.1.as_deref() == Some(&*segment.lower)
                        && last.is_pinned == segment.is_pinned() =>
                {
                    last.range.1 = segment.range().1;
                    last.bytes += bytes;
                    last.worth += worth;
                }
                _ => held.push(Hot {
                    range: segment.range(),
                    is_pinned: segment.is_pinned(),
                    bytes,
                    worth,
                }),
            }
        }
        held
    }

    pub(crate) fn drop_all(&self, why: Dropped) {
        self.drop_segments(why, |_| true);
    }

    /// Gives back the memory of a cache that is off.
    pub(crate) fn give_back(&self) {
        self.drop_all(Dropped::Off);
        self.pending.forget();
    }

    /// Drops segments until memory is within its limit, as far as it is known: those first that are being loaded,
    /// which have saved nothing yet, then those that were not read since the last look, then the oldest; pinned ones last.
    pub(crate) fn make_room(&self) {
        let mut excess = self.budget.excess();
        // MUTANT: memory that is over its limit stays so.
        if excess == 0
            || mutant!(
                "memory-over-its-limit-is-kept",
                "-p titan-ime --test it loads::"
            )
        {
            return;
        }
        let mut changing = self.directory.change();
        let mut gone = Vec::new();
        for segment in victims(&changing.list) {
            if excess == 0 {
                break;
            }
            excess = excess.saturating_sub(segment.bytes());
            gone.push(segment);
        }
        let generations: HashSet<u64> = gone.iter().map(|segment| segment.generation).collect();
        let is_gone = |segment: &Segment| generations.contains(&segment.generation);
        changing.list.retain(|segment| !is_gone(segment));
        self.end(&changing, &gone, Dropped::MemoryLimit);
    }

    /// Ends segments that are not in the list any more, and publishes it.
    pub(crate) fn end(&self, changing: &Changing<'_>, gone: &[Arc<Segment>], why: Dropped) {
        // ORDER: first they end. A write that still finds one of them listed then knows that it may be skipped.
        for segment in gone {
            if segment.drop_content(why) {
                self.counters.dropped(why);
            }
        }
        changing.publish();
    }
}

/// Segments in the order in which they are dropped if memory is short.
fn victims(list: &[Arc<Segment>]) -> Vec<Arc<Segment>> {
    let mut victims = list.to_vec();
    // The keys are taken once: reads change them meanwhile, and a sort that finds no order panics.
    victims.sort_by_cached_key(|segment| {
        let (is_active, is_touched) = (segment.root().is_some(), segment.is_touched());
        (
            segment.is_pinned(),
            is_active,
            is_touched,
            segment.generation,
        )
    });
    victims
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ends the other thread also if this one panics.
    struct Ends<'a>(&'a std::sync::atomic::AtomicBool);

    impl Drop for Ends<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    /// A read that comes while the order is made does not spoil it: a sort whose keys change may panic, and it would
    /// within a commit.
    #[test]
    fn reads_that_come_while_victims_are_ordered_do_no_harm() {
        let budget = Arc::new(Budget::new(0));
        let segment = |n: u64| {
            let lower = n.to_be_bytes().to_vec().into_boxed_slice();
            Arc::new(Segment::announced(
                lower,
                None,
                n,
                n.is_multiple_of(7),
                false,
                &budget,
            ))
        };
        let mut list: Vec<_> = (0..2_000).map(segment).collect();
        fastrand::Rng::with_seed(2).shuffle(&mut list);
        let is_over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut rng = fastrand::Rng::with_seed(1);
                while !is_over.load(Ordering::Relaxed) {
                    let segment = &list[rng.usize(..list.len())];
                    match rng.bool() {
                        true => segment.touch(),
                        false => segment.untouch(),
                    }
                }
            });
            let _ends = Ends(&is_over);
            for _ in 0..100 {
                let victims = victims(&list);
                assert_eq!(victims.len(), list.len());
                assert!(
                    victims
                        .iter()
                        .map(|segment| segment.is_pinned())
                        .is_sorted()
                );
            }
        });
    }
}
