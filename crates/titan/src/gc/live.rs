//! What must be kept of a blob file: what any live table refers to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::cache::OpenFiles;
use crate::error::Result;
use crate::format::BlobFileNumber;
use crate::table::BlobRef;
use crate::version::{TableFile, Version};

/// References by logical file, each once, by ascending offset.
pub(super) type LiveRecords = BTreeMap<BlobFileNumber, Vec<BlobRef>>;

/// The union of the references that the tables of these versions hold to the logical files. Cost:
/// the liveness block of each table that refers to one of them; a table without one, which RocksDB
/// wrote, is read whole.
pub(super) fn live_records(
    versions: &[Arc<Version>],
    logical: &BTreeSet<BlobFileNumber>,
    open_files: &OpenFiles,
) -> Result<LiveRecords> {
    let mut live = LiveRecords::new();
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
