//! The levels and the blob files of a column family, as text.

use titan::{FamilyMetrics, LevelMetrics};

use crate::output::{self, Table};

/// The levels that have tables, and their sum.
pub(crate) fn table(family: &FamilyMetrics) -> Table {
    let mut table = Table::new(&[
        "level",
        "files",
        "bytes",
        "in blob files",
        "tombstones",
        "target",
        "score",
    ]);
    let levels = family.levels.iter().enumerate();
    for (level, at) in levels.filter(|(_, at)| at.files > 0) {
        table.row([
            level.to_string(),
            output::count(at.files as u64),
            output::size(at.bytes),
            output::size(at.referenced_blob_bytes),
            output::count(at.tombstones),
            output::size(at.target_bytes),
            format!("{:.2}", at.score),
        ]);
    }
    let sum = |of: fn(&LevelMetrics) -> u64| family.levels.iter().map(of).sum::<u64>();
    table.row([
        "all".to_owned(),
        output::count(sum(|at| at.files as u64)),
        output::size(family.table_bytes()),
        output::size(sum(|at| at.referenced_blob_bytes)),
        output::count(sum(|at| at.tombstones)),
        String::new(),
        String::new(),
    ]);
    table
}

/// A line about the blob files.
pub(crate) fn blob_files(family: &FamilyMetrics) -> String {
    let share = output::ratio(family.live_blob_bytes, family.blob_bytes);
    let share = share.map_or_else(String::new, |s| format!(" ({:.1} %)", 100.0 * s));
    format!(
        "  blob files {}, {}, of them live {}{share}, of that shadowed data about {}; known garbage {}",
        output::count(family.blob_files as u64),
        output::size(family.blob_bytes),
        output::size(family.live_blob_bytes),
        output::size(family.shadowed_blob_bytes),
        output::size(family.garbage_blob_bytes)
    )
}
