//! Whether two reports judge Titan alike.
//!
//! Machines differ from day to day, and with them all speeds; what a report claims are ratios of engines
//! that met the same day.

use serde::Serialize;

use crate::report::figures::{Spread, WorkloadFigures};
use crate::report::verdict::{Judgement, MARGIN, Opponent, SUBJECT, Verdict, verdicts};

/// Titan against one other engine in one measure of a step.
#[derive(Debug, Serialize)]
pub(crate) struct JudgedTwice {
    pub(crate) workload: String,
    pub(crate) step: String,
    pub(crate) measure: &'static str,
    pub(crate) against: String,
    /// Titan's figure by the other's, round by round.
    pub(crate) a: Spread,
    pub(crate) b: Spread,
    pub(crate) judged_a: Judgement,
    pub(crate) judged_b: Judgement,
    /// Whether a round of one lies within the rounds of the other, or the medians within the margin.
    pub(crate) agree: bool,
}

impl JudgedTwice {
    /// A loss here and a win there.
    pub(crate) fn contrary(&self) -> bool {
        let judged = [self.judged_a, self.judged_b];
        judged.contains(&Judgement::Loss) && judged.contains(&Judgement::Win)
    }
}

/// What both reports judge.
pub(super) fn judge<'a>(
    a: &[WorkloadFigures<'_>],
    b: &[WorkloadFigures<'_>],
    engines: impl Iterator<Item = &'a str>,
) -> Vec<JudgedTwice> {
    let mut judged = Vec::new();
    for engine in engines.filter(|engine| *engine != SUBJECT) {
        let in_b = verdicts(b, Opponent::Engine(engine));
        for verdict in verdicts(a, Opponent::Engine(engine)) {
            if let Some(other) = in_b.iter().find(|other| same_place(&verdict, other)) {
                judged.push(JudgedTwice {
                    workload: verdict.step.workload.name.clone(),
                    step: verdict.step.step.name.clone(),
                    measure: verdict.measure.name,
                    against: engine.to_owned(),
                    a: verdict.ratio,
                    b: other.ratio,
                    judged_a: verdict.judgement,
                    judged_b: other.judgement,
                    agree: !verdict.ratio.apart_from(&other.ratio)
                        || verdict.ratio.is_within(&other.ratio, MARGIN),
                });
            }
        }
    }
    judged
}

fn same_place(a: &Verdict<'_, '_>, b: &Verdict<'_, '_>) -> bool {
    let place = |verdict: &Verdict<'_, '_>| {
        let (workload, step) = (&verdict.step.workload.name, &verdict.step.step.name);
        (workload.clone(), step.clone(), verdict.measure.name)
    };
    place(a) == place(b)
}
