//! One immutable state of a column family's files.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::files::{BlobFileMeta, TableFile};
use crate::format::internal_key::InternalKeyComparator;
use crate::format::{BlobFileNumber, ColumnFamilyId};

/// The tables of one level.
pub(crate) type Level = Arc<[Arc<TableFile>]>;

/// The files of a column family, as of one edit. Readers hold it for as long as they read
/// (VER-1); installing another never changes or waits for this one.
pub(crate) struct Version {
    pub(crate) column_family: ColumnFamilyId,
    pub(crate) comparator: InternalKeyComparator,
    /// Level 0 newest first; the other levels by key, without overlaps. Cursors share the lists.
    levels: Vec<Level>,
    /// Whether a table has range tombstones, or may have.
    may_have_tombstones: bool,
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
            levels: vec![Level::default(); num_levels],
            may_have_tombstones: false,
            blob_files: BTreeMap::new(),
        }
    }

    /// This version with other files. `levels` are in the order that [`Version::level`] promises.
    pub(crate) fn with_files(
        &self,
        levels: Vec<Vec<Arc<TableFile>>>,
        blob_files: BTreeMap<BlobFileNumber, BlobFileMeta>,
    ) -> Self {
        let mut tables = levels.iter().flatten();
        Version {
            column_family: self.column_family,
            comparator: self.comparator.clone(),
            may_have_tombstones: tables.any(|f| f.may_have_tombstones()),
            levels: levels.into_iter().map(Level::from).collect(),
            blob_files,
        }
    }

    pub(crate) fn num_levels(&self) -> usize {
        self.levels.len()
    }

    /// The files of one level; none for a level beyond the last. Level 0 comes newest first, the
    /// others by key.
    pub(crate) fn level(&self, level: usize) -> &[Arc<TableFile>] {
        self.levels.get(level).map_or(&[], |files| files)
    }

    /// The same, to be kept.
    pub(crate) fn shared_level(&self, level: usize) -> Level {
        self.levels.get(level).cloned().unwrap_or_default()
    }

    /// Whether a table has range tombstones, or may have.
    pub(crate) fn may_have_tombstones(&self) -> bool {
        self.may_have_tombstones
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

    /// The files of a sorted level (not 0) whose key range meets `begin..=end`; an absent bound is
    /// infinite. Cost: two binary searches.
    pub(crate) fn overlapping(
        &self,
        level: usize,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
    ) -> &[Arc<TableFile>] {
        let files = self.level(level);
        let compare = |a: &[u8], b: &[u8]| self.comparator.compare_user(a, b);
        // Neighbours may share a user key, so both ends ascend, but not strictly.
        let first = begin.map_or(0, |begin| {
            files.partition_point(|f| compare(f.largest_user_key(), begin).is_lt())
        });
        let behind = end.map_or(files.len(), |end| {
            files.partition_point(|f| compare(f.smallest_user_key(), end).is_le())
        });
        files.get(first..behind).unwrap_or_default()
    }

    /// Whether any file of `level`, sorted or not, meets `begin..=end`.
    pub(crate) fn has_overlapping(
        &self,
        level: usize,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
    ) -> bool {
        match level {
            0 => self.level(0).iter().any(|f| self.overlaps(f, begin, end)),
            _ => !self.overlapping(level, begin, end).is_empty(),
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::internal_key::{ValueType, internal_key};
    use crate::format::{BytewiseComparator, FileNumber, SequenceNumber};
    use crate::version::ObsoleteFiles;
    use crate::version::edit::NewFile;

    #[test]
    fn a_binary_search_finds_the_files_that_a_scan_finds() {
        let comparator = InternalKeyComparator::new(Arc::new(BytewiseComparator));
        let queue = Arc::new(ObsoleteFiles::default());
        let boundary = |key: &str, sequence| {
            let value_type = ValueType::Value as u8;
            internal_key(key.as_bytes(), SequenceNumber(sequence), value_type)
        };
        let version = Version::empty(ColumnFamilyId::DEFAULT, comparator, 2);
        let mut files = Vec::new();
        // The versions of "d" and "g" are spread over several files.
        let ranges = [("b", "d"), ("d", "d"), ("d", "e"), ("g", "g"), ("g", "j")];
        for ((smallest, largest), number) in ranges.into_iter().zip(1..) {
            let meta = NewFile {
                number: FileNumber(number),
                smallest: boundary(smallest, 20 - 2 * number),
                largest: boundary(largest, 19 - 2 * number),
                ..NewFile::default()
            };
            files.push(Arc::new(TableFile::new(meta, None, &queue)));
        }
        let version = version.with_files(vec![Vec::new(), files], BTreeMap::new());
        let keys = ["a", "b", "c", "d", "e", "f", "g", "h", "j", "k"];
        let bounds: Vec<Option<&[u8]>> = std::iter::once(None)
            .chain(keys.iter().map(|key| Some(key.as_bytes())))
            .collect();
        for &begin in &bounds {
            for &end in &bounds {
                let scanned = version.level(1).iter();
                let scanned: Vec<_> = scanned
                    .filter(|f| version.overlaps(f, begin, end))
                    .map(|f| f.number())
                    .collect();
                let found = version.overlapping(1, begin, end);
                let found: Vec<_> = found.iter().map(|f| f.number()).collect();
                assert_eq!(found, scanned, "{begin:?} {end:?}");
                assert_eq!(version.has_overlapping(1, begin, end), !scanned.is_empty());
            }
        }
    }
}
