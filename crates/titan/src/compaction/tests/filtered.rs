//! Every history of one key, cut by snapshots in every way, compacted in every order, by jobs whose
//! compaction filter removes or changes the values about which it is asked.
//!
//! In any order, a reader finds the value that it found before, or the one that the filter made of
//! it. It never finds an older one. The newest write stays known as long as a snapshot does not see
//! it, and the garbage of every job is exact; [`compact`] asserts both.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use super::readers::Bench;
use super::stride;
use super::survivors::{
    CHANGED, Entry, History, Op, Run, by_age, by_level, compact, every_list, every_snapshots,
};
use crate::compaction::building::filter::{FilteredJob, Filtering, JobFilter};
use crate::compaction::building::job_env::OutputFamily;
use crate::compaction::building::older_versions::UnknownOlderVersions;
use crate::error::Result;
use crate::filter::{
    CompactionFilter, CompactionFilterFactory, Decision, FilterContext, FilterEntry, FilterReason,
};
use crate::options::ColumnFamilyOptions;
use crate::version::Version;

/// Decision of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    Remove,
    /// Only entries with an odd sequence number.
    RemoveOdd,
    Change,
    /// Removes everything, by skipping.
    Skip,
}

impl Choice {
    fn removes(self, at: u64) -> bool {
        match self {
            Choice::Remove | Choice::Skip => true,
            Choice::RemoveOdd => at % 2 == 1,
            Choice::Change => false,
        }
    }
}

impl CompactionFilterFactory for Choice {
    fn name(&self) -> &str {
        "choice"
    }

    fn create(&self, _: &FilterContext<'_>) -> Option<Box<dyn CompactionFilter>> {
        Some(Box::new(*self))
    }
}

impl CompactionFilter for Choice {
    fn filter(&mut self, entry: &FilterEntry<'_>) -> Result<Decision> {
        Ok(match self {
            Choice::Skip => Decision::SkipUntil(b"l".to_vec()),
            _ if self.removes(entry.sequence().0) => Decision::Remove,
            Choice::Change => Decision::ChangeValue(CHANGED.to_vec()),
            _ => Decision::Keep,
        })
    }
}

/// Jobs that need that filter.
struct Jobs {
    bench: Bench,
    version: Arc<Version>,
    family: OutputFamily,
    choice: Choice,
}

impl Jobs {
    fn that(choice: Choice) -> Self {
        let bench = Bench::new(1);
        let options = ColumnFamilyOptions {
            compaction_filter: Some(Arc::new(choice)),
            ..ColumnFamilyOptions::clone(&bench.family.options)
        };
        let family = OutputFamily {
            options: Arc::new(options),
            ..bench.family.clone()
        };
        Jobs {
            version: Arc::new(Version::empty(family.id, family.comparator.clone(), 7)),
            bench,
            family,
            choice,
        }
    }

    fn filter(&self) -> JobFilter<'_> {
        static FILTERING: LazyLock<Filtering> = LazyLock::new(|| Filtering {
            garbage_moment: 0,
            reason: FilterReason::Automatic,
            now: Duration::ZERO,
            revisit: None,
            asks: true,
            recent: Vec::new(),
        });
        let job = FilteredJob {
            family: &self.family,
            level: 1,
            is_bottommost: false,
            snapshots: &[],
            version: &self.version,
            open_files: &self.bench.open_files,
            times: None,
            pause: &|| Ok(()),
        };
        let filter = JobFilter::create(&FILTERING, &job, &UnknownOlderVersions);
        filter.unwrap().unwrap()
    }

    /// Compacts in every order, and returns the number of compactions. `before` has the value that
    /// each reader found last.
    fn compact_on(&self, history: &History, runs: &[Run], before: &[Option<u64>]) -> usize {
        let found: Vec<_> = history
            .readers()
            .map(|reader| by_level(runs, reader))
            .collect();
        let by_age: Vec<_> = history
            .readers()
            .map(|reader| by_age(runs, reader))
            .collect();
        let case = || format!("{runs:?} of {history:?}, where filters {:?}", self.choice);
        assert_eq!(found, by_age, "by level and by age, in {}", case());
        for (found, before) in found.iter().zip(before) {
            let may_be = match before {
                Some(at) if self.choice.removes(*at) => found == before || found.is_none(),
                _ => found == before,
            };
            assert!(may_be, "{found:?} after {before:?} in {}", case());
        }
        let mut compactions = 0;
        for upper in 1..runs.len() {
            let (above, below) = (&runs[..upper - 1], &runs[upper + 1..]);
            let input = [&runs[upper - 1][..], &runs[upper]].concat();
            let is_point = |entry: &Entry| entry.1 != Op::Range;
            let nothing_below = !below.iter().flatten().any(is_point);
            let filter = Some(self.filter());
            let merged = compact(&input, nothing_below, &history.snapshots, filter);
            let merged = merged.unwrap_or_else(|e| panic!("{e}: {}", case()));
            let mut after = above.to_vec();
            after.push(merged);
            after.extend_from_slice(below);
            compactions += 1 + self.compact_on(history, &after, &found);
        }
        if let [last] = runs {
            let released = compact(last, true, &[], Some(self.filter())).unwrap();
            let newest = found.last().copied().flatten();
            let newest = newest.filter(|at| !self.choice.removes(*at));
            let left: Vec<u64> = released.iter().map(|(at, _)| *at).collect();
            assert_eq!(left, Vec::from_iter(newest), "left of {}", case());
            let changed = released.iter().all(|(_, op)| *op == Op::Changed);
            assert!(changed || self.choice != Choice::Change, "{}", case());
        }
        compactions
    }

    fn compact_all(&self, lists: impl Iterator<Item = Vec<Op>>, stride: usize) -> usize {
        let histories = lists.flat_map(|ops| {
            let snapshots = every_snapshots(ops.len());
            snapshots.map(move |snapshots| History {
                ops: ops.clone(),
                snapshots,
            })
        });
        let compacted = histories.step_by(stride).map(|history| {
            let runs = history.runs();
            let found: Vec<_> = history
                .readers()
                .map(|reader| by_age(&runs, reader))
                .collect();
            self.compact_on(&history, &runs, &found)
        });
        compacted.sum()
    }
}

const CHOICES: [Choice; 4] = [
    Choice::Remove,
    Choice::RemoveOdd,
    Choice::Change,
    Choice::Skip,
];

#[test]
fn readers_find_what_they_found_or_what_a_filter_made_of_it() {
    let menu = [Op::Put, Op::Pointer, Op::Delete, Op::Range];
    for choice in CHOICES {
        let jobs = Jobs::that(choice);
        let mut compactions = 0;
        for len in 1..=3 {
            compactions += jobs.compact_all(every_list(&menu, len), 1);
        }
        compactions += jobs.compact_all(every_list(&menu, 4), stride(3, 1));
        compactions += jobs.compact_all(every_list(&menu, 5), stride(211, 3));
        assert!(compactions > 10_000, "{compactions}");
    }
}

#[test]
fn a_removed_value_is_no_riddle_to_its_single_deletion() {
    let values = [Op::Put, Op::Pointer];
    for choice in CHOICES {
        let jobs = Jobs::that(choice);
        let mut compactions = 0;
        for len in 1..=5_u32 {
            let lists = every_list(&values, len.div_ceil(2)).map(|values| {
                let mut values = values.into_iter();
                let ops = (0..len).map(|at| match at.is_multiple_of(2) {
                    true => values.next().unwrap(),
                    false => Op::Single,
                });
                ops.collect()
            });
            compactions += jobs.compact_all(lists, if len == 5 { stride(3, 1) } else { 1 });
        }
        assert!(compactions > 1_000, "{compactions}");
    }
}
