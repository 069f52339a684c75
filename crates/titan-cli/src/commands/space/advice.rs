//! Recommends actions.

use titan::{FamilySpace, SpaceReport, Verdict};

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
    let damaged = files.filter(|file| file.verdict == Verdict::Damaged);
    if let n @ 1.. = damaged.count() {
        let n = output::count(n as u64);
        lines.push(format!(
            "damaged blob files, {n}: titan check shows where, titan repair saves what can be saved"
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
    let hidden = sum(|f| f.usage.hidden_blob_bytes);
    if hidden > 0 {
        lines.push(format!(
            "hidden garbage, about {}: titan compact finds it, titan gc finds and frees it",
            output::size(hidden)
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
    let mut verdicts = family.blob_files.iter().map(|file| file.verdict);
    verdicts.any(|verdict| verdict == Verdict::Off)
}

/// What a collection would free: garbage that nothing pins, in undamaged files.
fn garbage(family: &FamilySpace) -> u64 {
    let files = family.blob_files.iter();
    let whole = files.filter(|file| file.verdict != Verdict::Damaged);
    let garbage = whole.map(|file| file.garbage_bytes.saturating_sub(file.held_bytes));
    garbage.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use titan::{BlobFileNumber, BlobFileSpace, ColumnFamilyId, SpaceUsage};

    use super::*;

    /// The advice for a family with one blob file of 1000 bytes.
    fn said(garbage_bytes: u64, held_bytes: u64, hidden: u64, verdict: Verdict) -> String {
        let file = BlobFileSpace {
            number: BlobFileNumber(7),
            logical_files: vec![BlobFileNumber(7)],
            file_bytes: 1062,
            map_bytes: 0,
            total_bytes: 1000,
            live_bytes: 1000 - garbage_bytes,
            hole_bytes: 0,
            garbage_bytes,
            held_bytes,
            verdict,
        };
        let family = FamilySpace {
            name: "default".to_owned(),
            id: ColumnFamilyId(0),
            usage: SpaceUsage {
                hidden_blob_bytes: hidden,
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
        for verdict in [Verdict::Off, Verdict::Clean, Verdict::NotNeeded] {
            assert_eq!(said(0, 0, 0, verdict), "");
            assert_eq!(said(99, 0, 99, verdict), "");
            assert_eq!(said(500, 450, 0, verdict), "", "somebody reads it");
        }
    }

    #[test]
    fn each_kind_of_garbage_has_its_remedy() {
        let off = said(500, 0, 0, Verdict::Off);
        assert!(
            off.starts_with("known garbage, 500 B, and its collection is off: titan gc"),
            "{off}"
        );
        for verdict in [Verdict::Next, Verdict::Later(1), Verdict::NotNeeded] {
            assert_eq!(
                said(500, 0, 0, verdict),
                "known garbage, 500 B: titan gc frees it now"
            );
        }
        let hidden = said(0, 0, 100, Verdict::Clean);
        assert!(
            hidden.starts_with("hidden garbage, about 100 B: titan compact finds it"),
            "{hidden}"
        );
        let damaged = said(500, 0, 0, Verdict::Damaged);
        assert!(damaged.contains("titan repair"), "{damaged}");
        assert_eq!(damaged.lines().count(), 1, "{damaged}");
    }
}
