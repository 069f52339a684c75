//! The report on space: the data that takes it and the holders that pin it.
//!
//! The directory is listed first. Then versions, and the locations of blob records, are read under
//! the lock of the version set, so that they fit together. Files installed in between have no bytes
//! yet, and deleted ones show as unlisted; where nothing runs, the sums are those of the directory.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::file_sizes::FileSizes;
use super::pinned_contents::{Contents, PinnedContents};
use crate::db::core::shared::Shared;
use crate::db::core::wal_limit::wal_bound;
use crate::error::Result;
use crate::format::file_name::FileKind;
use crate::format::{BlobFileNumber, ColumnFamilyId, SequenceNumber, total};
use crate::gc::disk_usage::{DiskUsage, ListedFile, list};
use crate::gc::report::{
    BlobFileSpace, CollectionStatus, FamilySpace, FileSum, HolderKind, SpaceBound, SpaceReport,
    SpaceUsage,
};
use crate::gc::selection::select;
use crate::number_map::NumberMap;
use crate::version::state::files::PhysicalBlobFile;
use crate::version::{FamilyVersions, Version, VersionSet};

impl Shared {
    /// See [`Db::space_report`](crate::Db::space_report).
    pub(crate) fn space_report(&self) -> Result<SpaceReport> {
        self.lifecycle.check_not_inherited()?;
        self.check_open()?;
        self.estimate_all();
        let listed = list(&*self.files.device, &self.files.dir)?;
        let report = {
            let versions = self.versions.lock();
            self.report(&versions, &listed)
        };
        // The report may have been the last holder of an older version.
        self.purge();
        Ok(report)
    }

    fn report(&self, versions: &VersionSet, listed: &[ListedFile]) -> SpaceReport {
        let sizes = FileSizes::of(listed);
        let families = versions.families();
        let current = families.iter();
        let current = current.map(|(id, family)| (*id, Contents::of(&family.current)));
        let current: NumberMap<ColumnFamilyId, Contents> = current.collect();
        let (holders, pinned) = self.holders(versions, &current, &sizes);
        let mut report = SpaceReport {
            moment: self.opening.moment,
            disk: DiskUsage::sum(listed),
            bound: self.space_bound(),
            holders,
            ..SpaceReport::default()
        };
        for (id, family) in families {
            let none = PinnedContents::default();
            let pinned = pinned.get(id).unwrap_or(&none);
            let space = self.family_space(*id, family, pinned, &sizes);
            report.total += &space.usage;
            report.families.push(space);
        }
        // Of two snapshots that see a value, the older one is said to pin it.
        let mut snapshots = report.holders.iter_mut();
        if let Some(oldest) = snapshots.find(|h| h.kind == HolderKind::Snapshot) {
            oldest.pinned_blob_bytes = report.total.snapshot_blob_bytes;
        }
        for (_, pinned) in pinned.iter().filter(|(id, _)| !families.contains_key(id)) {
            report.total.pinned_files += sizes.sum(&pinned.files);
        }
        let obsolete: BTreeSet<FileKind> = match self.lifecycle.read_only {
            // Only recovery, in memory, has replaced anything.
            true => BTreeSet::new(),
            false => self.files.obsolete.waiting().into_iter().collect(),
        };
        report.obsolete = sizes.sum(&obsolete);
        let mut known = obsolete;
        let versions = current.values().map(|contents| &contents.files);
        known.extend(
            versions
                .chain(pinned.values().map(|pinned| &pinned.files))
                .flatten(),
        );
        let unlisted = sizes.files.keys().filter(|file| {
            let kind = matches!(
                file,
                FileKind::Table(_) | FileKind::Blob(_) | FileKind::BlobMap(_)
            );
            kind && !known.contains(file)
        });
        report.unlisted = sizes.sum(unlisted);
        let foreign = listed.iter().filter(|file| file.kind.is_none());
        report.foreign = FileSum {
            files: foreign.clone().count(),
            bytes: foreign.map(|file| file.bytes).sum(),
        };
        report
    }

    fn family_space(
        &self,
        id: ColumnFamilyId,
        family: &FamilyVersions,
        pinned: &PinnedContents,
        sizes: &FileSizes,
    ) -> FamilySpace {
        let version = &family.current;
        let statuses = self.statuses(id);
        let pinned_bytes = pinned.blob_bytes_by_file();
        let files = version.physical_blob_files().into_values();
        // Files that recovery wrote to memory take no space.
        let counts = |file: &PhysicalBlobFile| {
            !self.lifecycle.read_only || sizes.files.contains_key(&FileKind::Blob(file.number))
        };
        let files = files.filter(|(file, _)| counts(file));
        let files = files.map(|(file, logical)| {
            let live_bytes = total(logical.iter().map(|meta| meta.live_bytes()));
            BlobFileSpace {
                number: file.number,
                logical_files: logical.iter().map(|meta| meta.shared.number).collect(),
                file_bytes: sizes.of_file(FileKind::Blob(file.number)),
                map_bytes: file
                    .map
                    .map_or(0, |map| sizes.of_file(FileKind::BlobMap(map))),
                total_bytes: file.total_bytes,
                live_bytes,
                hole_bytes: file.hole_bytes(),
                garbage_bytes: file.bytes_on_disk().saturating_sub(live_bytes),
                pinned_bytes: pinned_bytes.get(&file.number).copied().unwrap_or(0),
                status: statuses
                    .get(&file.number)
                    .copied()
                    .unwrap_or(CollectionStatus::Off),
            }
        });
        let blob_files: Vec<BlobFileSpace> = files.collect();
        let tables = version.tables();
        let tables = tables.map(|(_, table)| sizes.of_file(FileKind::Table(table.number())));
        let (found, kept) = shadowed_and_kept(version, self.pins.snapshots.oldest());
        let shadowed = found.saturating_add(self.shadowed_by_memtables(id));
        let sum = |of: fn(&BlobFileSpace) -> u64| total(blob_files.iter().map(of));
        // Both are estimates, and no more than there is.
        let live_blob_bytes = sum(|f| f.live_bytes);
        let shadowed_blob_bytes = shadowed.min(live_blob_bytes);
        let snapshot_blob_bytes = kept.min(live_blob_bytes - shadowed_blob_bytes);
        let usage = SpaceUsage {
            sst_bytes: tables.sum(),
            blob_bytes: sum(|f| f.file_bytes),
            map_bytes: sum(|f| f.map_bytes),
            live_blob_bytes,
            garbage_blob_bytes: sum(|f| f.garbage_bytes),
            pinned_blob_bytes: sum(|f| f.pinned_bytes),
            shadowed_blob_bytes,
            snapshot_blob_bytes,
            pinned_files: sizes.sum(&pinned.files),
            tombstones: self.tombstones(id),
        };
        FamilySpace {
            name: family.name.clone(),
            id,
            usage,
            blob_files,
        }
    }

    fn space_bound(&self) -> Option<SpaceBound> {
        let options = self.opening.options.load();
        let mut state = self.state.lock();
        let bound = state.bound()?;
        Some(SpaceBound {
            file_bytes: bound.bytes(),
            wal_bytes: wal_bound(&state, &options),
        })
    }

    fn tombstones(&self, id: ColumnFamilyId) -> u64 {
        let state = self.state.lock();
        let family = state.families.get(&id);
        family.map_or(0, |family| family.tombstones())
    }

    fn shadowed_by_memtables(&self, id: ColumnFamilyId) -> u64 {
        let state = self.state.lock();
        let family = state.families.get(&id);
        family.map_or(0, |family| family.shadowed_by_memtables())
    }

    /// The [`CollectionStatus`] on each blob file of a family.
    fn statuses(&self, id: ColumnFamilyId) -> NumberMap<BlobFileNumber, CollectionStatus> {
        let asked = self.state.lock().families.get(&id).map(|family| {
            let options = family.family.options();
            (
                Arc::clone(&family.version),
                options,
                Arc::clone(&family.excluded),
            )
        });
        let Some((version, options, excluded)) = asked else {
            return NumberMap::new();
        };
        let selection = select(&version, &options, &excluded).files;
        let statuses = selection.iter().map(|file| (file.file.number, file.status));
        statuses.collect()
    }
}

/// Estimates: shadowed data that compactions have yet to find, and data that the last level keeps
/// for snapshots.
pub(super) fn shadowed_and_kept(
    version: &Version,
    oldest_snapshot: Option<SequenceNumber>,
) -> (u64, u64) {
    let last = version.num_levels().saturating_sub(1);
    let released = version.released_bytes(oldest_snapshot);
    let kept = version.sums(last).shadowed.saturating_sub(released);
    let shadowed = version.shadowed_bytes();
    (shadowed.saturating_add(released), kept)
}
