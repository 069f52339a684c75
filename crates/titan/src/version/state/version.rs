//! One immutable state of a column family's files.

use std::collections::HashMap;
use std::ops::Bound;
use std::sync::{Arc, OnceLock};

use super::blob_set::BlobSet;
use super::files::{BlobFileMeta, PhysicalBlobFile, TableFile};
use super::level::{Level, LevelSums};
use super::watch::Watch;
use crate::blob::{BlobLocation, BlobLocations, no_location};
use crate::error::Result;
use crate::format::internal_key::InternalKeyComparator;
use crate::format::{BlobFileNumber, ColumnFamilyId, FileNumber, SequenceNumber, total};
use crate::number_map::NumberMap;
use crate::range_del::FragmentedTombstones;
use crate::version::edit::{Relocation, VersionEdit};

/// The files of a column family, as of one edit. Readers pin it while they read (VER-1); installing
/// another one never changes this one or waits for it.
pub struct Version {
    pub column_family: ColumnFamilyId,
    pub(crate) comparator: InternalKeyComparator,
    /// Level 0 newest first; the other levels by key, without overlaps. Cursors share the lists.
    pub(crate) levels: Vec<Level>,
    /// Whether a table has range tombstones, or may have.
    pub(crate) may_have_tombstones: bool,
    /// The range tombstones of all tables together, after their first use.
    pub(crate) tombstones: OnceLock<Arc<FragmentedTombstones>>,
    pub(crate) blob_files: BlobSet,
    /// Is notified when this version ends.
    pub(crate) watch: OnceLock<Arc<Watch>>,
}

impl Drop for Version {
    fn drop(&mut self) {
        if let Some(watch) = self.watch.get() {
            watch.notify();
        }
    }
}

impl BlobLocations for Version {
    fn location(&self, logical: BlobFileNumber) -> Result<BlobLocation> {
        let file = self.blob_files.get(&logical);
        let file = file.ok_or_else(|| no_location(logical))?;
        Ok(BlobLocation {
            column_family: self.column_family,
            physical: file.shared.location(),
        })
    }
}

impl Version {
    pub fn empty(
        column_family: ColumnFamilyId,
        comparator: InternalKeyComparator,
        num_levels: usize,
    ) -> Self {
        Version {
            column_family,
            comparator,
            levels: vec![Level::default(); num_levels],
            may_have_tombstones: false,
            tombstones: OnceLock::new(),
            blob_files: BlobSet::default(),
            watch: OnceLock::new(),
        }
    }

    /// This version with other files.
    pub(crate) fn with_files(&self, levels: Vec<Level>, blob_files: BlobSet) -> Self {
        Version {
            column_family: self.column_family,
            comparator: self.comparator.clone(),
            may_have_tombstones: levels.iter().any(Level::may_have_tombstones),
            tombstones: OnceLock::new(),
            levels,
            blob_files,
            watch: OnceLock::new(),
        }
    }

    /// Notifies `watch` when this version, which is no longer the current one, has ended.
    pub(crate) fn watch(&self, watch: &Arc<Watch>) {
        let _ = self.watch.set(Arc::clone(watch));
    }

    pub(crate) fn num_levels(&self) -> usize {
        self.levels.len()
    }

    /// All levels, level 0 first.
    pub(crate) fn levels(&self) -> &[Level] {
        &self.levels
    }

    /// The files of one level; none for a level beyond the last. Level 0 comes newest first, the
    /// others by key.
    pub fn level(&self, level: usize) -> &Level {
        self.levels.get(level).unwrap_or(Level::none())
    }

    /// Whether a table has range tombstones, or may have.
    pub(crate) fn may_have_tombstones(&self) -> bool {
        self.may_have_tombstones
    }

    /// Bytes of the records of a logical blob file to which this version points.
    ///
    /// If a version points to a record, so does every earlier version back to the one that added
    /// the file. So of several versions, the one that points to most has the records of all of
    /// them, and the records that an older one has in addition to a newer one are the difference.
    pub(crate) fn live_bytes_of(&self, logical: BlobFileNumber) -> u64 {
        let file = self.blob_files.get(&logical);
        file.map_or(0, BlobFileMeta::live_bytes)
    }

    /// Every table with its level.
    pub fn tables(&self) -> impl Iterator<Item = (usize, &Arc<TableFile>)> {
        self.levels
            .iter()
            .enumerate()
            .flat_map(|(level, files)| files.iter().map(move |f| (level, f)))
    }

    /// Whether the version has the tables that an edit adds, at their levels, and none that it only
    /// deletes. Cost: a walk over all tables.
    pub(crate) fn has_files_of(&self, edit: &VersionEdit) -> bool {
        let at: HashMap<FileNumber, usize> = self
            .tables()
            .map(|(level, table)| (table.number(), level))
            .collect();
        let added = edit.new_files.iter();
        let added: HashMap<_, _> = added.map(|(level, meta)| (meta.number, *level)).collect();
        let is_gone = |number: &FileNumber| added.contains_key(number) || !at.contains_key(number);
        added
            .iter()
            .all(|(number, level)| at.get(number) == Some(level))
            && edit.deleted_files.iter().all(|(_, number)| is_gone(number))
    }

    /// The files of a sorted level that may hold `user_key`. More than one only if another engine
    /// split the versions of one key over two files.
    pub(crate) fn sorted_level_files(&self, level: usize, user_key: &[u8]) -> &[Arc<TableFile>] {
        self.overlapping(level, Some(user_key), Bound::Included(user_key))
    }

    /// The files of a sorted level (not 0) whose key range overlaps the range from `begin`, which
    /// is included, to `end`; without `begin` the range has no start. Cost: two binary searches.
    pub(crate) fn overlapping(
        &self,
        level: usize,
        begin: Option<&[u8]>,
        end: Bound<&[u8]>,
    ) -> &[Arc<TableFile>] {
        let files = self.level(level).tables();
        // Neighbours may share a user key, so both ends ascend, but not strictly.
        let first = begin.map_or(0, |begin| {
            files.partition_point(|f| self.ends_before(f, begin))
        });
        let after = files.partition_point(|f| !self.starts_after(f, end));
        files.get(first..after).unwrap_or_default()
    }

    /// The logical bytes of the files of a sorted level that overlap a file's key range.
    pub(crate) fn overlapped_bytes(&self, level: usize, file: &TableFile) -> u64 {
        let overlapping = self.overlapping(level, Some(file.smallest_user_key()), file.end());
        overlapping.iter().map(|f| f.logical_size()).sum()
    }

    /// Deletions of keys and of ranges in all tables, as far as known. Cost: O(levels).
    pub(crate) fn tombstones(&self) -> u64 {
        total((0..self.num_levels()).map(|level| self.sums(level).tombstones))
    }

    /// See [`TableFile::droppable`], for all tables. Cost: O(levels).
    pub(crate) fn droppable(&self) -> u64 {
        total((0..self.num_levels()).map(|level| self.sums(level).droppable))
    }

    /// Bytes of tables for each entry other than a deletion, as far as they are counted. Cost:
    /// O(levels).
    pub(crate) fn average_entry(&self) -> u64 {
        let sums = || self.levels.iter().map(Level::sums);
        let entries = total(sums().map(|level| level.entries));
        let deletions = total(sums().map(|level| level.deletions));
        let bytes = total(sums().map(|level| level.counted_size));
        bytes
            .checked_div(entries.saturating_sub(deletions))
            .unwrap_or(0)
    }

    /// The files of level 0 that may hold `user_key`, the newest first.
    pub(crate) fn level0_files<'a>(
        &'a self,
        user_key: &'a [u8],
    ) -> impl Iterator<Item = &'a Arc<TableFile>> {
        let (begin, end) = (Some(user_key), Bound::Included(user_key));
        let near = self.level(0).near(&self.comparator, user_key, end);
        near.filter(move |file| self.overlaps(file, begin, end))
    }

    /// Whether any file of `level`, sorted or not, overlaps the range.
    pub(crate) fn has_overlapping(
        &self,
        level: usize,
        begin: Option<&[u8]>,
        end: Bound<&[u8]>,
    ) -> bool {
        match level {
            0 => self.level(0).iter().any(|f| self.overlaps(f, begin, end)),
            _ => !self.overlapping(level, begin, end).is_empty(),
        }
    }

    /// Whether a file's key range overlaps the range from `begin` to `end`.
    pub fn overlaps(&self, file: &TableFile, begin: Option<&[u8]>, end: Bound<&[u8]>) -> bool {
        !self.starts_after(file, end) && begin.is_none_or(|begin| !self.ends_before(file, begin))
    }

    /// Whether all keys of a file are smaller than `user_key`.
    pub(crate) fn ends_before(&self, file: &TableFile, user_key: &[u8]) -> bool {
        self.comparator.is_beyond(user_key, file.end())
    }

    /// Whether all keys of a file are from `begin` to before `end`.
    pub(crate) fn lies_within(&self, file: &TableFile, begin: &[u8], end: &[u8]) -> bool {
        let first = file.smallest_user_key();
        self.comparator.compare_user(first, begin).is_ge() && self.ends_before(file, end)
    }

    fn starts_after(&self, file: &TableFile, end: Bound<&[u8]>) -> bool {
        let first = file.smallest_user_key();
        let missed = mutant!(first_key_of_a_table_overlooked);
        self.comparator.is_beyond(first, end) || missed && end == Bound::Included(first)
    }

    /// The blob files on disk, each with the logical files that are in it. Cost: O(logical files).
    pub fn physical_blob_files(
        &self,
    ) -> NumberMap<BlobFileNumber, (Arc<PhysicalBlobFile>, Vec<&BlobFileMeta>)> {
        let mut files = NumberMap::new();
        for meta in self.blob_files.values() {
            let physical = meta.shared.physical();
            let (_, logical) = files.get_or_insert_with(physical.number, || (physical, Vec::new()));
            logical.push(meta);
        }
        files
    }

    /// Relocations by collections, in the form that a MANIFEST has.
    pub(crate) fn relocations(&self) -> Vec<Relocation> {
        let files = self.physical_blob_files().into_values();
        let moved = files.filter_map(|(physical, logical)| {
            Some(Relocation {
                file: physical.number,
                map: physical.map?,
                count: physical.count,
                total_bytes: physical.total_bytes,
                logical: logical.iter().map(|meta| meta.shared.number).collect(),
            })
        });
        moved.collect()
    }

    /// An estimate of the shadowed bytes in blob files: tables point to them, but newer entries
    /// overwrite or delete them and no compaction has dropped the pointers yet. The last level does
    /// not count: it keeps shadowed entries for snapshots only.
    pub(crate) fn shadowed_bytes(&self) -> u64 {
        let last = self.num_levels().saturating_sub(1);
        total((0..last).map(|level| self.sums(level).shadowed))
    }

    /// Bytes in blob files that the last level kept for snapshots and that no snapshot sees any
    /// more.
    pub(crate) fn released_bytes(&self, oldest_snapshot: Option<SequenceNumber>) -> u64 {
        let bottom = self.level(self.num_levels().saturating_sub(1));
        match (bottom.sums().shadowed, oldest_snapshot) {
            (0, _) => 0,
            (all, None) => all,
            _ => total(bottom.iter().map(|f| f.released_bytes(oldest_snapshot))),
        }
    }

    /// Bytes of a level that collectors reported as garbage at a moment, and that no compaction
    /// could drop yet. Cost: O(tables of the level) if there are any.
    pub(crate) fn reported_garbage(&self, level: usize, moment: u64) -> u64 {
        match self.sums(level).reported_garbage {
            0 => 0,
            _ => total(self.level(level).iter().map(|f| f.reported_garbage(moment))),
        }
    }

    /// Sums over the tables of a level; zero beyond the last level.
    pub(crate) fn sums(&self, level: usize) -> LevelSums {
        self.level(level).sums()
    }

    /// Bytes of all tables.
    pub(crate) fn table_bytes(&self) -> u64 {
        total(self.levels.iter().map(|level| level.sums().size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::internal_key::{ValueType, internal_key};
    use crate::format::{BytewiseComparator, FileNumber};
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
        let levels = vec![Level::default(), Level::sorted(files, &version.comparator)];
        let version = version.with_files(levels, BlobSet::default());
        let keys = ["a", "b", "c", "d", "e", "f", "g", "h", "j", "k"];
        let bounds: Vec<Option<&[u8]>> = std::iter::once(None)
            .chain(keys.iter().map(|key| Some(key.as_bytes())))
            .collect();
        for &begin in &bounds {
            for &end in &bounds {
                let end = end.map_or(Bound::Unbounded, Bound::Included);
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

    #[test]
    fn a_table_that_ends_with_a_tombstone_does_not_reach_its_neighbour() {
        let comparator = InternalKeyComparator::new(Arc::new(BytewiseComparator));
        let queue = Arc::new(ObsoleteFiles::default());
        let key = |key: &str, sequence, value_type: ValueType| {
            internal_key(key.as_bytes(), SequenceNumber(sequence), value_type as u8)
        };
        let mut files = Vec::new();
        let sentinel = key("m", SequenceNumber::MAX.0, ValueType::RangeDeletion);
        let ends = [("a", sentinel), ("m", key("z", 3, ValueType::Value))];
        for ((smallest, largest), number) in ends.into_iter().zip(1..) {
            let meta = NewFile {
                number: FileNumber(number),
                smallest: key(smallest, 9, ValueType::Value),
                largest,
                ..NewFile::default()
            };
            files.push(Arc::new(TableFile::new(meta, None, &queue)));
        }
        let mut version = Version::empty(ColumnFamilyId::DEFAULT, comparator, 2);
        version.levels[1] = Level::sorted(files, &version.comparator);
        let at = |begin: &str, end| {
            let found = version.overlapping(1, Some(begin.as_bytes()), end);
            found.iter().map(|f| f.number().0).collect::<Vec<_>>()
        };
        assert_eq!(at("m", Bound::Included(b"m")), [2]);
        assert_eq!(at("l", Bound::Excluded(b"m")), [1]);
        assert_eq!(at("l", Bound::Included(b"m")), [1, 2]);
        assert_eq!(at("b", version.level(1).tables()[0].end()), [1]);
    }
}
