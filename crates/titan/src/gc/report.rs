//! The report on space: the data that takes it and the holders that pin it, as users get it.
//!
//! Assembled by [`Db::space_report`](crate::Db::space_report). All sizes are bytes. Two kinds of
//! bytes are distinguished: those of *files*, by their lengths, and those of *blob records*, which
//! are header, key and stored value; a blob file has 62 bytes beside its records.

use std::fmt;
use std::ops::AddAssign;

#[cfg(feature = "serde")]
use serde::Serialize;

use super::disk_usage::DiskUsage;
use crate::format::{BlobFileNumber, ColumnFamilyId, SequenceNumber};
use crate::version::Moment;

/// Space of a database on disk, and its holders.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "serde", derive(Serialize))]
pub struct SpaceReport {
    /// The moment of the view, if another process may be writing the database: `disk` is then the
    /// space that the files of that moment take, without files being written or about to be
    /// deleted.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub moment: Option<Moment>,
    /// Every file of the directory, by kind.
    pub disk: DiskUsage,
    /// The sum over all families, and the data of dropped families that iterators pin.
    pub total: SpaceUsage,
    /// Obsolete files, which are about to be deleted.
    pub obsolete: FileSum,
    /// SST, blob and map files that no version has: a job is writing them, a failed one has left
    /// them, or a lazy value of a dropped family reads them.
    pub unlisted: FileSum,
    /// Files that are not the engine's. Never touched.
    pub foreign: FileSum,
    /// The space that the options allow; `None` if no family keeps to a bound.
    pub bound: Option<SpaceBound>,
    /// By id.
    pub families: Vec<FamilySpace>,
    /// Holders that pin data that could be deleted otherwise, the oldest first.
    pub holders: Vec<SpaceHolder>,
}

/// The space that the options allow a database. Only data that readers pin, and families that are
/// not compacted automatically, pass it for a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize))]
pub struct SpaceBound {
    /// Bytes of SST, blob and map files, by
    /// [`max_space_amp`](crate::ColumnFamilyOptions::max_space_amp) of the families and their
    /// common allowance.
    pub file_bytes: u64,
    /// About how many bytes of WAL files may come on top, by
    /// [`max_total_wal_size`](crate::DbOptions::max_total_wal_size); with a single family, by its
    /// memtables. [`DiskUsage::wal_bytes`] are taken.
    pub wal_bytes: u64,
}

/// Some files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize))]
pub struct FileSum {
    /// Number of files.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
}

/// Space of values and of the tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize))]
pub struct SpaceUsage {
    /// Current tables.
    pub sst_bytes: u64,
    /// Blob files with current values.
    pub blob_bytes: u64,
    /// Their relocation maps.
    pub map_bytes: u64,
    /// Records to which current tables point.
    pub live_blob_bytes: u64,
    /// Records in `blob_bytes` to which they do not point.
    pub garbage_blob_bytes: u64,
    /// Of the garbage: records to which older versions still point that are being read.
    pub pinned_blob_bytes: u64,
    /// Of the live records: an estimate of those that newer entries and range deletions shadow,
    /// which compactions have yet to find. Records that memtables shadow count.
    pub shadowed_blob_bytes: u64,
    /// Of the live records: an estimate of those that newer entries shadow, but snapshots see.
    pub snapshot_blob_bytes: u64,
    /// Files that only older versions have that are being read. Not in the fields above.
    pub pinned_files: FileSum,
    /// Deletions of keys in memtables, and of keys and ranges in tables: a number. They take space,
    /// and so may the entries that they delete, until compactions drop both.
    pub tombstones: u64,
}

impl AddAssign<&SpaceUsage> for SpaceUsage {
    fn add_assign(&mut self, other: &SpaceUsage) {
        // The sums in a MANIFEST may be too large to be true.
        let add = |sum: &mut u64, bytes: u64| *sum = sum.saturating_add(bytes);
        add(&mut self.sst_bytes, other.sst_bytes);
        add(&mut self.blob_bytes, other.blob_bytes);
        add(&mut self.map_bytes, other.map_bytes);
        add(&mut self.live_blob_bytes, other.live_blob_bytes);
        add(&mut self.garbage_blob_bytes, other.garbage_blob_bytes);
        add(&mut self.pinned_blob_bytes, other.pinned_blob_bytes);
        add(&mut self.shadowed_blob_bytes, other.shadowed_blob_bytes);
        add(&mut self.snapshot_blob_bytes, other.snapshot_blob_bytes);
        add(&mut self.tombstones, other.tombstones);
        self.pinned_files += other.pinned_files;
    }
}

impl AddAssign for FileSum {
    fn add_assign(&mut self, other: FileSum) {
        self.files += other.files;
        self.bytes += other.bytes;
    }
}

/// The space of a column family.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(Serialize))]
pub struct FamilySpace {
    /// Its name.
    pub name: String,
    /// Its number.
    pub id: ColumnFamilyId,
    /// Space that it takes.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub usage: SpaceUsage,
    /// Its blob files, by number.
    pub blob_files: Vec<BlobFileSpace>,
}

/// A blob file on disk.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(Serialize))]
pub struct BlobFileSpace {
    /// The number in its name.
    pub number: BlobFileNumber,
    /// The files to which its values were first written, as pointers name them: itself, or those
    /// that garbage collection gathered.
    pub logical_files: Vec<BlobFileNumber>,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Bytes of its map, if it has one.
    pub map_bytes: u64,
    /// Bytes of all records in it.
    pub total_bytes: u64,
    /// Those to which current tables point.
    pub live_bytes: u64,
    /// Those that were given back to the file system, as holes.
    pub hole_bytes: u64,
    /// Those that are there and to which current tables do not point.
    pub garbage_bytes: u64,
    /// Of the garbage: those to which older versions still point.
    pub pinned_bytes: u64,
    /// Whether it is about to be collected, or why not.
    pub status: CollectionStatus,
}

impl BlobFileSpace {
    /// The live share of the records that are there, from 0 to 1.
    pub fn live_share(&self) -> f64 {
        let there = self.total_bytes.saturating_sub(self.hole_bytes);
        self.live_bytes as f64 / there.max(1) as f64
    }
}

/// Whether a blob file is about to be collected, or why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum CollectionStatus {
    /// It is part of the next collection.
    Next,
    /// It is worth collecting, after so many other collections.
    Later(usize),
    /// Everything in it is live.
    Clean,
    /// Too small a part of it is garbage.
    LittleGarbage,
    /// It is worth collecting, but all blob files together have too little garbage for a
    /// collection.
    NotNeeded,
    /// Its garbage is still seen by older versions, and would be copied with the rest.
    Pinned,
    /// It is damaged, or its accounts were found to be wrong; it stays as it is.
    Damaged,
    /// The family's garbage is not collected.
    Off,
}

impl fmt::Display for CollectionStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CollectionStatus::Next => f.write_str("next"),
            CollectionStatus::Later(after) => write!(f, "later, after {after}"),
            CollectionStatus::Clean => f.write_str("clean"),
            CollectionStatus::LittleGarbage => f.write_str("little garbage"),
            CollectionStatus::NotNeeded => f.write_str("not needed"),
            CollectionStatus::Pinned => f.write_str("pinned by older versions"),
            CollectionStatus::Damaged => f.write_str("damaged"),
            CollectionStatus::Off => f.write_str("collection is off"),
        }
    }
}

/// Holder that pins bytes, together with all of its kind that pin the same.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(Serialize))]
pub struct SpaceHolder {
    /// Kind of the holder.
    pub kind: HolderKind,
    /// Number of holders that pin the same.
    pub count: usize,
    /// The age of the oldest of them, in microseconds. Of readers it is known only that they are no
    /// younger than this.
    pub age_micros: u64,
    /// The newest sequence number that it sees, if it is a snapshot.
    pub sequence: Option<SequenceNumber>,
    /// The number of the family that it reads, if it is an iterator or a reader.
    pub column_family: Option<ColumnFamilyId>,
    /// Files that its version has and the current one does not. Others may pin them too.
    pub pinned_files: FileSum,
    /// Blob records, in files that the current version has, to which its version points and the
    /// current one does not. Of the oldest snapshot: an estimate of those that only snapshots see;
    /// records that a newer one sees too stay when the oldest is dropped.
    pub pinned_blob_bytes: u64,
}

/// Kind of a holder that pins bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum HolderKind {
    /// A snapshot: compactions keep the entries that it sees, and those are live.
    Snapshot,
    /// An iterator, and lazy values taken from it.
    Iterator,
    /// None of these: a lazy value, a call that is running, or a background job.
    Reader,
}

impl fmt::Display for HolderKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HolderKind::Snapshot => "snapshot",
            HolderKind::Iterator => "iterator",
            HolderKind::Reader => "lazy value or job",
        })
    }
}
