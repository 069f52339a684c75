//! The page of a report: what was run, where Titan loses and wins, targets, a table for each
//! measure, plots, the variants.
//!
//! Tables have a row for each workload or step and a column for each variant; of a single variant
//! there is one table, with a column for each measure.

use super::document::{Block, Document, Plot, Table, slug};
use super::plots::{self, Group, Line};
use super::verdict::{Judgement, MARGIN, Opponent, SUBJECT, Verdict, verdicts};
use crate::results::{Better, Entry, Measure, Report};
use crate::units::Unit;

/// A cell without a value.
pub(crate) const NOTHING: &str = "–";

/// Tables with more variants have no columns of ratios.
const COMPARED: usize = 3;

/// The page; its plots are expected in this directory.
pub(super) fn document(report: &Report, plots: &str) -> Document {
    let mut document = Document {
        title: report.title.clone(),
        ..Document::default()
    };
    if !report.began.is_empty() {
        document.text(format!("Begun {}.", report.began));
    }
    if !report.commands.is_empty() {
        document
            .blocks
            .push(Block::Commands(report.commands.clone()));
    }
    pairs(
        &mut document,
        "",
        [":condition", ":value"],
        &report.conditions,
    );
    document.list(report.remarks.clone());
    judged(&mut document, report);
    failures(&mut document, report);
    targets(&mut document, report);
    document.heading("Figures");
    document.text("Medians of the rounds and, in parentheses, their range. † ran out of time before its work was done.");
    match report.engines.len() {
        0 | 1 => one_variant(&mut document, report),
        _ => report
            .measures
            .iter()
            .for_each(|measure| by_variant(&mut document, report, measure)),
    }
    drawn(&mut document, report, plots);
    about(&mut document, report);
    document
}

fn pairs(document: &mut Document, caption: &str, columns: [&str; 2], all: &[(String, String)]) {
    let mut table = Table::new(caption, columns);
    for (name, value) in all {
        table.row([name, value]);
    }
    document.table(table);
}

fn judged(document: &mut Document, report: &Report) {
    let all = verdicts(report, Opponent::BestOther);
    if all.is_empty() {
        return;
    }
    document.heading("Where Titan loses");
    let noise = report.judged().filter(|measure| measure.noise > 0.0);
    let noise = noise.map(|m| format!("{} in {}", m.unit.show(m.noise), m.title));
    let noise: Vec<String> = noise.collect();
    document.text(format!(
        "Titan is compared with the other engine that was best at that step and measure in the same \
         round. It is a loss or a win if the ratio lies on one side of 1 in all rounds and its median \
         differs from 1 by more than {} %. Differences up to these count for nothing: {}.",
        MARGIN * 100.0,
        noise.join(", ")
    ));
    let of = |judgement| {
        let mut chosen: Vec<&Verdict<'_>> = Vec::new();
        for measure in report.judged() {
            let judged = all.iter().filter(|v| v.judgement == judgement);
            let mut judged: Vec<_> = judged.filter(|v| v.measure.key == measure.key).collect();
            judged.sort_by(|a, b| b.size().total_cmp(&a.size()));
            chosen.extend(judged);
        }
        chosen
    };
    let (losses, wins) = (of(Judgement::Loss), of(Judgement::Win));
    document.text(format!(
        "Of {} comparisons Titan loses {}, wins {}, and shows no difference in {}.",
        all.len(),
        losses.len(),
        wins.len(),
        all.len() - losses.len() - wins.len()
    ));
    if all.iter().all(|verdict| verdict.ratio.is_single) {
        document.text(
            "One round says nothing about the spread: any of these differences may be chance.",
        );
    }
    document.table(each_engine(report));
    list(document, &losses);
    document.heading("Where Titan wins");
    list(document, &wins);
}

/// Losses and wins against each other engine separately.
fn each_engine(report: &Report) -> Table {
    let titles = report.judged().map(|measure| measure.title.as_str());
    let columns = [":against", "all"].into_iter().chain(titles);
    let mut table = Table::new("Losses : wins, against each engine alone", columns);
    for engine in report.engines.iter().filter(|engine| *engine != SUBJECT) {
        let verdicts = verdicts(report, Opponent::Engine(engine));
        let score = |measure: Option<&Measure>| {
            let counted = |judgement| {
                let judged = verdicts.iter().filter(|v| v.judgement == judgement);
                judged
                    .filter(|v| measure.is_none_or(|measure| measure.key == v.measure.key))
                    .count()
            };
            format!("{} : {}", counted(Judgement::Loss), counted(Judgement::Win))
        };
        let by_measure = report.judged().map(|measure| score(Some(measure)));
        table.row([engine.clone(), score(None)].into_iter().chain(by_measure));
    }
    table
}

fn list(document: &mut Document, verdicts: &[&Verdict<'_>]) {
    let columns = [
        ":step",
        ":measure",
        "Titan",
        "best other",
        ":which",
        "ratio",
        ":that is",
    ];
    let mut table = Table::new("", columns);
    for verdict in verdicts {
        let is_win = verdict.judgement == Judgement::Win;
        let word = match (verdict.measure.better == Some(Better::Higher), is_win) {
            (true, true) | (false, false) => "more",
            (true, false) | (false, true) => "less",
        };
        table.row([
            verdict.name.to_owned(),
            verdict.measure.title.clone(),
            verdict.ours.show(verdict.measure.unit),
            verdict.theirs.show(verdict.measure.unit),
            verdict.engines.join(", "),
            verdict.ratio.show(Unit::Number),
            format!("{} times {word}", Unit::Number.show(verdict.size())),
        ]);
    }
    if table.rows.is_empty() {
        document.text("Nowhere.");
    }
    document.table(table);
}

fn failures(document: &mut Document, report: &Report) {
    let failed = report.workloads.iter().flat_map(|entry| {
        let reasons = entry.failed.iter();
        reasons.map(|reason| format!("{} failed at {} {reason}", entry.variant, entry.name))
    });
    let failed: Vec<String> = failed.collect();
    if !failed.is_empty() {
        document.heading("What failed");
        document.list(failed);
    }
}

fn targets(document: &mut Document, report: &Report) {
    let columns = [
        ":workload",
        ":measure",
        ":of",
        ":divided by",
        "aimed at",
        "measured",
        ":met",
    ];
    let mut table = Table::new("", columns);
    for target in &report.targets {
        let Some((measured, is_met)) = target.judge(report) else {
            continue;
        };
        let measure = report
            .measures
            .iter()
            .find(|measure| measure.key == target.key);
        let unit = match &target.beside {
            Some(_) => Unit::Number,
            None => measure.map_or(Unit::Number, |measure| measure.unit),
        };
        let bounds = [("at most", target.at_most), ("at least", target.at_least)];
        let bounds = bounds
            .into_iter()
            .filter_map(|(word, bound)| Some((word, bound?)));
        let bounds: Vec<String> = bounds
            .map(|(word, bound)| format!("{word} {}", unit.show(bound)))
            .collect();
        table.row([
            target.name.clone(),
            measure.map_or_else(|| target.key.clone(), |measure| measure.title.clone()),
            target.variant.clone(),
            target.beside.clone().unwrap_or_default(),
            bounds.join(", "),
            unit.show(measured),
            if is_met { "yes" } else { "no" }.to_owned(),
        ]);
    }
    if !table.rows.is_empty() {
        document.heading("Targets");
        document.table(table);
    }
}

fn cell(entry: Option<&Entry>, measure: &Measure) -> String {
    let Some(entry) = entry else {
        return NOTHING.to_owned();
    };
    let mark = if entry.cut_short { " †" } else { "" };
    match entry
        .figures
        .get(&measure.key)
        .and_then(|figure| figure.spread())
    {
        Some(spread) => format!("{}{mark}", spread.show(measure.unit)),
        None if entry.figures.is_empty() && !entry.failed.is_empty() => "failed".to_owned(),
        None => NOTHING.to_owned(),
    }
}

fn has(report: &Report, name: &str, measure: &Measure) -> bool {
    let mut entries = report.workloads.iter().filter(|entry| entry.name == name);
    entries.any(|entry| entry.figures.contains_key(&measure.key))
}

/// Columns are measures; those that no row has are left out.
fn one_variant(document: &mut Document, report: &Report) {
    let names = report.names();
    let measures = report.measures.iter();
    let measures: Vec<&Measure> = measures
        .filter(|measure| names.iter().any(|name| has(report, name, measure)))
        .collect();
    let titles = measures.iter().map(|measure| measure.title.as_str());
    let mut table = Table::new("", [":"].into_iter().chain(titles));
    for entry in &report.workloads {
        let cells = measures.iter().map(|measure| cell(Some(entry), measure));
        table.row([entry.name.clone()].into_iter().chain(cells));
    }
    document.table(table);
}

/// Rows in order that have the same variants are in one table.
fn by_variant(document: &mut Document, report: &Report, measure: &Measure) {
    let names = report.names().into_iter();
    let rows: Vec<(&str, Vec<&str>)> = names
        .filter(|name| has(report, name, measure))
        .map(|name| (name, report.variants_of(name)))
        .collect();
    for rows in rows.chunk_by(|a, b| a.1 == b.1) {
        let variants = &rows[0].1;
        let others = match variants.len() {
            2..=COMPARED => &variants[1..],
            _ => &[],
        };
        let ratios = others
            .iter()
            .map(|other| format!("{} / {other}", variants[0]));
        let columns = [":".to_owned()]
            .into_iter()
            .chain(variants.iter().map(|v| (*v).to_owned()));
        let mut table = Table::new(&measure.title, columns.chain(ratios));
        for (name, _) in rows {
            let spread = |variant: &str| report.spread(name, variant, &measure.key);
            let cells = variants
                .iter()
                .map(|variant| cell(report.entry(name, variant), measure));
            let ratios = others.iter().map(|other| {
                let ratio = spread(variants[0])
                    .zip(spread(other))
                    .map(|(a, b)| a.by(&b).median);
                ratio.map_or_else(|| NOTHING.to_owned(), |ratio| Unit::Number.show(ratio))
            });
            table.row([(*name).to_owned()].into_iter().chain(cells).chain(ratios));
        }
        document.table(table);
    }
}

/// Draws the plots. The place of a variant among all engines is its colour.
fn drawn(document: &mut Document, report: &Report, dir: &str) {
    let mut all = Vec::new();
    let variants = |name| report.variants_of(name).into_iter().enumerate();
    for measure in report.measures.iter().filter(|measure| measure.drawn) {
        let groups: Vec<Group<'_>> = report
            .names()
            .into_iter()
            .map(|name| {
                let bars = variants(name).filter_map(|(at, variant)| {
                    let spread = report.spread(name, variant, &measure.key)?;
                    Some((report.place(variant).unwrap_or(at), variant, spread))
                });
                (name, bars.collect::<Vec<_>>())
            })
            .filter(|(_, bars)| !bars.is_empty())
            .collect();
        let svg = plots::bars(&measure.title, measure.unit, &groups);
        all.extend(svg.map(|svg| (measure.title.clone(), svg)));
    }
    for name in report.names() {
        let entries: Vec<(usize, &Entry)> = variants(name)
            .filter_map(|(at, variant)| {
                let entry = report.entry(name, variant)?;
                Some((report.place(variant).unwrap_or(at), entry))
            })
            .collect();
        let mut seen: Vec<&str> = Vec::new();
        for series in entries.iter().flat_map(|(_, entry)| &entry.series) {
            if seen.contains(&series.name.as_str()) {
                continue;
            }
            seen.push(&series.name);
            let lines = entries.iter().filter_map(|(place, entry)| {
                let same = entry
                    .series
                    .iter()
                    .find(|other| other.name == series.name)?;
                Some((*place, entry.variant.as_str(), same.points.as_slice()))
            });
            let lines: Vec<Line<'_>> = lines.collect();
            let svg = plots::lines(&series.name, series.unit, series.x, &lines);
            all.extend(svg.map(|svg| (format!("{name}: {}", series.name), svg)));
        }
    }
    if all.is_empty() && report.pictures.is_empty() {
        return;
    }
    document.heading("Plots");
    for (caption, svg) in all {
        let file = format!("{dir}/{}.svg", slug(&caption));
        let svg = Some(svg);
        document
            .blocks
            .push(Block::Plot(Plot { file, caption, svg }));
    }
    for (file, caption) in &report.pictures {
        document.blocks.push(Block::Plot(Plot {
            file: file.clone(),
            caption: caption.clone(),
            svg: None,
        }));
    }
}

fn about(document: &mut Document, report: &Report) {
    if !report.about.is_empty() {
        document.heading("Workloads");
        pairs(document, "", [":name", ":work"], &report.about);
    }
    if report.about_engines.is_empty() {
        return;
    }
    document.heading("Engines");
    let mut table = Table::new("", [":engine", ":version", ":options", ":notes"]);
    for about in &report.about_engines {
        let (options, notes) = (about.options(), about.notes.join(" "));
        table.row([about.name.clone(), about.version.clone(), options, notes]);
    }
    document.table(table);
}
