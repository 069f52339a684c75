//! Every history of one key, cut by snapshots in every way, compacted in every order, by jobs whose
//! compaction filter removes or changes the values about which it is asked.
//!
//! In any order, a reader finds the value that it found before, or the one that the filter made of
//! it. It never finds an older one. The newest write stays known as long as a snapshot does not see
//! it, and the garbage of every job is exact.

use std::fmt;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use super::readers::Bench;
use super::stride;
use super::survivors::{CHANGED, Filter, Op, compact_all, every_list_of_single_deletions};
use crate::compaction::building::filter::{FilteredJob, Filtering, JobFilter};
use crate::compaction::building::job_env::OutputFamily;
use crate::compaction::building::older_versions::UnknownOlderVersions;
use crate::error::Result;
use crate::filter::{
    CompactionFilter, CompactionFilterFactory, Decision, FilterContext, FilterEntry, FilterReason,
};
use crate::histories::every_list;
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
}

impl fmt::Debug for Jobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.choice)
    }
}

impl Filter for Jobs {
    fn of_job(&self) -> Option<JobFilter<'_>> {
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
        Some(filter.unwrap().unwrap())
    }

    fn removes(&self, at: u64) -> bool {
        self.choice.removes(at)
    }

    fn changes(&self) -> bool {
        self.choice == Choice::Change
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
            compactions += compact_all(&jobs, every_list(&menu, len), 1);
        }
        compactions += compact_all(&jobs, every_list(&menu, 4), stride(3, 1));
        compactions += compact_all(&jobs, every_list(&menu, 5), stride(211, 3));
        assert!(compactions > 10_000, "{compactions}");
    }
}

#[test]
fn a_removed_value_is_no_riddle_to_its_single_deletion() {
    for choice in CHOICES {
        let jobs = Jobs::that(choice);
        let mut compactions = 0;
        for len in 1..=5_u32 {
            let stride = if len == 5 { stride(3, 1) } else { 1 };
            compactions += compact_all(&jobs, every_list_of_single_deletions(len), stride);
        }
        assert!(compactions > 1_000, "{compactions}");
    }
}
