//! Where readers find the values of blob files.

use std::sync::Arc;

use super::core::Shared;
use crate::blob::{BlobFile, BlobLocation, LocationTable};
use crate::compaction::job_output::JobOutput;
use crate::format::{BlobFileNumber, ColumnFamilyId};
use crate::version::VersionSet;

impl Shared {
    /// Lets readers find the values of new blob files. To be called before the version that
    /// refers to them is published.
    pub(super) fn add_locations(&self, column_family: ColumnFamilyId, output: &JobOutput) {
        if output.blob_files.is_empty() {
            return;
        }
        self.locations.rcu(|table| {
            let blobs = output.blob_files.iter();
            let added = blobs.map(|b| in_place(b.number, column_family));
            table.with(added, &[])
        });
    }
}

/// Every live blob file, where it was written.
pub(super) fn locations_of(versions: &VersionSet) -> LocationTable {
    let families = versions.families().iter();
    LocationTable::new(families.flat_map(|(id, family)| {
        let blobs = family.current.blob_files.keys();
        blobs.map(|number| in_place(*number, *id))
    }))
}

fn in_place(
    number: BlobFileNumber,
    column_family: ColumnFamilyId,
) -> (BlobFileNumber, BlobLocation) {
    let file = BlobFile {
        number,
        column_family,
    };
    (number, BlobLocation::InPlace(Arc::new(file)))
}
