//! One immutable state of a column family's files.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::files::{BlobFileMeta, TableFile};
use crate::format::internal_key::InternalKeyComparator;
use crate::format::{BlobFileNumber, ColumnFamilyId};

/// The files of a column family, as of one edit. Readers hold it for as long as they read
/// (VER-1); installing another never changes or waits for this one.
pub(crate) struct Version {
    pub(crate) column_family: ColumnFamilyId,
    pub(crate) comparator: InternalKeyComparator,
    /// Level 0 newest first; the other levels by key, without overlaps.
    pub(crate) levels: Vec<Vec<Arc<TableFile>>>,
    pub(crate) blob_files: BTreeMap<BlobFileNumber, BlobFileMeta>,
}

impl Version {
    pub(crate) fn empty(
        column_family: ColumnFamilyId,
        comparator: InternalKeyComparator,
        num_levels: usize,
    ) -> Self {
        Version {
            column_family,
            comparator,
            levels: vec![Vec::new(); num_levels],
            blob_files: BTreeMap::new(),
        }
    }

    pub(crate) fn num_levels(&self) -> usize {
        self.levels.len()
    }

    /// The files of one level; none for a level beyond the last.
    pub(crate) fn level(&self, level: usize) -> &[Arc<TableFile>] {
        self.levels.get(level).map_or(&[], Vec::as_slice)
    }

    /// Every table with its level.
    pub(crate) fn tables(&self) -> impl Iterator<Item = (usize, &Arc<TableFile>)> {
        self.levels
            .iter()
            .enumerate()
            .flat_map(|(level, files)| files.iter().map(move |f| (level, f)))
    }

    /// The files of a sorted level that may hold `user_key`. More than one only where another
    /// engine split the versions of one key over two files.
    pub(crate) fn sorted_level_files(&self, level: usize, user_key: &[u8]) -> &[Arc<TableFile>] {
        let files = self.level(level);
        let compare = |a: &[u8], b: &[u8]| self.comparator.compare_user(a, b);
        let start = files.partition_point(|f| compare(f.largest_user_key(), user_key).is_lt());
        let rest = files.get(start..).unwrap_or_default();
        let len = rest
            .iter()
            .take_while(|f| compare(f.smallest_user_key(), user_key).is_le())
            .count();
        rest.get(..len).unwrap_or_default()
    }

    /// The files of `level` whose key range meets `begin..=end`; an absent bound is infinite.
    pub(crate) fn overlapping(
        &self,
        level: usize,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
    ) -> Vec<Arc<TableFile>> {
        self.level(level)
            .iter()
            .filter(|f| self.overlaps(f, begin, end))
            .cloned()
            .collect()
    }

    /// Whether a file's key range meets `begin..=end`.
    pub(crate) fn overlaps(
        &self,
        file: &TableFile,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
    ) -> bool {
        let compare = |a: &[u8], b: &[u8]| self.comparator.compare_user(a, b);
        end.is_none_or(|end| compare(file.smallest_user_key(), end) != Ordering::Greater)
            && begin.is_none_or(|begin| compare(file.largest_user_key(), begin) != Ordering::Less)
    }

    /// Sum of [`TableFile::logical_size`] over a level.
    pub(crate) fn level_logical_size(&self, level: usize) -> u64 {
        self.level(level).iter().map(|f| f.logical_size()).sum()
    }
}
