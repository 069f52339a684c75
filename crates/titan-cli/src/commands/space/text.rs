//! The report as text for a terminal.

use std::cmp::Reverse;

use titan::{BlobFileSpace, FamilySpace, Result, SpaceReport};

use super::advice::advice;
use super::parts::{PINS, parts, percent};
use crate::output::{self, Out, Table};

/// Characters in the bar of a blob file.
const BAR: usize = 32;
/// From empty to full.
const COLUMNS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

pub(super) fn print(report: &SpaceReport, worst: usize, out: &mut Out) -> Result<()> {
    let all = report.disk.total_bytes();
    let mut table = Table::new(&["on disk", "bytes", "share"]);
    for part in parts(report).iter().filter(|part| part.bytes > 0) {
        let share = format!("{:.1} %", percent(part.bytes, all));
        table.row([part.name.to_owned(), output::size(part.bytes), share]);
    }
    table.row(["all".to_owned(), output::size(all), String::new()]);
    out.line(table)?;
    match report.bound {
        Some(bound) => out.line(format_args!(
            "\nThe options allow {} of SST, blob and map files, and about {} of WAL.",
            output::size(bound.file_bytes),
            output::size(bound.wal_bytes)
        ))?,
        None => out.line(
            "\nThe options bound no space: that takes enable_blob_files, \
             enable_blob_garbage_collection and compactions.",
        )?,
    }
    out.line(PINS)?;
    let advice = advice(report);
    if !advice.is_empty() {
        out.line("\nWorth doing")?;
    }
    for line in advice {
        out.line(format_args!("  {line}"))?;
    }
    for family in &report.families {
        out.line("")?;
        print_family(family, worst, out)?;
    }
    Ok(())
}

fn print_family(family: &FamilySpace, worst: usize, out: &mut Out) -> Result<()> {
    let usage = &family.usage;
    out.line(format_args!("Column family {}", family.name))?;
    out.line(format_args!(
        "  SST {}, tombstones {}, blob files {}, {}, maps {}",
        output::size(usage.sst_bytes),
        output::count(usage.tombstones),
        output::count(family.blob_files.len() as u64),
        output::size(usage.blob_bytes),
        output::size(usage.map_bytes)
    ))?;
    if family.blob_files.is_empty() {
        return Ok(());
    }
    out.line(format_args!(
        "  values {}, of them shadowed about {}, kept by snapshots about {}; \
         garbage {}, of it still read {}",
        output::size(usage.live_blob_bytes),
        output::size(usage.shadowed_blob_bytes),
        output::size(usage.snapshot_blob_bytes),
        output::size(usage.garbage_blob_bytes),
        output::size(usage.pinned_blob_bytes)
    ))?;
    let mut files: Vec<&BlobFileSpace> = family.blob_files.iter().collect();
    files.sort_by_key(|file| (Reverse(file.garbage_bytes), file.number));
    let (listed, rest) = files.split_at(worst.min(files.len()));
    print_files(listed, out)?;
    if !rest.is_empty() {
        print_rest(rest, out)?;
    }
    Ok(())
}

/// A bar of the live share for each file.
fn print_files(files: &[&BlobFileSpace], out: &mut Out) -> Result<()> {
    if files.is_empty() {
        return Ok(());
    }
    out.line("")?;
    let mut table = Table::new(&[
        "blob file, live █ still read ▒ garbage ░ holes ·",
        "live",
        "garbage",
        "size",
        "collected",
    ]);
    for file in files {
        table.row([
            format!("{:06} {}", file.number.0, bar(file)),
            format!("{:.1} %", 100.0 * file.live_share()),
            output::size(file.garbage_bytes),
            output::size(file.file_bytes + file.map_bytes),
            file.status.to_string(),
        ]);
    }
    out.line(table)
}

fn bar(file: &BlobFileSpace) -> String {
    let garbage_end = file.live_bytes.saturating_add(file.garbage_bytes);
    let ends = [
        ("█", file.live_bytes),
        ("▒", file.live_bytes.saturating_add(file.pinned_bytes)),
        ("░", garbage_end),
        ("·", garbage_end.saturating_add(file.hole_bytes)),
    ];
    let whole = file.total_bytes.max(1);
    let column = |end: u64| (percent(end, whole) / 100.0 * BAR as f64).round() as usize;
    let mut bar = String::new();
    let mut at = 0;
    for (mark, end) in ends {
        let end = column(end).clamp(at, BAR);
        bar.push_str(&mark.repeat(end - at));
        at = end;
    }
    bar
}

/// Summarises the other files in one line: how many have which live share.
fn print_rest(files: &[&BlobFileSpace], out: &mut Out) -> Result<()> {
    let mut counts = [0usize; 10];
    for file in files {
        let at = (file.live_share() * counts.len() as f64) as usize;
        if let Some(count) = counts.get_mut(at.min(9)) {
            *count += 1;
        }
    }
    let garbage = files.iter().map(|file| file.garbage_bytes).sum();
    out.line(format_args!(
        "  {} more files, garbage {}, by live share: 0 % {} 100 %",
        output::count(files.len() as u64),
        output::size(garbage),
        histogram(&counts)
    ))
}

/// A column for each count, scaled to the largest; a count above zero is always visible.
fn histogram(counts: &[usize]) -> String {
    let most = counts.iter().copied().max().unwrap_or(0).max(1);
    let height = |count: usize| (count * (COLUMNS.len() - 1)).div_ceil(most);
    let columns = counts.iter().map(|count| COLUMNS.get(height(*count)));
    columns
        .map(|column| column.copied().unwrap_or(' '))
        .collect()
}

#[cfg(test)]
mod tests {
    use titan::{BlobFileNumber, CollectionStatus};

    use super::*;

    fn file(live: u64, held: u64, holes: u64) -> BlobFileSpace {
        BlobFileSpace {
            number: BlobFileNumber(7),
            logical_files: vec![BlobFileNumber(7)],
            file_bytes: 162,
            map_bytes: 0,
            total_bytes: 100,
            live_bytes: live,
            hole_bytes: holes,
            garbage_bytes: 100 - live - holes,
            pinned_bytes: held,
            status: CollectionStatus::Clean,
        }
    }

    #[test]
    fn bars_are_all_of_one_length() {
        for (live, held, holes) in [
            (100, 0, 0),
            (0, 0, 0),
            (50, 25, 0),
            (99, 1, 0),
            (1, 99, 0),
            (33, 33, 33),
            (0, 0, 100),
        ] {
            let bar = bar(&file(live, held, holes));
            assert_eq!(bar.chars().count(), BAR, "{bar}");
        }
        assert_eq!(
            bar(&file(50, 25, 0)),
            ["█".repeat(16), "▒".repeat(8), "░".repeat(8)].concat()
        );
        assert_eq!(
            bar(&file(50, 0, 25)),
            ["█".repeat(16), "░".repeat(8), "·".repeat(8)].concat()
        );
    }

    #[test]
    fn a_histogram_shows_what_is_there() {
        assert_eq!(histogram(&[0, 1, 50, 100]), " ▁▄█");
        assert_eq!(histogram(&[0, 0]), "  ");
    }
}
