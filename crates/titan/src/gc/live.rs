//! What must be kept of a blob file: what any live table refers to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::blob::BlobReaders;
use crate::cache::OpenFiles;
use crate::error::Result;
use crate::format::BlobFileNumber;
use crate::table::BlobRef;
use crate::version::files::PhysicalBlobFile;
use crate::version::{TableFile, Version};

/// A live record: which one it is, and where in the physical file.
#[derive(Clone, Copy, Debug)]
pub(super) struct LiveRecord {
    pub(super) logical: BlobFileNumber,
    /// As the pointers to it say.
    pub(super) reference: BlobRef,
    /// Where the value's bytes start in the physical file.
    pub(super) at: u64,
}

impl LiveRecord {
    pub(super) fn start(&self) -> u64 {
        self.at - (self.reference.offset - self.reference.record_offset())
    }

    /// Bytes of header, key and stored value.
    pub(super) fn len(&self) -> u64 {
        self.end() - self.start()
    }

    pub(super) fn end(&self) -> u64 {
        self.at + self.reference.size
    }
}

/// The live records of logical files, by the physical file that they are in, in no order. Cost: as
/// of [`references`], and a lookup in a map for each that has been moved.
pub(super) fn live_records(
    logical: &BTreeMap<BlobFileNumber, Arc<PhysicalBlobFile>>,
    versions: &[Arc<Version>],
    open_files: &OpenFiles,
) -> Result<BTreeMap<BlobFileNumber, Vec<LiveRecord>>> {
    let mut by_file: BTreeMap<BlobFileNumber, Vec<LiveRecord>> = BTreeMap::new();
    let numbers = logical.keys().copied().collect();
    let live = references(versions, &numbers, open_files)?;
    for (&number, place) in logical {
        let map = place.map.map(|map| open_files.map(map)).transpose()?;
        let records = by_file.entry(place.number).or_default();
        for reference in live.get(&number).into_iter().flatten() {
            let at = match &map {
                Some(map) => map.lookup(number, reference.offset)?,
                None => reference.offset,
            };
            records.push(LiveRecord {
                logical: number,
                reference: *reference,
                at,
            });
        }
    }
    Ok(by_file)
}

/// References by logical file, each once, by ascending offset.
type References = BTreeMap<BlobFileNumber, Vec<BlobRef>>;

/// The union of the references that the tables of these versions hold to the logical files. Cost:
/// the liveness block of each table that refers to one of them; a table without one, which RocksDB
/// wrote, is read whole.
fn references(
    versions: &[Arc<Version>],
    logical: &BTreeSet<BlobFileNumber>,
    open_files: &OpenFiles,
) -> Result<References> {
    let mut live = References::new();
    let mut seen = BTreeSet::new();
    for version in versions {
        for (_, table) in version.tables() {
            if !seen.insert(table.number()) || !may_refer(table, logical) {
                continue;
            }
            let reader = open_files.table(table.meta.identity(), &version.comparator)?;
            for (file, references) in reader.blob_refs()?.files() {
                if logical.contains(&file) {
                    live.entry(file).or_default().extend_from_slice(references);
                }
            }
        }
    }
    for references in live.values_mut() {
        // An older version's tables refer to what those made of them do.
        references.sort_unstable();
        references.dedup();
    }
    Ok(live)
}

/// False only if the table is known to refer to none of the files.
fn may_refer(table: &TableFile, logical: &BTreeSet<BlobFileNumber>) -> bool {
    match table.facts() {
        Some(facts) => {
            let mut files = facts.blob_refs.iter().map(|refs| refs.file);
            files.any(|file| logical.contains(&file))
        }
        None => table.meta.oldest_blob_file.is_some(),
    }
}
