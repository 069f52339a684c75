//! Live SST and blob files: facts and lifetimes.
//!
//! A file is *live* while any version names it; versions share its description through an `Arc`.
//! When an edit that removes the file is durable, the description is marked obsolete, and when the
//! last version drops it, the file's name is queued for deletion. So BLOB-2 needs no search:
//! everything that can still reach a file has the `Arc` that pins it.

use std::cmp::Reverse;
use std::ops::{Bound, Range};
use std::sync::{Arc, OnceLock};

use crate::blob::PhysicalLocation;
use crate::format::file_name::FileKind;
use crate::format::internal_key::user_key;
use crate::format::{BlobFileNumber, FileNumber, SequenceNumber, total};
use crate::range_del::FragmentedTombstones;
use crate::sorting;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{ArcSwap, Mutex};
use crate::table::EntryCounts;
use crate::version::edit::{BlobFileAddition, NewFile, Relocation, TableFacts};

/// The assumed size of a value in bytes, for a table that has only tombstones.
const ASSUMED_VALUE_SIZE: u64 = 1024;

/// Files that no version names any more and that wait to be deleted.
#[derive(Default)]
pub(crate) struct ObsoleteFiles {
    waiting: Mutex<Vec<FileKind>>,
}

impl ObsoleteFiles {
    pub(crate) fn push(&self, file: FileKind) {
        self.waiting.lock().push(file);
    }

    pub(crate) fn waiting(&self) -> Vec<FileKind> {
        self.waiting.lock().clone()
    }

    pub(crate) fn take(&self) -> Vec<FileKind> {
        std::mem::take(&mut self.waiting.lock())
    }
}

/// Queues files for deletion when its last owner is dropped, if it has been marked.
pub(crate) struct Lifetime {
    pub(crate) files: Vec<FileKind>,
    pub(crate) obsolete: AtomicBool,
    pub(crate) queue: Arc<ObsoleteFiles>,
}

impl Lifetime {
    fn of(files: Vec<FileKind>, queue: &Arc<ObsoleteFiles>) -> Self {
        Lifetime {
            files,
            obsolete: AtomicBool::new(false),
            queue: Arc::clone(queue),
        }
    }

    fn end(&self) {
        self.obsolete.store(true, Ordering::Release);
    }
}

impl Drop for Lifetime {
    fn drop(&mut self) {
        if self.obsolete.load(Ordering::Acquire) {
            self.queue.waiting.lock().append(&mut self.files);
        }
    }
}

/// The facts about a table, and a sum over them that is often needed.
pub(crate) struct Known {
    pub(crate) facts: TableFacts,
    pub(crate) referenced_blob_bytes: u64,
}

impl From<TableFacts> for Known {
    fn from(facts: TableFacts) -> Self {
        Known {
            referenced_blob_bytes: total(facts.blob_refs.iter().map(|r| r.bytes)),
            facts,
        }
    }
}

/// A live SST.
pub struct TableFile {
    /// Record of it in the MANIFEST.
    pub meta: NewFile,
    /// Counts that RocksDB's MANIFEST does not have, from our own field. A table without it,
    /// written by RocksDB, counts with its file size until it is rewritten.
    pub(crate) facts: OnceLock<Known>,
    /// Facts of the table itself about its entries, where the MANIFEST says nothing.
    pub(crate) counts: OnceLock<EntryCounts>,
    /// The table's range tombstones, after their first use.
    pub(crate) tombstones: OnceLock<Arc<FragmentedTombstones>>,
    /// One more than the level into which a running compaction compacts it; 0 if none does. Set
    /// under the state lock of the database.
    pub(crate) compacting: AtomicU64,
    pub(crate) lifetime: Lifetime,
}

impl TableFile {
    pub(crate) fn new(
        meta: NewFile,
        facts: Option<TableFacts>,
        queue: &Arc<ObsoleteFiles>,
    ) -> Self {
        let file = FileKind::Table(meta.number);
        let lifetime = Lifetime::of(vec![file], queue);
        let cell = OnceLock::new();
        if let Some(facts) = facts {
            let _ = cell.set(facts.into());
        }
        TableFile {
            meta,
            facts: cell,
            counts: OnceLock::new(),
            tombstones: OnceLock::new(),
            compacting: AtomicU64::new(0),
            lifetime,
        }
    }

    pub fn number(&self) -> FileNumber {
        self.meta.number
    }

    pub fn size(&self) -> u64 {
        self.meta.size
    }

    pub fn smallest_user_key(&self) -> &[u8] {
        user_key(&self.meta.smallest)
    }

    pub(crate) fn largest_user_key(&self) -> &[u8] {
        user_key(&self.meta.largest)
    }

    /// See [`NewFile::end`].
    pub fn end(&self) -> Bound<&[u8]> {
        self.meta.end()
    }

    /// The counts, if known without reading the table.
    pub fn facts(&self) -> Option<&TableFacts> {
        self.facts.get().map(|known| &known.facts)
    }

    /// Whether it is certain that Titan wrote it. Then its bounds are those of its content, and it
    /// was not ingested.
    pub fn is_own(&self) -> bool {
        self.facts().is_some_and(|facts| !facts.foreign)
    }

    /// False only if it is known to have no range tombstones.
    pub(crate) fn may_have_tombstones(&self) -> bool {
        self.facts().is_none_or(|f| f.num_range_deletions > 0)
    }

    /// Entries, range deletions not included; 0 while unknown.
    pub(crate) fn entries(&self) -> u64 {
        self.facts().map_or(0, |facts| facts.num_entries)
    }

    /// Deletions of keys and of ranges; 0 while unknown.
    pub(crate) fn tombstones(&self) -> u64 {
        let count = |f: &TableFacts| f.num_deletions.saturating_add(f.num_range_deletions);
        self.facts().map_or(0, count)
    }

    /// Tombstones, and older versions of keys that were kept for snapshots: entries that iterators
    /// step over, and that compactions drop once no snapshot needs them. 0 while unknown.
    pub(crate) fn droppable(&self) -> u64 {
        let shadowed = self.facts().map_or(0, |facts| facts.num_shadowed);
        self.tombstones().saturating_add(shadowed)
    }

    /// Takes over facts that came in a later edit than the table.
    pub(crate) fn learn(&self, facts: TableFacts) {
        invariant!(
            facts.table == self.number(),
            "table {} gets the facts of table {}",
            self.number(),
            facts.table
        );
        let _ = self.facts.set(facts.into());
    }

    /// Number of its entries, by the MANIFEST or by the table itself; `None` if neither is known.
    pub(crate) fn entry_counts(&self) -> Option<EntryCounts> {
        let recorded = self.facts().map(|facts| EntryCounts {
            entries: facts.num_entries,
            deletions: facts.num_deletions,
        });
        recorded.or_else(|| self.counts.get().copied())
    }

    /// Takes over the counts of its entries that the table states.
    pub(crate) fn learn_counts(&self, counts: EntryCounts) {
        let _ = self.counts.set(counts);
    }

    /// Bytes of the values in blob files to which this table's keys point; 0 while unknown.
    pub(crate) fn referenced_blob_bytes(&self) -> u64 {
        let known = self.facts.get();
        known.map_or(0, |known| known.referenced_blob_bytes)
    }

    /// The size that counts for level targets and scores: the table and the values to which its
    /// keys point, as if they were inline. So a tree of keys keeps the shape that it would have
    /// with inline values, and overwritten and deleted values are found as early as in that tree,
    /// at the cost of rewriting only keys.
    pub(crate) fn logical_size(&self) -> u64 {
        self.size().saturating_add(self.referenced_blob_bytes())
    }

    /// An estimate of the bytes of values in blob files that this table's entries shadow. They
    /// become garbage when a compaction merges the table with the older entries.
    pub(crate) fn shadowed_bytes(&self) -> u64 {
        self.facts().map_or(0, |facts| facts.shadowed_bytes)
    }

    /// The [`TableFile::shadowed_bytes`] of a table of the last level that were kept for snapshots
    /// and that no snapshot sees any more.
    pub(crate) fn released_bytes(&self, oldest_snapshot: Option<SequenceNumber>) -> u64 {
        match oldest_snapshot.is_none_or(|oldest| oldest >= self.meta.largest_seq) {
            true => self.shadowed_bytes(),
            false => 0,
        }
    }

    /// Bytes that collectors reported as garbage at a moment, and that no compaction could drop
    /// yet.
    pub(crate) fn reported_garbage(&self, moment: u64) -> u64 {
        let facts = self.facts();
        facts.map_or(0, |facts| facts.collected.garbage_at(moment))
    }

    /// The same at the end of time.
    pub(super) fn reported_garbage_ever(&self) -> u64 {
        self.reported_garbage(u64::MAX)
    }

    /// [`TableFile::logical_size`] plus the values in blob files that the table shadows, plus
    /// inline values of average size for tombstones if these outnumber other entries: tombstones
    /// free space below only once they are compacted.
    pub(crate) fn compensated_size(&self) -> u64 {
        let Some(facts) = self.facts() else {
            return self.size();
        };
        let deletions = self.tombstones();
        let values = facts.num_entries.saturating_sub(facts.num_deletions);
        let extra = deletions
            .saturating_mul(2)
            .saturating_sub(facts.num_entries);
        let average = match values {
            0 => ASSUMED_VALUE_SIZE,
            values => self.size() / values,
        };
        self.logical_size()
            .saturating_add(extra.saturating_mul(average))
            .saturating_add(facts.shadowed_bytes)
    }

    /// Deletions and single deletions, as far as they are counted; not range deletions.
    pub(crate) fn num_deletions(&self) -> u64 {
        self.facts().map_or(0, |facts| facts.num_deletions)
    }

    pub(crate) fn is_compacting(&self) -> bool {
        self.compacting_into().is_some()
    }

    /// The level into which a running compaction compacts it.
    pub(crate) fn compacting_into(&self) -> Option<usize> {
        let mark = self.compacting.load(Ordering::Relaxed);
        mark.checked_sub(1).map(|level| level as usize)
    }

    pub(crate) fn set_compacting(&self, into: Option<usize>) {
        let mark = into.map_or(0, |level| level as u64 + 1);
        self.compacting.store(mark, Ordering::Relaxed);
    }

    /// Must be called only after the edit that removes the file is durable.
    pub(crate) fn mark_obsolete(&self) {
        self.lifetime.end();
    }
}

/// The names of a blob file and its map, if it has one.
fn files_of(number: BlobFileNumber, map: Option<FileNumber>) -> impl Iterator<Item = FileKind> {
    let map = map.map(FileKind::BlobMap);
    std::iter::once(FileKind::Blob(number)).chain(map)
}

/// A blob file on disk. It has the records of the logical file of the same number, or of those that
/// a collection relocated to it.
pub struct PhysicalBlobFile {
    pub number: BlobFileNumber,
    /// The relocation map, which says where the records of each logical file are; `None` if they
    /// are where they were written.
    pub map: Option<FileNumber>,
    pub count: u64,
    /// Sum over all records of header, key and stored value.
    pub total_bytes: u64,
    /// Bytes of blocks that were given back to the file system, as far as known.
    pub(crate) hole_bytes: AtomicU64,
    /// The holes that were punched since the database was opened, by offset.
    pub(crate) holes: Mutex<Vec<Range<u64>>>,
    pub(crate) lifetime: Lifetime,
}

impl PhysicalBlobFile {
    fn new(
        number: BlobFileNumber,
        map: Option<FileNumber>,
        (count, total_bytes): (u64, u64),
        queue: &Arc<ObsoleteFiles>,
    ) -> Self {
        let files = files_of(number, map);
        PhysicalBlobFile {
            number,
            map,
            count,
            total_bytes,
            hole_bytes: AtomicU64::new(0),
            holes: Mutex::default(),
            lifetime: Lifetime::of(files.collect(), queue),
        }
    }

    /// The file that a collection wrote.
    pub(crate) fn of_relocation(relocation: &Relocation, queue: &Arc<ObsoleteFiles>) -> Self {
        let records = (relocation.count, relocation.total_bytes);
        Self::new(relocation.file, Some(relocation.map), records, queue)
    }

    /// The file that a logical file was written to.
    fn of_addition(addition: &BlobFileAddition, queue: &Arc<ObsoleteFiles>) -> Self {
        let records = (addition.count, addition.total_bytes);
        Self::new(addition.number, None, records, queue)
    }

    /// Where the records of its logical files are.
    pub(crate) fn location(&self) -> PhysicalLocation {
        match self.map {
            Some(map) => PhysicalLocation::Moved {
                file: self.number,
                map,
            },
            None => PhysicalLocation::InPlace,
        }
    }

    /// The names of its files.
    pub(crate) fn files(&self) -> impl Iterator<Item = FileKind> + use<> {
        files_of(self.number, self.map)
    }

    /// Bytes of blocks that were given back to the file system, as far as known.
    pub(crate) fn hole_bytes(&self) -> u64 {
        self.hole_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn set_hole_bytes(&self, bytes: u64) {
        self.hole_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Bytes of the records, less the holes.
    pub(crate) fn bytes_on_disk(&self) -> u64 {
        self.total_bytes.saturating_sub(self.hole_bytes())
    }

    /// Whether exactly this hole was punched since the database was opened.
    pub(crate) fn has_hole(&self, hole: &Range<u64>) -> bool {
        let holes = self.holes.lock();
        let found = holes.binary_search_by_key(&hole.start, |hole| hole.start);
        found.is_ok_and(|at| holes.get(at) == Some(hole))
    }

    /// Adds holes that were punched.
    pub(crate) fn add_holes(&self, punched: impl IntoIterator<Item = Range<u64>>) {
        let mut holes = self.holes.lock();
        holes.extend(punched);
        // Of holes with the same start, the longest includes the others.
        sorting::sort_by_key(&mut holes, |hole| (hole.start, Reverse(hole.end)));
        holes.dedup_by_key(|hole| hole.start);
        invariant!(
            !holes.iter().any(Range::is_empty),
            "blob file {} has an empty hole",
            self.number
        );
    }

    /// Must be called only after the edit that removed or relocated its logical files is durable.
    pub(crate) fn mark_obsolete(&self) {
        if mutant!(blob_file_deleted_under_readers) {
            let files = self.lifetime.files.iter().copied();
            self.lifetime.queue.waiting.lock().extend(files);
            return;
        }
        self.lifetime.end();
    }
}

/// The part of a logical blob file's description that all versions share.
pub struct SharedBlobFile {
    pub number: BlobFileNumber,
    pub total_count: u64,
    /// Sum over all records of header, key and stored value.
    pub total_bytes: u64,
    pub(crate) checksum_method: Vec<u8>,
    pub(crate) checksum_value: Vec<u8>,
    /// The file that has its records. A collection replaces it, for every version at once; after
    /// that, this logical file does not pin the file before.
    pub(crate) physical: ArcSwap<PhysicalBlobFile>,
}

impl SharedBlobFile {
    pub(crate) fn new(addition: &BlobFileAddition, queue: &Arc<ObsoleteFiles>) -> Self {
        SharedBlobFile {
            number: addition.number,
            total_count: addition.count,
            total_bytes: addition.total_bytes,
            checksum_method: addition.checksum_method.clone(),
            checksum_value: addition.checksum_value.clone(),
            physical: ArcSwap::from_pointee(PhysicalBlobFile::of_addition(addition, queue)),
        }
    }

    /// Where its records are. Takes no count of the file that has them.
    pub(crate) fn location(&self) -> PhysicalLocation {
        self.physical.load().location()
    }

    /// The file that its records are in.
    pub(crate) fn physical(&self) -> Arc<PhysicalBlobFile> {
        self.physical.load()
    }

    /// Must be called only after the edit that relocates the records is durable.
    pub(crate) fn move_to(&self, physical: &Arc<PhysicalBlobFile>) {
        self.physical.store(Arc::clone(physical));
    }
}

/// A live blob file as one version sees it.
#[derive(Clone)]
pub struct BlobFileMeta {
    pub shared: Arc<SharedBlobFile>,
    /// Records to which no table of the version points.
    pub garbage_count: u64,
    /// Their bytes, in the unit of [`SharedBlobFile::total_bytes`].
    pub garbage_bytes: u64,
}

impl BlobFileMeta {
    pub(crate) fn live_bytes(&self) -> u64 {
        self.shared.total_bytes.saturating_sub(self.garbage_bytes)
    }

    pub(crate) fn live_count(&self) -> u64 {
        self.shared.total_count.saturating_sub(self.garbage_count)
    }
}
