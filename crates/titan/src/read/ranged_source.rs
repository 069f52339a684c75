//! The source from which an iterator reads, within bounds and a prefix.

use std::cell::Cell;
use std::sync::Arc;

use super::source::{PrefixFilter, Source};
use super::visible::VisibleIterator;
use super::{ReadOptions, SuperVersion};
use crate::dead_ranges::{DeadRanges, DeadRun};
use crate::error::Result;
use crate::format::SequenceNumber;
use crate::format::prefix::PrefixExtractor;
use crate::iterator::merging::MergingIterator;
use crate::open_files::OpenFiles;
use crate::range_del::{FragmentedTombstones, TombstoneCursor};
use crate::table::TableIterOptions;
use crate::version::state::tombstones::version_tombstones;

/// Room for this many children is made at once.
const CHILDREN: usize = 8;

/// The source of the entries of an iterator, within any prefix.
pub(super) struct RangedSource {
    pub(super) super_version: Arc<SuperVersion>,
    pub(super) open_files: Arc<OpenFiles>,
    pub(super) sequence: SequenceNumber,
    pub(super) cursor: TombstoneCursor,
    pub(super) dead: Arc<DeadRanges>,
    pub(super) prefix_extractor: Option<Arc<dyn PrefixExtractor>>,
    pub(super) options: ReadOptions,
}

impl RangedSource {
    /// Whether the order of keys is bytewise.
    pub(super) fn is_bytewise(&self) -> bool {
        self.super_version.version.comparator.is_bytewise()
    }

    /// The entries within the bounds of the options and a prefix.
    pub(super) fn visible(&self, prefix: Option<&[u8]>) -> Result<VisibleIterator> {
        let comparator = self.super_version.version.comparator.clone();
        let (lower, upper) = self.options.bounds(&**comparator.user(), prefix)?;
        let options = TableIterOptions {
            fill_cache: self.options.fill_cache,
            readahead: 0,
        };
        let extractor = self.prefix_extractor.as_deref();
        let whole = prefix.and_then(|prefix| Some((prefix, extractor?)));
        let filter = whole
            .filter(|(prefix, extractor)| extractor.is_surely_whole(prefix))
            .and_then(|(prefix, extractor)| {
                Some(PrefixFilter {
                    extractor: extractor.name(),
                    // Without an answer of the extractor no filter is asked.
                    prefix: extractor.prefix(prefix).ok()??,
                    begin: lower.as_deref(),
                    end: upper.as_deref(),
                    has_ruled_out: Cell::default(),
                })
            });
        let mut children = Vec::with_capacity(CHILDREN);
        for source in self.super_version.sources(&self.open_files) {
            source.add_iterators(options, filter.as_ref(), &mut children)?;
        }
        let sees_a_part = filter.is_some_and(|filter| filter.has_ruled_out.get());
        let merged = MergingIterator::new(children, comparator.clone());
        let cursor = self.cursor.clone();
        let reader = self.super_version.at(self.sequence);
        let run = DeadRun::new(Arc::clone(&self.dead), reader);
        let mut visible =
            VisibleIterator::new(merged, comparator, self.sequence, cursor, lower, upper, run);
        if sees_a_part {
            visible.sees_a_part();
        }
        Ok(visible)
    }
}

/// The range tombstones of every source together.
pub(super) fn all_tombstones(
    super_version: &SuperVersion,
    open_files: &Arc<OpenFiles>,
) -> Result<Arc<FragmentedTombstones>> {
    let mut memtables = super_version.memtables();
    if !memtables.any(|memtable| memtable.has_range_tombstones()) {
        // The version keeps them.
        return version_tombstones(open_files, &super_version.version);
    }
    let mut all = Vec::new();
    for source in super_version.sources(open_files) {
        source.add_tombstones(&mut all)?;
    }
    let comparator = &super_version.version.comparator;
    Ok(Arc::new(FragmentedTombstones::build(all, comparator)))
}
