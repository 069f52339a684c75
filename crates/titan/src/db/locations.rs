//! Where readers find the values of blob files.

use super::core::Shared;
use crate::blob::{BlobLocation, BlobPlace, LocationTable};
use crate::compaction::job_output::JobOutput;
use crate::format::ColumnFamilyId;
use crate::version::VersionSet;
use crate::version::edit::Relocation;

impl Shared {
    /// Lets readers find the values of new blob files. To be called before the version that points
    /// to them is published.
    pub(super) fn add_locations(&self, column_family: ColumnFamilyId, output: &JobOutput) {
        if output.blob_files.is_empty() {
            return;
        }
        self.locations.rcu(|table| {
            let place = BlobPlace::InPlace;
            let location = BlobLocation {
                column_family,
                place,
            };
            let blobs = output.blob_files.iter();
            table.with(blobs.map(|b| (b.number, location)), &[])
        });
    }

    /// Sends readers to the new location of records. To be called once the relocation is durable,
    /// and before the old files are deleted.
    pub(super) fn move_locations(&self, column_family: ColumnFamilyId, to: &Relocation) {
        let place = BlobPlace::Moved {
            file: to.file,
            map: to.map,
        };
        let location = BlobLocation {
            column_family,
            place,
        };
        let moved = || to.logical.iter().map(|logical| (*logical, location));
        self.locations.rcu(|table| table.with(moved(), &[]));
    }

    /// Sends readers back to the locations of the records according to `before`.
    pub(super) fn restore_locations(&self, before: &LocationTable, moved: &Relocation) {
        let logical = || moved.logical.iter().copied();
        let places = || logical().filter_map(|file| Some((file, before.location(file).ok()?)));
        self.locations.rcu(|table| table.with(places(), &[]));
    }
}

/// The locations of the records of every live blob file.
pub(super) fn locations_of(versions: &VersionSet) -> LocationTable {
    let families = versions.families().iter();
    LocationTable::new(families.flat_map(|(id, family)| {
        let blobs = family.current.blob_files.iter();
        blobs.map(|(number, file)| {
            let location = BlobLocation {
                column_family: *id,
                place: file.shared.place().place(),
            };
            (*number, location)
        })
    }))
}
