//! The level at which a file joins the tree.
//!
//! An ingested file is newer than everything in the database, so it may not be below anything that
//! has a key of its range; and tables of a sorted level do not overlap. It joins the lowest level
//! for which both hold.

use std::ops::Bound;

use super::ranges::{Keys, Ranges};
use crate::compaction::choosing::levels::LevelTargets;
use crate::options::ColumnFamilyOptions;
use crate::version::Version;

/// Places the files of one ingestion in a family, one after the other.
pub(crate) struct Placement<'v> {
    version: &'v Version,
    base_level: usize,
    /// For each level, the keys of the files that were placed there.
    placed: Vec<Ranges>,
    /// For each level, a range that has the inputs of all compactions that write to it now.
    written: Vec<Option<Keys>>,
}

/// The place of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) level: usize,
    /// Whether it overlaps anything older.
    pub(crate) overlaps: bool,
}

impl<'v> Placement<'v> {
    /// The first file of a family comes next. The caller keeps further compactions of the family
    /// from starting, and others from being installed, until the files are installed. Cost:
    /// O(tables).
    pub(crate) fn new(version: &'v Version, options: &ColumnFamilyOptions) -> Self {
        let order = &version.comparator;
        let levels = version.num_levels();
        let mut written: Vec<Option<Keys>> = vec![None; levels];
        for (_, table) in version.tables() {
            let Some(level) = table.compacting_into() else {
                continue;
            };
            if mutant!(ingested_beside_a_running_compaction) {
                continue;
            }
            let keys = Keys::new(table.smallest_user_key(), table.end());
            match written.get_mut(level) {
                Some(Some(all)) => all.include(keys, order),
                Some(none) => *none = Some(keys),
                None => {}
            }
        }
        Placement {
            version,
            base_level: LevelTargets::of(version, options).base_level,
            placed: vec![Ranges::new(order.clone()); levels],
            written,
        }
    }

    /// Places the next file, which is newer than those before it. Cost: O(levels * log tables), and
    /// a look at each table of level 0.
    pub(crate) fn place(&mut self, begin: &[u8], end: Bound<&[u8]>) -> Place {
        let order = &self.version.comparator;
        let mut place = Place {
            level: 0,
            overlaps: false,
        };
        for level in 0..self.version.num_levels() {
            let of_files = |placed: &Ranges| placed.overlaps(begin, end);
            let overlooked = mutant!(overlap_with_a_table_overlooked);
            if self.version.has_overlapping(level, Some(begin), end) && !overlooked
                || self.placed.get(level).is_some_and(of_files)
            {
                place.overlaps = true;
                break;
            }
            let written = self.written.get(level).and_then(Option::as_ref);
            let is_written = written.is_some_and(|keys| keys.overlaps(begin, end, order));
            if level >= self.base_level && !is_written {
                place.level = level;
            }
        }
        if let Some(placed) = self.placed.get_mut(place.level) {
            placed.add(Keys::new(begin, end));
        }
        place
    }
}
