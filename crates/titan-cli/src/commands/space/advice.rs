//! Recommends actions.

use titan::{CollectionStatus, FamilySpace, SpaceReport};

use crate::output;

/// The share of a family's blob files that something must have before an action is worthwhile.
const WORTH: f64 = 0.1;

/// A line for each recommended action; none if there is nothing to do.
pub(super) fn advice(report: &SpaceReport) -> Vec<String> {
    let sum = |of: fn(&FamilySpace) -> u64| {
        let each = report.families.iter().map(|f| (of(f), f));
        let worth = each.filter(|(bytes, f)| is_worth(*bytes, f));
        worth.map(|(bytes, _)| bytes).fold(0, u64::saturating_add)
    };
    let mut lines = Vec::new();
    let files = report.families.iter().flat_map(|f| &f.blob_files);
    let damaged = files.filter(|file| file.status == CollectionStatus::Damaged);
    if let n @ 1.. = damaged.count() {
        let n = output::count(n as u64);
        lines.push(format!(
            "damaged blob files, {n}: titan check shows the places, titan repair saves the readable data"
        ));
    }
    let uncollected = sum(|f| if is_off(f) { garbage(f) } else { 0 });
    if uncollected > 0 {
        lines.push(format!(
            "known garbage, {}, and its collection is off: titan gc frees it (RocksDB then needs titan \
             downgrade); enable_blob_garbage_collection = true keeps it small",
            output::size(uncollected)
        ));
    }
    let collected = sum(|f| if is_off(f) { 0 } else { garbage(f) });
    if collected > 0 {
        lines.push(format!(
            "known garbage, {}: titan gc frees it now",
            output::size(collected)
        ));
    }
    let shadowed = sum(|f| f.usage.shadowed_blob_bytes);
    if shadowed > 0 {
        lines.push(format!(
            "shadowed data, about {}: titan compact finds it, titan gc finds and frees it",
            output::size(shadowed)
        ));
    }
    lines
}

fn is_worth(bytes: u64, family: &FamilySpace) -> bool {
    let files = family.blob_files.iter();
    let there = files.map(|file| file.total_bytes.saturating_sub(file.hole_bytes));
    let there = there.fold(0, u64::saturating_add);
    bytes > 0 && bytes as f64 >= WORTH * there as f64
}

fn is_off(family: &FamilySpace) -> bool {
    let mut statuses = family.blob_files.iter().map(|file| file.status);
    statuses.any(|status| status == CollectionStatus::Off)
}

/// Bytes that a collection would free: garbage that nothing pins, in undamaged files.
fn garbage(family: &FamilySpace) -> u64 {
    let files = family.blob_files.iter();
    let whole = files.filter(|file| file.status != CollectionStatus::Damaged);
    let garbage = whole.map(|file| file.garbage_bytes.saturating_sub(file.pinned_bytes));
    garbage.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use titan::{BlobFileNumber, BlobFileSpace, ColumnFamilyId, SpaceUsage};

    use super::*;

    /// The advice for a family with one blob file of 1000 bytes.
    fn said(
        garbage_bytes: u64,
        pinned_bytes: u64,
        shadowed: u64,
        status: CollectionStatus,
    ) -> String {
        let file = BlobFileSpace {
            number: BlobFileNumber(7),
            logical_files: vec![BlobFileNumber(7)],
            file_bytes: 1062,
            map_bytes: 0,
            total_bytes: 1000,
            live_bytes: 1000 - garbage_bytes,
            hole_bytes: 0,
            garbage_bytes,
            pinned_bytes,
            status,
        };
        let family = FamilySpace {
            name: "default".to_owned(),
            id: ColumnFamilyId(0),
            usage: SpaceUsage {
                shadowed_blob_bytes: shadowed,
                ..SpaceUsage::default()
            },
            blob_files: vec![file],
        };
        let families = vec![family];
        let report = SpaceReport {
            families,
            ..SpaceReport::default()
        };
        advice(&report).join("\n")
    }

    #[test]
    fn nothing_is_said_where_nothing_is_worth_doing() {
        assert_eq!(advice(&SpaceReport::default()), Vec::<String>::new());
        for status in [
            CollectionStatus::Off,
            CollectionStatus::Clean,
            CollectionStatus::NotNeeded,
        ] {
            assert_eq!(said(0, 0, 0, status), "");
            assert_eq!(said(99, 0, 99, status), "");
            assert_eq!(said(500, 450, 0, status), "", "somebody reads it");
        }
    }

    #[test]
    fn each_kind_of_garbage_has_its_remedy() {
        let off = said(500, 0, 0, CollectionStatus::Off);
        assert!(
            off.starts_with("known garbage, 500 B, and its collection is off: titan gc"),
            "{off}"
        );
        for status in [
            CollectionStatus::Next,
            CollectionStatus::Later(1),
            CollectionStatus::NotNeeded,
        ] {
            assert_eq!(
                said(500, 0, 0, status),
                "known garbage, 500 B: titan gc frees it now"
            );
        }
        let shadowed = said(0, 0, 100, CollectionStatus::Clean);
        assert!(
            shadowed.starts_with("shadowed data, about 100 B: titan compact finds it"),
            "{shadowed}"
        );
        let damaged = said(500, 0, 0, CollectionStatus::Damaged);
        assert!(damaged.contains("titan repair"), "{damaged}");
        assert_eq!(damaged.lines().count(), 1, "{damaged}");
    }
}
