//! A column family as readers, writers and jobs share it.

use std::sync::Arc;

use crate::compaction::building::job_env::OutputFamily;
use crate::dead_ranges::DeadRanges;
use crate::error::{Error, Result};
use crate::filter::Revisit;
use crate::format::ColumnFamilyId;
use crate::format::internal_key::InternalKeyComparator;
use crate::format::prefix::PrefixExtractor;
use crate::gc::space::loosened_allowance;
use crate::merge::{MergeOperator, why_missing};
use crate::options::ColumnFamilyOptions;
use crate::read::{ScanHistory, SuperVersion};
use crate::stats::{Listeners, notify};
use crate::sync::ArcSwap;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Parts of a family that readers and writers share.
pub(crate) struct Family {
    pub(crate) id: ColumnFamilyId,
    pub(crate) name: String,
    /// Replaced whole; a job uses those of its beginning.
    pub(crate) options: ArcSwap<ColumnFamilyOptions>,
    pub(crate) comparator: InternalKeyComparator,
    /// Fixed while the family is open.
    pub(crate) merge_operator: Option<Arc<dyn MergeOperator>>,
    /// Fixed while the family is open.
    pub(crate) prefix_extractor: Option<Arc<dyn PrefixExtractor>>,
    /// Replaced whole under the state lock; read without any lock.
    pub(crate) super_version: ArcSwap<SuperVersion>,
    pub(crate) dropped: AtomicBool,
    /// Answer of the factory of its compaction filter, if it has one.
    pub(crate) revisit: Option<Revisit>,
    /// Moment up to which garbage counts that collectors report. Grows.
    pub(crate) garbage_moment: AtomicU64,
    /// Lengths of scans.
    pub(crate) scans: Arc<ScanHistory>,
    /// Where reads found no key with a value.
    pub(crate) dead: Arc<DeadRanges>,
}

impl Family {
    /// The options in force now.
    pub(crate) fn options(&self) -> Arc<ColumnFamilyOptions> {
        self.options.load()
    }

    pub(crate) fn output(&self) -> OutputFamily {
        OutputFamily {
            id: self.id,
            name: self.name.clone(),
            comparator: self.comparator.clone(),
            options: self.options(),
        }
    }

    /// Whether its garbage is found and collected automatically.
    pub(crate) fn collects_by_itself(&self) -> bool {
        let options = self.options.load();
        options.enable_blob_garbage_collection && !options.disable_auto_compactions
    }

    /// Whether its tables are compacted automatically.
    pub(crate) fn compacts_by_itself(&self) -> bool {
        !self.options.load().disable_auto_compactions
    }

    pub(crate) fn garbage_moment(&self) -> u64 {
        self.garbage_moment.load(Ordering::Relaxed)
    }

    /// Notifies listeners if the family makes the bound on space looser than promised.
    pub(crate) fn report_loosened_bound(&self, listeners: &Listeners) {
        if let Some(bytes) = loosened_allowance(&self.options()) {
            notify!(listeners, space_bound_loosened(self.id, bytes));
        }
    }

    pub(crate) fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Acquire)
    }

    /// The merge operator.
    ///
    /// # Errors
    /// `InvalidArgument` if there is none.
    pub(crate) fn merge_operator(&self) -> Result<&Arc<dyn MergeOperator>> {
        let operator = self.merge_operator.as_ref();
        let given = operator.filter(|operator| operator.is_given());
        given.ok_or_else(|| {
            let family = format!("column family {}", self.name);
            Error::invalid_argument(why_missing(&family, operator.map(|operator| &**operator)))
        })
    }

    /// Fails with `InvalidArgument` if it was dropped.
    pub(crate) fn check_exists(&self) -> Result<()> {
        match self.is_dropped() {
            true => Err(dropped(&self.name)),
            false => Ok(()),
        }
    }
}

pub(crate) fn dropped(name: &str) -> Error {
    Error::invalid_argument(format!("column family {name} was dropped"))
}
