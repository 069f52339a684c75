//! A page for people.

use std::cmp::Reverse;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use titan::{FamilyMetrics, Result};

use super::sample::Page;
use crate::levels;
use crate::output::{self, Out, Table};

/// Prints a page with the `most` largest families.
pub(super) fn print(page: &Page<'_>, db: &Path, most: usize, out: &mut Out) -> Result<()> {
    out.line(heading(page, db))?;
    let rates = page.rates;
    let growth = |of: fn(&super::sample::Rates) -> f64| {
        rates.map_or_else(|| "-".to_owned(), |rates| growth_text(of(&rates)))
    };
    let mut table = Table::new(&["on disk", "bytes", "growth"]);
    for (kind, bytes, growth) in [
        ("SST", page.disk.sst_bytes, growth(|r| r.sst_bytes)),
        ("blob", page.disk.blob_bytes, growth(|r| r.blob_bytes)),
        ("WAL", page.disk.wal_bytes, growth(|r| r.wal_bytes)),
    ] {
        table.row([kind.to_owned(), output::size(bytes), growth]);
    }
    let garbage = page.families.iter().map(|f| f.garbage_blob_bytes).sum();
    table.row([
        "garbage in blob files".to_owned(),
        output::size(garbage),
        growth(|r| r.garbage_bytes),
    ]);
    out.line(table)?;
    let mut families: Vec<&FamilyMetrics> = page.families.iter().collect();
    // Stable, so that families of the same size do not move from page to page.
    families.sort_by_key(|family| Reverse(family.table_bytes() + family.blob_bytes));
    for family in families.iter().take(most) {
        out.line("")?;
        print_family(family, out)?;
    }
    match families.len().saturating_sub(most) {
        0 => Ok(()),
        more => out.line(format_args!(
            "\n{} more column families, smaller ones",
            output::count(more as u64)
        )),
    }
}

fn heading(page: &Page<'_>, db: &Path) -> String {
    let mut text = db.display().to_string();
    if let Some(moment) = page.moment {
        let time = UNIX_EPOCH + Duration::from_secs(moment.unix_seconds);
        let time = humantime::format_rfc3339_seconds(time);
        let sequence = output::count(moment.sequence);
        text += &format!("  {time}  sequence number {sequence}");
    }
    if let Some(rates) = page.rates {
        let operations = output::count(rates.operations.max(0.0) as u64);
        text += &format!("  written {operations} op/s");
    }
    text
}

fn print_family(family: &FamilyMetrics, out: &mut Out) -> Result<()> {
    out.line(format_args!(
        "Column family {}: keys about {}, tombstones {}, waiting for compaction {}",
        family.name,
        output::count(family.estimated_keys),
        output::count(family.tombstones),
        output::size(family.pending_compaction_bytes),
    ))?;
    out.line(levels::table(family))?;
    out.line(levels::blob_files(family))
}

/// `+1.50 MiB/s`, `-1.50 MiB/s`.
fn growth_text(rate: f64) -> String {
    let sign = if rate < 0.0 { '-' } else { '+' };
    format!("{sign}{}/s", output::size(rate.abs() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_has_a_sign() {
        assert_eq!(growth_text(1536.0), "+1.50 KiB/s");
        assert_eq!(growth_text(-1536.0), "-1.50 KiB/s");
        assert_eq!(growth_text(0.0), "+0 B/s");
    }
}
