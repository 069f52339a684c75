//! Collecting the garbage of a range of keys, whatever the thresholds say: which files that is
//! about, how far it is, what came of it.
//!
//! What is to be done is settled when it begins: each file is collected once at most, and garbage
//! that arises meanwhile is left. So it ends, however much is overwritten beside it.

use std::collections::BTreeSet;
use std::ops::Bound;

use serde::Serialize;

use super::choose::{Collection, Exempt, Judged, Room, Urgency, judge};
use crate::error::Error;
use crate::format::BlobFileNumber;
use crate::options::ColumnFamilyOptions;
use crate::stats::GarbageCollectionEvent;
use crate::version::Version;

/// What a collection of a range of keys did.
#[derive(Clone, Debug, Default, Serialize)]
pub struct GarbageCollectionSummary {
    /// The blob files that were given up.
    pub files: Vec<BlobFileNumber>,
    /// Bytes of the records that were in them.
    pub input_bytes: u64,
    /// Bytes read of them.
    pub bytes_read: u64,
    /// Bytes of the files that hold what lived in them, and of their maps.
    pub bytes_written: u64,
    /// Files that could not be collected.
    pub damaged: Vec<DamagedBlobFile>,
}

/// A blob file that could not be collected, and stays as it is.
#[derive(Clone, Debug, Serialize)]
pub struct DamagedBlobFile {
    /// The number in its name.
    pub file: BlobFileNumber,
    /// What is damaged: the file, its map, or a table without which it is not known what lives.
    pub error: Error,
}

impl GarbageCollectionSummary {
    /// Bytes that blob files take less than before.
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

/// How far a collection of a range of keys is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GarbageCollectionProgress {
    /// Bytes of live records copied, or found to need no copying any more.
    pub done_bytes: u64,
    /// Bytes of live records in all files to be collected.
    pub total_bytes: u64,
}

/// The logical files that tables over the range from `begin`, which is part of it, to `end` hold
/// values in, or may hold.
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
            // RocksDB wrote it: it may refer to any.
            None => return version.blob_files.keys().copied().collect(),
        }
    }
    files
}

/// The physical files that are still to be collected.
pub(crate) struct Waiting {
    files: BTreeSet<BlobFileNumber>,
    /// What of them cannot be freed.
    exempt: Exempt,
    threshold: f64,
    live_bytes: u64,
}

impl Waiting {
    /// Those that hold any of the logical files, and garbage of more than that share.
    pub(crate) fn of(
        version: &Version,
        options: &ColumnFamilyOptions,
        exempt: Exempt,
        logical: &BTreeSet<BlobFileNumber>,
        threshold: f64,
    ) -> Self {
        let holds = |f: &Judged<'_>| f.logical.iter().any(|file| logical.contains(&file.number));
        let mut waiting = Waiting {
            files: BTreeSet::new(),
            exempt,
            threshold,
            live_bytes: 0,
        };
        for file in judge(version, options, &waiting.exempt).files {
            if holds(&file) && waiting.is_worth(&file) {
                waiting.live_bytes = waiting.live_bytes.saturating_add(file.live);
                waiting.files.insert(file.file.number);
            }
        }
        waiting
    }

    fn is_worth(&self, file: &Judged<'_>) -> bool {
        let share = file.garbage as f64 / file.file.bytes_on_disk().max(1) as f64;
        file.garbage > 0 && share > self.threshold
    }

    /// The next collection: of files that free most for each byte copied, as long as they fit one,
    /// and what is live in them one output file. The first of them will not come again.
    pub(crate) fn next(
        &mut self,
        version: &Version,
        options: &ColumnFamilyOptions,
    ) -> Option<Collection> {
        let mut files = judge(version, options, &self.exempt).files;
        // Others may have been collected meanwhile because that was due.
        files.retain(|file| self.files.contains(&file.file.number) && self.is_worth(file));
        let mut room = Room::new(options.blob_file_size);
        files.retain(|file| room.take(file));
        if let Some(first) = files.first() {
            self.files.remove(&first.file.number);
        }
        Collection::of(files, Urgency::Asked)
    }

    /// To be told of files that cannot be collected.
    pub(crate) fn give_up(&mut self, files: &[BlobFileNumber]) {
        self.files.retain(|file| !files.contains(file));
    }

    /// What lived in the files when it began.
    pub(crate) fn live_bytes(&self) -> u64 {
        self.live_bytes
    }
}
