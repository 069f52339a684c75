//! The results as `report.json`, `report.md` and `report.html`, with the plots of this crate's
//! other reports.

use std::path::Path;

use anyhow::Result;

use super::results::{Measured, Results};
use super::series::{Figures, Point};
use super::time::SPEED;
use super::workloads::catalog::{NAMES, title};
use crate::report;
use crate::report::document::{Cell, Document, Plot, Table, Tone, slug};
use crate::report::figures::Spread;
use crate::report::plots::axis::{Axis, Scale};
use crate::report::plots::bars::{self, Bar, Bars};
use crate::report::plots::lines::{Line, Lines};
use crate::report::units::{memory, micros, moment, number, percent};

/// Writes all files of the report to a directory.
pub(super) fn write(results: &Results, out: &Path) -> Result<()> {
    report::write_document(results, &document(results)?, out)
}

/// A figure with its format.
type Shown = (&'static str, fn(&Figures) -> f64, fn(f64) -> String);

fn of_processor(value: f64) -> String {
    percent(value / 100.0)
}

/// The columns of the table of a workload.
const COLUMNS: [Shown; 15] = [
    ("next / row", |f| f.next_per_processed, number),
    ("readers' CPU", |f| f.reader_cpu_percent, of_processor),
    ("CPU of scans", |f| f.scanning_cpu_percent, of_processor),
    ("mean", |f| f.mean_us, micros),
    ("p50", |f| f.p50_us, micros),
    ("p99", |f| f.p99_us, micros),
    ("p99.9", |f| f.p999_us, micros),
    ("mean of all jobs", |f| f.all_mean_us, micros),
    ("writers' CPU", |f| f.writer_cpu_percent, of_processor),
    ("cache's CPU", |f| f.cache_cpu_percent, of_processor),
    ("other CPU", |f| f.background_cpu_percent, of_processor),
    ("commits / s", |f| f.commits_per_second, number),
    ("commit mean", |f| f.commit_mean_us, micros),
    ("commit p99", |f| f.commit_p99_us, micros),
    ("scans hit", |f| f.scan_hit_ratio, percent),
];

/// Curves that are drawn over time, by workload.
const CURVES: [(&str, Shown); 6] = [
    ("W1", ("next / row", |f| f.next_per_processed, number)),
    (
        "W1",
        ("readers' CPU", |f| f.reader_cpu_percent, of_processor),
    ),
    ("W1", ("mean latency", |f| f.mean_us, micros)),
    ("W3", ("next / row", |f| f.next_per_processed, number)),
    ("W5", ("next / row", |f| f.next_per_processed, number)),
    (
        "W7",
        ("share of scans from memory", |f| f.scan_hit_ratio, percent),
    ),
];

fn document(results: &Results) -> Result<Document> {
    let mut document = Document {
        title: "TPC-C with a range cache, and without".to_owned(),
        ..Document::default()
    };
    let machine = &results.machine;
    document.text(format!(
        "Profile {}, begun {}, on {}, {} cores, {} of memory, {}, commit {}. The time of the store runs {SPEED} times \
         as fast as the clock. Latency is that of jobs that scan, from when they were due until their reads were \
         done; processor time is in percent of one processor.",
        results.profile,
        moment(results.began),
        machine.cpu,
        machine.cores,
        memory(machine.memory as f64),
        machine.storage,
        machine.commit
    ));
    document.list(results.remarks.clone());
    targets(&mut document, results);
    compared(
        &mut document,
        results,
        "Latency of scans",
        "mean",
        |f| f.mean_us,
        micros,
    )?;
    let cpu = |f: &Figures| f.reader_cpu_percent;
    compared(
        &mut document,
        results,
        "Processor time of readers",
        "cpu",
        cpu,
        of_processor,
    )?;
    for name in NAMES {
        let sides = results.workloads.iter().filter(|side| side.name == name);
        let sides: Vec<&Measured> = sides.collect();
        if !sides.is_empty() {
            workload(&mut document, name, &sides)?;
        }
    }
    Ok(document)
}

fn targets(document: &mut Document, results: &Results) {
    document.heading(2, "Targets", "targets");
    let columns = [":workload", ":what", "at most", "measured", ":met"];
    let mut table = Table::new("The range cache beside the store alone", &columns);
    for judged in &results.targets {
        let (tone, met) = match judged.is_met {
            true => (Tone::Good, "yes"),
            false => (Tone::Bad, "no"),
        };
        table.row(vec![
            judged.workload.into(),
            judged.what.into(),
            number(judged.most).into(),
            number(judged.measured).into(),
            Cell::from(met).tone(tone),
        ]);
    }
    document.table(table);
}

/// Bars of a figure of all workloads.
fn compared(
    document: &mut Document,
    results: &Results,
    title: &str,
    file: &str,
    figure: fn(&Figures) -> f64,
    show: fn(f64) -> String,
) -> Result<()> {
    let of = |name: &str| -> Vec<Bar<'_>> {
        let sides = results.workloads.iter().filter(|side| side.name == name);
        let bar = |side: &'_ Measured| {
            let value = Spread::of([figure(&side.figures)])?;
            let engine = side.variant;
            Some(Bar { engine, value })
        };
        sides.filter_map(bar).collect()
    };
    let bars = Bars {
        axis: bars::axis(title, show),
        groups: NAMES.map(|name| (name, of(name))).into(),
        limit: None,
    };
    plot(document, file, title, bars.draw()?);
    Ok(())
}

fn workload(document: &mut Document, name: &str, sides: &[&Measured]) -> Result<()> {
    document.heading(2, format!("{name} {}", title(name)), &slug(name));
    let columns = COLUMNS.map(|(column, ..)| column);
    let columns = [&[":side"], &columns[..], &["held", "conflicts", "missed"]].concat();
    let part = sides
        .first()
        .map_or((0.0, 0.0), |side| (side.from, side.to));
    let caption = format!("From second {:.1} to {:.1} of the run", part.0, part.1);
    let mut table = Table::new(&caption, &columns);
    for side in sides {
        let mut row = vec![Cell::engine(side.variant)];
        row.extend(COLUMNS.map(|(_, figure, show)| show(figure(&side.figures)).into()));
        row.push(memory(side.figures.held_bytes as f64).into());
        row.push(number(side.conflicts as f64).into());
        row.push(number(side.missed as f64).into());
        table.row(row);
    }
    document.table(table);
    phases(document, sides);
    for (_, shown) in CURVES.iter().filter(|(of, _)| *of == name) {
        curve(document, name, *shown, sides)?;
    }
    Ok(())
}

/// Figures of the cache in each phase.
fn phases(document: &mut Document, sides: &[&Measured]) {
    let columns = [
        ":phase",
        "from",
        "scans hit at its end",
        "seconds until nine tenths of that",
    ];
    let mut table = Table::new("The cache, phase by phase", &columns);
    for side in sides
        .iter()
        .filter(|side| side.variant == "on" && side.phases.len() > 1)
    {
        for phase in &side.phases {
            table.row(vec![
                phase.name.into(),
                number(phase.from).into(),
                phase
                    .last_hit_ratio
                    .map_or_else(Cell::nothing, |ratio| percent(ratio).into()),
                phase
                    .seconds_to_hits
                    .map_or_else(Cell::nothing, |s| number(s).into()),
            ]);
        }
    }
    document.table(table);
}

fn curve(
    document: &mut Document,
    name: &str,
    (what, figure, show): Shown,
    sides: &[&Measured],
) -> Result<()> {
    let axis = |name: &str, show| Axis {
        name: name.to_owned(),
        scale: Scale::Linear,
        show,
    };
    let line = |side: &&'_ Measured| {
        let point = |point: &Point| (point.at, figure(&point.figures));
        let points = side.curve.iter().map(point).collect();
        let engine = side.variant;
        Line { engine, points }
    };
    let lines = Lines {
        x: axis("seconds", number),
        y: axis(what, show),
        lines: sides.iter().map(line).collect(),
    };
    let file = format!("{name}-{what}");
    plot(document, &file, &format!("{name}: {what}"), lines.draw()?);
    Ok(())
}

fn plot(document: &mut Document, file: &str, caption: &str, svg: Option<String>) {
    document.blocks.extend(svg.map(|svg| {
        report::document::Block::Plot(Plot {
            file: format!("ime-{}.svg", slug(file)),
            caption: caption.to_owned(),
            svg,
        })
    }));
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::measured;
    use super::super::targets;
    use super::*;
    use crate::results::Machine;

    #[test]
    fn the_report_has_all_files() {
        let workloads = vec![measured("W1", "off"), measured("W1", "on")];
        let results = Results {
            profile: "quick",
            began: 0,
            machine: Machine::default(),
            targets: targets::judge(&workloads),
            workloads,
            remarks: vec!["a remark".to_owned()],
        };
        let dir = tempfile::tempdir().unwrap();
        write(&results, dir.path()).unwrap();
        let text = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
        for name in ["report.md", "report.html"] {
            for part in ["W1 queue", "a remark", "next / row", "Targets"] {
                assert!(text(name).contains(part), "{part} is missing in {name}");
            }
        }
        let json: serde_json::Value = serde_json::from_str(&text("report.json")).unwrap();
        assert_eq!(json["workloads"][1]["variant"], "on");
        let curve = text("plots/ime-w1-next---row.svg");
        assert!(curve.contains("off") && curve.contains("polyline"));
    }
}
