//! The first part of a report: where Titan loses, where it wins, what accompanied it, and an
//! overview of everything that was compared.

use std::ptr;

use super::{causes, step_anchor};
use crate::report::document::{Cell, Document, Table, Tone};
use crate::report::figures::{Better, WorkloadFigures};
use crate::report::units::number;
use crate::report::verdict::{
    Judgement, MARGIN, MEASURES, Opponent, SUBJECT, Verdict, sorted, verdicts,
};
use crate::results::Report;

pub(super) fn add(document: &mut Document, report: &Report, figures: &[WorkloadFigures<'_>]) {
    document.heading(2, "Where Titan loses", "losses");
    if !report.engines.iter().any(|engine| engine == SUBJECT) {
        return document.text("Titan is not among the engines, so that nothing is said of it.");
    }
    let verdicts = verdicts(figures, Opponent::BestOther);
    if verdicts.is_empty() {
        failed(document, figures);
        return document.text("Nothing can be compared: no other engine did the same steps.");
    }
    document.text(format!(
        "Titan is held against whichever other engine was best at that step and measure in the \
         same round. It counts as a loss or a win if the ratio lies on one side of 1 in all \
         rounds, and its median differs from 1 by more than {} %; else it is no difference.",
        MARGIN * 100.0
    ));
    let noise = MEASURES.iter().filter(|measure| measure.noise > 0.0);
    let noise =
        noise.map(|measure| format!("{} in {}", (measure.show)(measure.noise), measure.name));
    document.text(format!(
        "Differences of no more than this count for nothing, whatever their ratio: {}.",
        noise.collect::<Vec<_>>().join(", ")
    ));
    if report.rounds == 1 {
        document.text(
            "One round says nothing about the spread: any of these differences may be chance.",
        );
    }
    let losses = sorted(&verdicts, Judgement::Loss);
    let wins = sorted(&verdicts, Judgement::Win);
    document.text(format!(
        "Of {} comparisons Titan loses {}, wins {}, and shows no difference in {}.",
        verdicts.len(),
        losses.len(),
        wins.len(),
        verdicts.len() - losses.len() - wins.len()
    ));
    document.table(each_engine(report, figures));
    list(document, &losses, Tone::Bad);
    failed(document, figures);
    document.heading(2, "Where Titan wins", "wins");
    list(document, &wins, Tone::Good);
    document.heading(2, "Everything at a glance", "glance");
    document.text(
        "Titan by the best other: ▼ a loss, ▲ a win, = no difference, – not measured. For \
         operations/s more is better, for all others less.",
    );
    document.table(glance(&verdicts));
}

/// Losses and wins against each other engine separately.
fn each_engine(report: &Report, figures: &[WorkloadFigures<'_>]) -> Table {
    let names = MEASURES.iter().map(|measure| measure.name);
    let columns: Vec<&str> = [":against", "all"].into_iter().chain(names).collect();
    let mut table = Table::new("Losses : wins, against each engine alone", &columns);
    for engine in report.engines.iter().filter(|engine| *engine != SUBJECT) {
        let verdicts = verdicts(figures, Opponent::Engine(engine));
        let score = |counts: &dyn Fn(&Verdict<'_, '_>) -> bool| -> Cell {
            let counted = |judgement| {
                let judged = verdicts.iter().filter(|v| v.judgement == judgement);
                judged.filter(|v| counts(v)).count()
            };
            format!("{} : {}", counted(Judgement::Loss), counted(Judgement::Win)).into()
        };
        let by_measure = MEASURES
            .iter()
            .map(|measure| score(&|v| v.measure.name == measure.name));
        let head = [Cell::engine(engine), score(&|_| true)];
        table.row(head.into_iter().chain(by_measure).collect());
    }
    table
}

fn list(document: &mut Document, verdicts: &[&Verdict<'_, '_>], tone: Tone) {
    if verdicts.is_empty() {
        return document.text("Nowhere.");
    }
    let columns = [
        ":step",
        ":measure",
        "Titan",
        "best other",
        ":which",
        "ratio",
        ":that is",
        ":what goes with it",
    ];
    let mut table = Table::new("", &columns);
    for verdict in verdicts {
        let (ours, theirs) = (verdict.ours, verdict.theirs);
        table.row(vec![
            step(verdict),
            verdict.measure.name.into(),
            ours.show(verdict.measure.show).into(),
            theirs.show(verdict.measure.show).into(),
            verdict.engines.join(", ").into(),
            verdict.ratio.show(number).into(),
            Cell::from(in_words(verdict)).tone(tone),
            causes::of(verdict).map_or_else(Cell::nothing, Cell::from),
        ]);
    }
    document.table(table);
}

fn step(verdict: &Verdict<'_, '_>) -> Cell {
    let (workload, step) = (&verdict.step.workload.name, &verdict.step.step.name);
    Cell::from(format!("{workload}: {step}")).link(step_anchor(workload, step))
}

fn in_words(verdict: &Verdict<'_, '_>) -> String {
    let better = verdict.judgement == Judgement::Win;
    let word = match (verdict.measure.better, better) {
        (Better::Higher, true) | (Better::Lower, false) => "more",
        (Better::Higher, false) | (Better::Lower, true) => "less",
    };
    format!("{} times {word}", number(verdict.size()))
}

/// Steps that Titan did not finish are losses without a ratio.
fn failed(document: &mut Document, figures: &[WorkloadFigures<'_>]) {
    let steps = figures.iter().flat_map(|workload| &workload.steps);
    let failed = steps.flat_map(|step| {
        let rounds = step.by(SUBJECT).into_iter();
        rounds
            .flat_map(|rounds| rounds.failures())
            .map(|(round, reason)| {
                let (workload, step) = (&step.workload.name, &step.step.name);
                format!("Titan failed at {workload}: {step} in round {round}: {reason}")
            })
    });
    document.list(failed.collect());
}

fn glance(verdicts: &[Verdict<'_, '_>]) -> Table {
    let names = MEASURES.iter().map(|measure| measure.name);
    let columns: Vec<&str> = [":step"].into_iter().chain(names).collect();
    let mut table = Table::new("", &columns);
    let same_step = |a: &Verdict<'_, '_>, b: &Verdict<'_, '_>| ptr::eq(a.step, b.step);
    for of_step in verdicts.chunk_by(same_step) {
        let cells = MEASURES.iter().map(|measure| {
            let verdict = of_step.iter().find(|v| v.measure.name == measure.name);
            verdict.map_or_else(Cell::nothing, |verdict| {
                let (mark, tone) = match verdict.judgement {
                    Judgement::Loss => ("▼", Tone::Bad),
                    Judgement::Win => ("▲", Tone::Good),
                    Judgement::Same => ("=", Tone::Plain),
                };
                Cell::from(format!("{mark} {}", number(verdict.ratio.median))).tone(tone)
            })
        });
        table.row(of_step.first().map(step).into_iter().chain(cells).collect());
    }
    table
}
