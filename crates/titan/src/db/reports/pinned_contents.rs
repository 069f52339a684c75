//! Files that older versions pin and that the current one does not need.

use std::collections::BTreeSet;

use crate::format::file_name::FileKind;
use crate::format::{BlobFileNumber, total};
use crate::number_map::NumberMap;
use crate::version::Version;

/// Contents of a version on disk.
#[derive(Default)]
pub(super) struct Contents {
    /// Its tables, and the blob files that have its values, with their relocation maps.
    pub(super) files: BTreeSet<FileKind>,
    /// By logical file: the physical one, and the bytes of the records to which the version points.
    records: NumberMap<BlobFileNumber, (BlobFileNumber, u64)>,
}

impl Contents {
    /// To be called under the lock of the version set: collections change locations.
    pub(super) fn of(version: &Version) -> Self {
        let mut contents = Contents::default();
        let tables = version.tables();
        let tables = tables.map(|(_, table)| FileKind::Table(table.number()));
        contents.files.extend(tables);
        for (logical, meta) in version.blob_files.iter() {
            let physical = meta.shared.physical();
            contents.files.extend(physical.files());
            let records = (physical.number, meta.live_bytes());
            contents.records.insert(*logical, records);
        }
        contents
    }
}

/// Contents that older versions have and the current one does not.
#[derive(Default)]
pub(super) struct PinnedContents {
    pub(super) files: BTreeSet<FileKind>,
    /// Records in blob files that the current version has, too: by logical file, the physical one,
    /// and their bytes.
    records: NumberMap<BlobFileNumber, (BlobFileNumber, u64)>,
}

impl PinnedContents {
    pub(super) fn by(version: &Version, current: &Contents) -> Self {
        let Contents { files, records } = Contents::of(version);
        let files: BTreeSet<_> = files.difference(&current.files).copied().collect();
        let kept = records
            .into_iter()
            .filter_map(|(logical, (physical, bytes))| {
                let live = current.records.get(&logical).map_or(0, |(_, live)| *live);
                let beyond = bytes.saturating_sub(live);
                let stays = !files.contains(&FileKind::Blob(physical));
                (stays && beyond > 0).then_some((logical, (physical, beyond)))
            });
        PinnedContents {
            records: kept.collect(),
            files,
        }
    }

    /// Adds the files and records that another version pins.
    pub(super) fn join(&mut self, other: &PinnedContents) {
        self.files.extend(&other.files);
        for (logical, (physical, bytes)) in &other.records {
            let (_, most) = self.records.get_or_insert_with(*logical, || (*physical, 0));
            // Of a logical file, the version with the most records has all that the others have.
            *most = (*most).max(*bytes);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty() && self.records.is_empty()
    }

    /// Bytes of the records, without those in files that are deleted with the versions.
    pub(super) fn blob_bytes(&self) -> u64 {
        total(self.records.values().map(|(_, bytes)| *bytes))
    }

    /// The same by physical file.
    pub(super) fn blob_bytes_by_file(&self) -> NumberMap<BlobFileNumber, u64> {
        let mut by_file = NumberMap::new();
        for (physical, bytes) in self.records.values() {
            let sum: &mut u64 = by_file.get_or_default(*physical);
            *sum = sum.saturating_add(*bytes);
        }
        by_file
    }
}
