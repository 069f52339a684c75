//! What holds space back: the answer, as users get it.
//!
//! Assembled by [`Db::space_report`](crate::Db::space_report). All sizes are bytes. Two kinds of
//! bytes are told apart: those of *files*, by their lengths, and those of *blob records*, which
//! are header, key and stored value; a blob file has 62 bytes beside its records.

use std::fmt;
use std::ops::AddAssign;

use serde::Serialize;

use super::disk_usage::DiskUsage;
use crate::format::{BlobFileNumber, ColumnFamilyId, SequenceNumber};
use crate::version::Moment;

/// What a database takes on disk, and what of it is held back by whom.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SpaceReport {
    /// The moment that is shown where another process may be writing the database: `disk` is then
    /// what the files of that moment take, without what is being written or about to be deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moment: Option<Moment>,
    /// Every file of the directory, by kind.
    pub disk: DiskUsage,
    /// The sum over all families, and what iterators keep of families that were dropped.
    pub total: SpaceUsage,
    /// Files that nobody needs and that are about to be deleted.
    pub obsolete: FileSum,
    /// SST, blob and map files that no version has: a job is writing them, one that failed has left
    /// them, or a lazy value reads them of a family that was dropped.
    pub unlisted: FileSum,
    /// Files that are not the engine's. Never touched.
    pub foreign: FileSum,
    /// By id.
    pub families: Vec<FamilySpace>,
    /// Who keeps what could go otherwise, the oldest first.
    pub holders: Vec<SpaceHolder>,
}

/// Some files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FileSum {
    /// How many.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
}

/// What values and the tree above them take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SpaceUsage {
    /// Tables that are current.
    pub sst_bytes: u64,
    /// Blob files with values that are current.
    pub blob_bytes: u64,
    /// Their maps: where garbage collection put the records.
    pub map_bytes: u64,
    /// Records that current tables refer to.
    pub live_blob_bytes: u64,
    /// Records in `blob_bytes` that they do not refer to.
    pub garbage_blob_bytes: u64,
    /// Of the garbage: what older versions still refer to, which somebody reads from.
    pub held_blob_bytes: u64,
    /// Of what is live: an estimate of what newer entries and range deletions hide, which
    /// compactions have yet to find. What memtables hide counts.
    pub hidden_blob_bytes: u64,
    /// Of what is live: an estimate of what newer entries hide, but snapshots see.
    pub snapshot_blob_bytes: u64,
    /// Files that only older versions have, which somebody reads from. Not in the fields above.
    pub held_files: FileSum,
}

impl AddAssign<&SpaceUsage> for SpaceUsage {
    fn add_assign(&mut self, other: &SpaceUsage) {
        // What a MANIFEST says may be too large to be true.
        let add = |sum: &mut u64, bytes: u64| *sum = sum.saturating_add(bytes);
        add(&mut self.sst_bytes, other.sst_bytes);
        add(&mut self.blob_bytes, other.blob_bytes);
        add(&mut self.map_bytes, other.map_bytes);
        add(&mut self.live_blob_bytes, other.live_blob_bytes);
        add(&mut self.garbage_blob_bytes, other.garbage_blob_bytes);
        add(&mut self.held_blob_bytes, other.held_blob_bytes);
        add(&mut self.hidden_blob_bytes, other.hidden_blob_bytes);
        add(&mut self.snapshot_blob_bytes, other.snapshot_blob_bytes);
        self.held_files += other.held_files;
    }
}

impl AddAssign for FileSum {
    fn add_assign(&mut self, other: FileSum) {
        self.files += other.files;
        self.bytes += other.bytes;
    }
}

/// A column family's part of the space.
#[derive(Clone, Debug, Serialize)]
pub struct FamilySpace {
    /// Its name.
    pub name: String,
    /// Its number.
    pub id: ColumnFamilyId,
    /// What it takes.
    #[serde(flatten)]
    pub usage: SpaceUsage,
    /// Its blob files, by number.
    pub blob_files: Vec<BlobFileSpace>,
}

/// A blob file on disk.
#[derive(Clone, Debug, Serialize)]
pub struct BlobFileSpace {
    /// The number in its name.
    pub number: BlobFileNumber,
    /// The files that its values were first written to, as pointers name them: itself, or those
    /// that garbage collection gathered.
    pub logical_files: Vec<BlobFileNumber>,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Bytes of its map, if it has one.
    pub map_bytes: u64,
    /// Bytes of all records in it.
    pub total_bytes: u64,
    /// Those that current tables refer to.
    pub live_bytes: u64,
    /// Those that were given back to the file system, as holes.
    pub hole_bytes: u64,
    /// Those that are there and that current tables do not refer to.
    pub garbage_bytes: u64,
    /// Of the garbage: what older versions still refer to.
    pub held_bytes: u64,
    /// Whether it is about to be collected, or why not.
    pub verdict: Verdict,
}

impl BlobFileSpace {
    /// The share of what is there of its records that lives, from 0 to 1.
    pub fn live_share(&self) -> f64 {
        let there = self.total_bytes.saturating_sub(self.hole_bytes);
        self.live_bytes as f64 / there.max(1) as f64
    }
}

/// Whether a blob file is about to be collected, or why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Verdict {
    /// It is part of the next collection.
    Next,
    /// It is worth collecting, once so many collections have run before it.
    Later(usize),
    /// Everything in it lives.
    Clean,
    /// Too small a part of it is garbage.
    LittleGarbage,
    /// It is worth collecting, but so little of all blob files is garbage that nothing needs to be.
    NotNeeded,
    /// What is garbage in it is still seen by older versions, and would be copied with the rest.
    Held,
    /// It is damaged, or the accounts of it were found to be wrong, and stays as it is.
    Damaged,
    /// The family's garbage is not collected.
    Off,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Next => f.write_str("next"),
            Verdict::Later(after) => write!(f, "later, after {after}"),
            Verdict::Clean => f.write_str("clean"),
            Verdict::LittleGarbage => f.write_str("little garbage"),
            Verdict::NotNeeded => f.write_str("not needed"),
            Verdict::Held => f.write_str("held by older versions"),
            Verdict::Damaged => f.write_str("damaged"),
            Verdict::Off => f.write_str("collection is off"),
        }
    }
}

/// Who keeps bytes from being given back, together with all of their kind that keep the same.
#[derive(Clone, Debug, Serialize)]
pub struct SpaceHolder {
    /// What it is.
    pub kind: HolderKind,
    /// How many there are that keep the same.
    pub count: usize,
    /// Since when, in microseconds: the age of the oldest of them. Of readers it is known only
    /// that they are no younger than this.
    pub age_micros: u64,
    /// The newest sequence number that it sees, of a snapshot.
    pub sequence: Option<SequenceNumber>,
    /// The number of the family that it reads, of iterators and readers.
    pub column_family: Option<ColumnFamilyId>,
    /// Files that its version has and the current one has not. Others may keep them too.
    pub held_files: FileSum,
    /// Blob records, in files that the current version has, to which its version refers and the
    /// current one does not. Of the oldest snapshot: an estimate of those that snapshots alone see;
    /// what a newer one sees too stays when the oldest is dropped.
    pub held_blob_bytes: u64,
}

/// What keeps bytes from being given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum HolderKind {
    /// A snapshot: what it sees is carried on by compactions, and lives.
    Snapshot,
    /// An iterator, and lazy values taken from it.
    Iterator,
    /// Nothing of these: a lazy value, a call under way, or a background job.
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
