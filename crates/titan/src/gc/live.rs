//! The live records of blob files: those to which any live table points.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use crate::blob::{BLOB_FILE_HEADER_LEN, BlobReaders};
use crate::error::{Error, Result};
use crate::format::BlobFileNumber;
use crate::format::file_name::FileKind;
use crate::number_map::NumberMap;
use crate::open_files::OpenFiles;
use crate::table::BlobRef;
use crate::version::state::files::PhysicalBlobFile;
use crate::version::{TableFile, Version};

/// A live record: which one it is, and where in the physical file.
#[derive(Clone, Copy, Debug)]
pub(super) struct LiveRecord {
    pub(super) logical: BlobFileNumber,
    /// As in the pointers to it.
    pub(super) reference: BlobRef,
    /// Where the value's bytes start in the physical file.
    pub(super) at: u64,
}

impl LiveRecord {
    /// # Errors
    /// `Corruption` if it is not among the records of the file.
    fn new(
        logical: BlobFileNumber,
        reference: BlobRef,
        at: u64,
        file: &PhysicalBlobFile,
    ) -> Result<Self> {
        let front = reference.offset.saturating_sub(reference.record_offset());
        let start = at
            .checked_sub(front)
            .filter(|start| *start >= BLOB_FILE_HEADER_LEN);
        let records_end = BLOB_FILE_HEADER_LEN.saturating_add(file.total_bytes);
        let end = at
            .checked_add(reference.size)
            .filter(|end| *end <= records_end);
        if start.is_none() || end.is_none() {
            let name = FileKind::Blob(file.number).name();
            let text = format!(
                "a table refers to {} bytes outside of the records",
                reference.size
            );
            return Err(Error::corruption(text).at(Path::new(&name), at));
        }
        Ok(LiveRecord {
            logical,
            reference,
            at,
        })
    }

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

/// The live records of a physical file, in no order.
pub(crate) struct LiveFile {
    pub(super) file: Arc<PhysicalBlobFile>,
    pub(super) records: Vec<LiveRecord>,
}

/// The live records of physical files: those to which any of these versions points. Older versions
/// may still read logical files that the current one has lost. Cost: that of [`references`], and a
/// lookup in a relocation map for each record that has been relocated.
pub(crate) fn live_files(
    physical: &[BlobFileNumber],
    versions: &[Arc<Version>],
    open_files: &OpenFiles,
) -> Result<NumberMap<BlobFileNumber, LiveFile>> {
    let all = versions
        .iter()
        .flat_map(|version| version.blob_files.values());
    let located = all.map(|meta| (meta.shared.number, meta.shared.physical()));
    let logical: NumberMap<BlobFileNumber, Arc<PhysicalBlobFile>> = located
        .filter(|(_, file)| physical.contains(&file.number))
        .collect();
    let numbers = logical.keys().copied().collect();
    let live = references(versions, &numbers, open_files)?;
    let mut files: NumberMap<BlobFileNumber, LiveFile> = NumberMap::new();
    for (number, physical) in logical {
        let map = physical.map.map(|map| open_files.map(map)).transpose()?;
        let empty = || LiveFile {
            file: Arc::clone(&physical),
            records: Vec::new(),
        };
        let records = &mut files.get_or_insert_with(physical.number, empty).records;
        for reference in live.get(&number).into_iter().flatten() {
            let at = match &map {
                Some(map) if !mutant!(old_map_after_a_second_move) => {
                    map.lookup(number, reference.offset)?
                }
                _ => reference.offset,
            };
            records.push(LiveRecord::new(number, *reference, at, &physical)?);
        }
    }
    Ok(files)
}

/// Pointers by logical file, each once, by ascending offset.
type References = NumberMap<BlobFileNumber, Vec<BlobRef>>;

/// The union of the pointers to the logical files in the tables of these versions. Cost: reads the
/// liveness block of each table that points to one of them; a table without one, which RocksDB
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
                    live.get_or_default(file).extend_from_slice(references);
                }
            }
        }
    }
    for references in live.values_mut() {
        // Tables of an older version have the same pointers as those that were compacted from them.
        references.sort_unstable();
        references.dedup();
    }
    Ok(live)
}

/// False only if the table is known to point to none of the files.
fn may_refer(table: &TableFile, logical: &BTreeSet<BlobFileNumber>) -> bool {
    match table.facts() {
        Some(facts) => {
            let mut files = facts.blob_refs.iter().map(|refs| refs.file);
            files.any(|file| logical.contains(&file))
        }
        None => table.meta.oldest_blob_file.is_some(),
    }
}
