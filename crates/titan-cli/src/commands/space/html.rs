//! The report as one self-contained page: for browsers, light and dark, and for paper.

use std::cmp::Reverse;
use std::fmt::{self, Display, Write};

use titan::{BlobFileSpace, FamilySpace, SpaceReport};

use super::advice::advice;
use super::chart;
use super::history::Sample;
use super::parts::{PINS, parts, percent};
use crate::output;

const STYLE: &str = include_str!("page.css");
const LEGEND: &str = "<caption><span class=\"key live\"></span>live \
    <span class=\"key pinned\"></span>garbage that is still read \
    <span class=\"key garbage\"></span>garbage \
    <span class=\"key hole\"></span>freed as holes</caption>\n";

/// The page. `title` is the path of the database; `history` has earlier samples of its space, the
/// oldest first.
pub(super) fn page(report: &SpaceReport, history: &[Sample], title: &str) -> String {
    let mut page = String::new();
    // Writing to a string cannot fail.
    let _ = write(report, history, title, &mut page);
    page
}

fn write(report: &SpaceReport, history: &[Sample], title: &str, page: &mut String) -> fmt::Result {
    let title = Escaped(title);
    write!(
        page,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>Space of {title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <h1>What occupies disk space</h1>\n<p>{title}</p>\n"
    )?;
    write_whole(report, page)?;
    chart::write(history, page)?;
    writeln!(page, "<p>{}</p>", Escaped(PINS))?;
    write_advice(report, page)?;
    for family in &report.families {
        write_family(family, page)?;
    }
    page.push_str("</body>\n</html>\n");
    Ok(())
}

/// The directory as one bar, and its parts as numbers.
fn write_whole(report: &SpaceReport, page: &mut String) -> fmt::Result {
    let all = report.disk.total_bytes();
    let mut parts = parts(report);
    parts.retain(|part| part.bytes > 0);
    let segments = parts.iter().map(|p| (p.class, p.name, p.bytes));
    write_bar(page, "bar whole", 100.0, segments, all)?;
    write_head(page, "", &["On disk", "bytes", "share"])?;
    for part in &parts {
        writeln!(
            page,
            "<tr><td><span class=\"key {}\"></span>{}</td><td>{}</td><td>{:.1} %</td></tr>",
            part.class,
            Escaped(part.name),
            output::size(part.bytes),
            percent(part.bytes, all)
        )?;
    }
    writeln!(
        page,
        "<tr><th>All</th><th>{}</th><th></th></tr>\n</tbody></table></div>",
        output::size(all)
    )
}

fn write_advice(report: &SpaceReport, page: &mut String) -> fmt::Result {
    let advice = advice(report);
    if advice.is_empty() {
        return Ok(());
    }
    page.push_str("<h2>Worth doing</h2>\n<ul>\n");
    for line in advice {
        writeln!(page, "<li>{}</li>", Escaped(&line))?;
    }
    page.push_str("</ul>\n");
    Ok(())
}

fn write_family(family: &FamilySpace, page: &mut String) -> fmt::Result {
    let usage = &family.usage;
    writeln!(
        page,
        "<h2>Column family {}</h2>\n<p>SST {}; tombstones {}; blob files {}, {}; maps {}; values {}, of them shadowed \
         about {}, kept by snapshots about {}; garbage {}, of it still read {}.</p>",
        Escaped(&family.name),
        output::size(usage.sst_bytes),
        output::count(usage.tombstones),
        output::count(family.blob_files.len() as u64),
        output::size(usage.blob_bytes),
        output::size(usage.map_bytes),
        output::size(usage.live_blob_bytes),
        output::size(usage.shadowed_blob_bytes),
        output::size(usage.snapshot_blob_bytes),
        output::size(usage.garbage_blob_bytes),
        output::size(usage.pinned_blob_bytes)
    )?;
    let largest = family.blob_files.iter().map(|file| file.total_bytes).max();
    let Some(largest) = largest else {
        return Ok(());
    };
    let mut files: Vec<&BlobFileSpace> = family.blob_files.iter().collect();
    files.sort_by_key(|file| (Reverse(file.garbage_bytes), file.number));
    write_head(
        page,
        LEGEND,
        &["Blob file", "", "live", "garbage", "size", "collected"],
    )?;
    for file in files {
        write_file(file, largest, page)?;
    }
    page.push_str("</tbody></table></div>\n");
    Ok(())
}

fn write_file(file: &BlobFileSpace, largest: u64, page: &mut String) -> fmt::Result {
    write!(
        page,
        "<tr><td>{:06}</td><td class=\"picture\">",
        file.number.0
    )?;
    let held = file.pinned_bytes.min(file.garbage_bytes);
    let segments = [
        ("live", "live", file.live_bytes),
        ("pinned", "garbage that is still read", held),
        ("garbage", "garbage", file.garbage_bytes - held),
        ("hole", "freed as holes", file.hole_bytes),
    ];
    let width = percent(file.total_bytes, largest);
    write_bar(page, "bar", width, segments, file.total_bytes)?;
    writeln!(
        page,
        "</td><td>{:.1} %</td><td>{}</td><td>{}</td><td class=\"text\">{}</td></tr>",
        100.0 * file.live_share(),
        output::size(file.garbage_bytes),
        output::size(file.file_bytes + file.map_bytes),
        Escaped(&file.status.to_string())
    )
}

/// The beginning of a table, up to the first row of its body.
fn write_head(page: &mut String, caption: &str, columns: &[&str]) -> fmt::Result {
    write!(page, "<div class=\"scroll\"><table>\n{caption}<thead><tr>")?;
    for column in columns {
        write!(page, "<th>{column}</th>")?;
    }
    page.write_str("</tr></thead>\n<tbody>\n")
}

/// A bar of segments (class, name, bytes), each with a tooltip.
fn write_bar(
    page: &mut String,
    class: &str,
    width: f64,
    segments: impl IntoIterator<Item = (&'static str, &'static str, u64)>,
    whole: u64,
) -> fmt::Result {
    write!(page, "<div class=\"{class}\" style=\"width:{width:.2}%\">")?;
    for (class, name, bytes) in segments.into_iter().filter(|(_, _, bytes)| *bytes > 0) {
        let share = percent(bytes, whole);
        write!(
            page,
            "<i class=\"{class}\" style=\"width:{share:.3}%\" title=\"{}: {} ({share:.1} %)\"></i>",
            Escaped(name),
            output::size(bytes)
        )?;
    }
    page.write_str("</div>\n")
}

/// Text escaped for a page, also within quotes.
struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_name_is_taken_for_the_page() {
        let family = FamilySpace {
            name: "<script>alert('1')</script>".to_owned(),
            id: titan::ColumnFamilyId(1),
            usage: titan::SpaceUsage::default(),
            blob_files: Vec::new(),
        };
        let report = SpaceReport {
            families: vec![family],
            ..SpaceReport::default()
        };
        let page = page(&report, &[], "a\"b&c");
        assert!(!page.contains("<script"), "{page}");
        assert!(page.contains("&lt;script&gt;alert(&#39;1&#39;)"), "{page}");
        assert!(page.contains("<p>a&quot;b&amp;c</p>"), "{page}");
    }

    /// A class without a rule is invisible: in the bar, in the list beside it, and in the legend.
    #[test]
    fn the_style_sheet_knows_every_class() {
        let parts = parts(&SpaceReport::default());
        let of_bars = ["live", "pinned", "garbage", "hole"].into_iter();
        let of_legend = LEGEND
            .split("class=\"key ")
            .skip(1)
            .filter_map(|rest| rest.split('"').next());
        let classes: Vec<&str> = parts
            .iter()
            .map(|part| part.class)
            .chain(of_bars)
            .chain(of_legend)
            .chain(chart::LAYERS.map(|(class, ..)| class))
            .collect();
        assert!(classes.len() >= 12, "{classes:?}");
        for class in classes {
            assert!(
                STYLE.contains(&format!(".{class} {{ background")),
                "{class}"
            );
        }
    }
}
