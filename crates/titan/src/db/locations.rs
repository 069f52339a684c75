//! Where readers find the values of blob files.

use std::sync::Arc;

use super::core::Shared;
use crate::blob::{BlobFile, BlobLocation, LocationTable};
use crate::compaction::job_output::JobOutput;
use crate::format::BlobFileNumber;
use crate::version::VersionSet;

impl Shared {
    /// Lets readers find the values of new blob files. To be called before the version that
    /// refers to them is published.
    pub(super) fn add_locations(&self, output: &JobOutput) {
        if output.blob_files.is_empty() {
            return;
        }
        self.locations.rcu(|table| {
            let blobs = output.blob_files.iter();
            let added = blobs.map(|b| in_place(b.number, b.count, b.total_bytes));
            table.with(added, &[])
        });
    }
}

/// Every live blob file, where it was written.
pub(super) fn locations_of(versions: &VersionSet) -> LocationTable {
    let families = versions.families().values();
    let blobs = families.flat_map(|f| f.current.blob_files.values());
    LocationTable::new(blobs.map(|b| {
        let file = &b.shared;
        in_place(file.number, file.total_count, file.total_bytes)
    }))
}

fn in_place(
    number: BlobFileNumber,
    count: u64,
    total_bytes: u64,
) -> (BlobFileNumber, BlobLocation) {
    let file = BlobFile {
        number,
        count,
        total_bytes,
    };
    (number, BlobLocation::InPlace(Arc::new(file)))
}
