//! Collecting the garbage of a range of keys, regardless of the thresholds: the files concerned,
//! the progress and the result.
//!
//! The files are fixed when it begins: each is collected once at most, and garbage that arises
//! meanwhile is left. So it ends, however much is overwritten meanwhile.

use std::collections::BTreeSet;
use std::ops::Bound;

#[cfg(feature = "serde")]
use serde::Serialize;

use super::selection::{Candidate, Collection, Exclusions, Room, Urgency, select};
use crate::error::Error;
use crate::format::BlobFileNumber;
use crate::options::ColumnFamilyOptions;
use crate::stats::GarbageCollectionEvent;
use crate::version::Version;

/// Summary of a collection of a range of keys.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "serde", derive(Serialize))]
pub struct GarbageCollectionSummary {
    /// The blob files that were replaced.
    pub files: Vec<BlobFileNumber>,
    /// Bytes of the records that were in them.
    pub input_bytes: u64,
    /// Bytes read from them.
    pub bytes_read: u64,
    /// Bytes of the files that have their live records now, and of the relocation maps.
    pub bytes_written: u64,
    /// Files that could not be collected.
    pub damaged: Vec<DamagedBlobFile>,
}

/// A blob file that could not be collected, and stays as it is.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(Serialize))]
pub struct DamagedBlobFile {
    /// The number in its name.
    pub file: BlobFileNumber,
    /// The damage: the file, its map, or a table without which the live records are not known.
    pub error: Error,
}

impl GarbageCollectionSummary {
    /// By how many bytes blob files have become smaller.
    pub fn bytes_freed(&self) -> u64 {
        self.input_bytes.saturating_sub(self.bytes_written)
    }

    pub(crate) fn add(&mut self, event: GarbageCollectionEvent) {
        self.files.extend(event.inputs);
        self.input_bytes += event.input_bytes;
        self.bytes_read += event.bytes_read;
        self.bytes_written += event.bytes_written;
    }
}

/// The progress of a collection of a range of keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize))]
pub struct GarbageCollectionProgress {
    /// Bytes of live records copied, or found to need no copying any more.
    pub done_bytes: u64,
    /// Bytes of live records in all files to be collected.
    pub total_bytes: u64,
}

/// The logical files in which tables over the range from `begin`, which is part of it, to `end`
/// have values, or may have.
pub(crate) fn files_of_range(
    version: &Version,
    begin: Option<&[u8]>,
    end: Bound<&[u8]>,
) -> BTreeSet<BlobFileNumber> {
    let mut files = BTreeSet::new();
    let tables = version.tables().map(|(_, table)| table);
    for table in tables.filter(|table| version.overlaps(table, begin, end)) {
        match table.facts() {
            Some(facts) => files.extend(facts.blob_refs.iter().map(|refs| refs.file)),
            // RocksDB wrote it: it may point to any.
            None => return version.blob_files.keys().copied().collect(),
        }
    }
    files
}

/// The physical files that are still to be collected.
pub(crate) struct Waiting {
    files: BTreeSet<BlobFileNumber>,
    /// Part of them that cannot be freed.
    excluded: Exclusions,
    threshold: f64,
    live_bytes: u64,
}

impl Waiting {
    /// Those that have any of the logical files, and more garbage than that share.
    pub(crate) fn of(
        version: &Version,
        options: &ColumnFamilyOptions,
        excluded: Exclusions,
        logical: &BTreeSet<BlobFileNumber>,
        threshold: f64,
    ) -> Self {
        let holds = |f: &Candidate<'_>| f.logical.iter().any(|file| logical.contains(&file.number));
        let mut waiting = Waiting {
            files: BTreeSet::new(),
            excluded,
            threshold,
            live_bytes: 0,
        };
        for file in select(version, options, &waiting.excluded).files {
            if holds(&file) && waiting.is_worth(&file) {
                waiting.live_bytes = waiting.live_bytes.saturating_add(file.live);
                waiting.files.insert(file.file.number);
            }
        }
        waiting
    }

    fn is_worth(&self, file: &Candidate<'_>) -> bool {
        let share = file.garbage as f64 / file.file.bytes_on_disk().max(1) as f64;
        file.garbage > 0 && share > self.threshold
    }

    /// The next collection: the files that free most per byte copied, as long as they fit one
    /// collection and their live records one output file. The first of them is not selected again.
    pub(crate) fn next(
        &mut self,
        version: &Version,
        options: &ColumnFamilyOptions,
    ) -> Option<Collection> {
        let mut files = select(version, options, &self.excluded).files;
        // Others may have been collected meanwhile because they were due.
        files.retain(|file| self.files.contains(&file.file.number) && self.is_worth(file));
        let mut room = Room::new(options.blob_file_size);
        files.retain(|file| room.take(file));
        if let Some(first) = files.first() {
            self.files.remove(&first.file.number);
        }
        Collection::of(files, Urgency::Asked)
    }

    /// Leaves out files that cannot be collected.
    pub(crate) fn give_up(&mut self, files: &[BlobFileNumber]) {
        self.files.retain(|file| !files.contains(file));
    }

    /// The live bytes of the files when it began.
    pub(crate) fn live_bytes(&self) -> u64 {
        self.live_bytes
    }
}
