//! Holders that pin older versions, or the files and records that they have.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use super::file_sizes::FileSizes;
use super::pinned_contents::{Contents, PinnedContents};
use crate::db::core::shared::Shared;
use crate::format::ColumnFamilyId;
use crate::gc::report::{FileSum, HolderKind, SpaceHolder};
use crate::number_map::NumberMap;
use crate::read::IteratorList;
use crate::sorting;
use crate::version::{FamilyVersions, Version, VersionSet};

/// Readers of one version.
struct Readers {
    kind: HolderKind,
    version: Arc<Version>,
    count: usize,
    /// When the oldest of them began.
    since: Duration,
}

impl Shared {
    /// The holders that pin something, the oldest first, and all that is pinned of each family.
    pub(super) fn holders(
        &self,
        versions: &VersionSet,
        current: &NumberMap<ColumnFamilyId, Contents>,
        sizes: &FileSizes,
    ) -> (Vec<SpaceHolder>, NumberMap<ColumnFamilyId, PinnedContents>) {
        let now = self.opening.clock.monotonic();
        let age = |since: Duration| now.saturating_sub(since).as_micros() as u64;
        let mut holders = Vec::new();
        for (sequence, at) in self.pins.snapshots.alive() {
            holders.push(SpaceHolder {
                kind: HolderKind::Snapshot,
                count: at.count,
                age_micros: age(at.since),
                sequence: Some(sequence),
                column_family: None,
                pinned_files: FileSum::default(),
                pinned_blob_bytes: 0,
            });
        }
        let mut pinned: NumberMap<ColumnFamilyId, PinnedContents> = NumberMap::new();
        let nothing = Contents::default();
        for readers in readers(&self.pins.iterators, versions) {
            let id = readers.version.column_family;
            let kept = PinnedContents::by(&readers.version, current.get(&id).unwrap_or(&nothing));
            if readers.kind == HolderKind::Reader && kept.is_empty() {
                continue;
            }
            holders.push(SpaceHolder {
                kind: readers.kind,
                count: readers.count,
                age_micros: age(readers.since),
                sequence: None,
                column_family: Some(id),
                pinned_files: sizes.sum(&kept.files),
                pinned_blob_bytes: kept.blob_bytes(),
            });
            pinned.get_or_default(id).join(&kept);
        }
        sorting::sort_by_key(&mut holders, |h| {
            (Reverse(h.age_micros), h.kind, h.sequence)
        });
        (holders, pinned)
    }
}

/// The readers of each version: the iterators, by version; then, for each older version that no
/// iterator reads from, an unknown reader from before the version was replaced.
fn readers(iterators: &IteratorList, versions: &VersionSet) -> Vec<Readers> {
    let mut readers: Vec<Readers> = Vec::new();
    for iterator in iterators.alive() {
        let Some(version) = iterator.version.upgrade() else {
            continue;
        };
        match readers
            .iter_mut()
            .find(|r| Arc::ptr_eq(&r.version, &version))
        {
            Some(readers) => readers.count += 1,
            None => readers.push(Readers {
                kind: HolderKind::Iterator,
                version,
                count: 1,
                since: iterator.since,
            }),
        }
    }
    let families = versions.families().values();
    for (version, replaced) in families.flat_map(FamilyVersions::older_versions) {
        if !readers.iter().any(|r| Arc::ptr_eq(&r.version, &version)) {
            readers.push(Readers {
                kind: HolderKind::Reader,
                version,
                count: 1,
                since: replaced,
            });
        }
    }
    readers
}
