//! Divides the bytes of a directory into parts that add up to all of them.

use titan::SpaceReport;

/// The limit of a report from outside: the command reads files alone.
pub(super) const PINS: &str = "Snapshots and iterators of a program that has the database open are not in its files: \
                               Db::space_report names them there.";

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

/// A share as a percentage.
pub(super) fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}
