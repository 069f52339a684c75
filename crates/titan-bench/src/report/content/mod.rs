//! The contents of a report, in order: what was run, where Titan loses and wins, every workload,
//! the method.

mod causes;
mod charts;
mod method;
mod steps;
mod verdicts;

use anyhow::Result;

use super::conditions;
use super::document::{Block, Cell, Document, Table, slug};
use super::figures::{self, Spread, WorkloadFigures};
use super::units::{moment, seconds};
use crate::results::Report;

/// The whole report.
pub(crate) fn document(report: &Report) -> Result<Document> {
    let figures = figures::of(report);
    let mut document = Document {
        title: "Titan beside its peers".to_owned(),
        ..Document::default()
    };
    about_run(&mut document, report);
    verdicts::add(&mut document, report, &figures);
    failures(&mut document, &figures);
    document.heading(2, "Contents", "contents");
    document.blocks.push(Block::Contents);
    for workload in &figures {
        about_workload(&mut document, report, workload)?;
    }
    method::add(&mut document, report);
    Ok(document)
}

fn workload_anchor(workload: &str) -> String {
    format!("workload-{}", slug(workload))
}

fn step_anchor(workload: &str, step: &str) -> String {
    format!("step-{}--{}", slug(workload), slug(step))
}

/// `None` if there are no parts.
fn joined(parts: impl Iterator<Item = String>, between: &str) -> Option<String> {
    let parts: Vec<String> = parts.collect();
    (!parts.is_empty()).then(|| parts.join(between))
}

fn about_run(document: &mut Document, report: &Report) {
    document.text(format!(
        "Engines: {}. Run on {}, for {}.",
        report.engines.join(", "),
        moment(report.began),
        seconds(report.seconds)
    ));
    let mut table = Table::new("What was run", &[":condition", ":value"]);
    for (name, value) in conditions::of(report) {
        table.row(vec![name.into(), value.into()]);
    }
    for (name, of, show) in &conditions::CEILINGS {
        if let Some(spread) = Spread::of(report.ceilings.iter().map(of)) {
            table.row(vec![
                format!("device: {name}").into(),
                spread.show(*show).into(),
            ]);
        }
    }
    if report.ceilings.is_empty() {
        table.row(vec!["device".into(), "not measured".into()]);
    }
    document.table(table);
    document.list(report.remarks.clone());
}

fn failures(document: &mut Document, figures: &[WorkloadFigures<'_>]) {
    let mut table = Table::new("", &[":step", ":engine", "round", ":reason"]);
    for step in figures.iter().flat_map(|workload| &workload.steps) {
        let (workload, name) = (&step.workload.name, &step.step.name);
        for rounds in &step.engines {
            for (round, reason) in rounds.failures() {
                table.row(vec![
                    Cell::from(format!("{workload}: {name}")).link(step_anchor(workload, name)),
                    Cell::engine(rounds.engine),
                    round.to_string().into(),
                    reason.into(),
                ]);
            }
        }
    }
    if !table.rows.is_empty() {
        document.heading(2, "What failed", "failed");
        document.table(table);
    }
}

fn about_workload(
    document: &mut Document,
    report: &Report,
    figures: &WorkloadFigures<'_>,
) -> Result<()> {
    let workload = figures.workload;
    document.heading(2, workload.name.clone(), &workload_anchor(&workload.name));
    document.text(workload.about.clone());
    document.text(conditions::data(workload));
    document.table(steps::together(report, figures));
    charts::of_workload(document, report, figures)?;
    for step in &figures.steps {
        let anchor = step_anchor(&workload.name, &step.step.name);
        document.heading(3, format!("{}: {}", workload.name, step.step.name), &anchor);
        document.text(conditions::work(step.step));
        steps::add(document, step);
        charts::of_step(document, step)?;
    }
    Ok(())
}
