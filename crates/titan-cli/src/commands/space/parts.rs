//! Divides the bytes of a directory into parts that add up to all of them.

use titan::{FamilySpace, HolderKind, SpaceHolder, SpaceReport};

/// A part of the directory.
pub(super) struct Part {
    pub(super) name: &'static str,
    /// A CSS class: short and without spaces.
    pub(super) class: &'static str,
    pub(super) bytes: u64,
}

/// The parts of the directory, useful ones first.
pub(super) fn parts(report: &SpaceReport) -> Vec<Part> {
    let (disk, total) = (&report.disk, &report.total);
    let listed = total.sst_bytes + total.blob_bytes + total.map_bytes + total.pinned_files.bytes;
    let part = |name, class, bytes| Part { name, class, bytes };
    let estimated = total.shadowed_blob_bytes + total.snapshot_blob_bytes;
    let live = total.live_blob_bytes.saturating_sub(estimated);
    let garbage = total
        .garbage_blob_bytes
        .saturating_sub(total.pinned_blob_bytes);
    let passing = disk.data_bytes().saturating_sub(listed);
    let mut parts = vec![
        part("live values", "live", live),
        part(
            "kept by snapshots, about",
            "snapshot",
            total.snapshot_blob_bytes,
        ),
        part(
            "shadowed data, about",
            "shadowed",
            total.shadowed_blob_bytes,
        ),
        part("known garbage", "garbage", garbage),
        part(
            "garbage that is still read",
            "pinned",
            total.pinned_blob_bytes,
        ),
        part("files of older versions", "older", total.pinned_files.bytes),
        part("SST", "sst", total.sst_bytes),
        part("blob maps", "map", total.map_bytes),
        part("WAL", "wal", disk.wal_bytes),
        part("being written or deleted", "passing", passing),
    ];
    let bytes = parts.iter().map(|part| part.bytes);
    let named = bytes.fold(0, u64::saturating_add);
    parts.push(part(
        "other",
        "other",
        disk.total_bytes().saturating_sub(named),
    ));
    parts
}

/// The kind of a holder, with the snapshot or family that it reads.
pub(super) fn holder_name(holder: &SpaceHolder, families: &[FamilySpace]) -> String {
    let count = match holder.count {
        1 => String::new(),
        n => format!("{n} x "),
    };
    match (holder.kind, holder.sequence, holder.column_family) {
        (HolderKind::Snapshot, Some(sequence), _) => format!("{count}snapshot at {sequence}"),
        (kind, _, Some(id)) => match families.iter().find(|family| family.id == id) {
            Some(family) => format!("{count}{kind} in {}", family.name),
            None => format!("{count}{kind} in a dropped family"),
        },
        (kind, ..) => format!("{count}{kind}"),
    }
}

/// An age, in the two largest units that matter.
pub(super) fn age(micros: u64) -> String {
    let seconds = micros / 1_000_000;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    if days > 0 {
        format!("{days} d {} h", hours % 24)
    } else if hours > 0 {
        format!("{hours} h {} min", minutes % 60)
    } else if minutes > 0 {
        format!("{minutes} min {} s", seconds % 60)
    } else {
        format!("{:.1} s", micros as f64 / 1e6)
    }
}

/// A share as a percentage.
pub(super) fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_told_as_people_do() {
        for (seconds, text) in [
            (0.25, "0.2 s"),
            (59.9, "59.9 s"),
            (61.0, "1 min 1 s"),
            (3.0 * 3600.0 + 720.0, "3 h 12 min"),
            (50.0 * 3600.0, "2 d 2 h"),
        ] {
            assert_eq!(age((seconds * 1e6) as u64), text);
        }
    }
}
