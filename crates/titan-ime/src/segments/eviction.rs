//! Eviction: segments are dropped on request, or because memory is short.

use std::collections::HashSet;
use std::sync::Arc;

use crate::segments::directory::Changing;
use crate::segments::segment::Segment;
use crate::segments::shared::Shared;
use crate::stats::Dropped;

impl Shared {
    /// Drops the segments that `which` picks. Returns their number.
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

    pub(crate) fn drop_all(&self, why: Dropped) {
        self.drop_segments(why, |_| true);
    }

    /// Frees the memory of a cache that is off.
    pub(crate) fn give_back(&self) {
        self.drop_all(Dropped::Off);
        self.pending.forget();
    }

    /// Drops segments until the known memory is within its limit: first those being loaded, which
    /// have saved nothing yet, then those not read since the last pass, then the oldest; pinned
    /// ones last.
    pub(crate) fn make_room(&self) {
        let mut excess = self.budget.excess();
        if excess == 0 || mutant!(memory_over_its_limit_is_kept) {
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

    /// Ends segments that left the list, and publishes it.
    pub(crate) fn end(&self, changing: &Changing<'_>, gone: &[Arc<Segment>], why: Dropped) {
        // ORDER: first they end. A write that still finds one of them listed then knows that it may
        // be skipped.
        for segment in gone {
            if segment.drop_content(why) {
                self.counters.dropped(why);
            }
        }
        changing.publish();
    }
}

/// The segments in the order of eviction.
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
    use crate::content::memory::Budget;
    use crate::sync::atomic::Ordering;

    /// Ends the other thread also if this one panics.
    struct Ends<'a>(&'a std::sync::atomic::AtomicBool);

    impl Drop for Ends<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    /// Reads during the sort must not change its keys: a sort without an order may panic, here
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
