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
    /// Whether no round of one lies within the rounds of the other, medians differ by more than the
    /// margin, and not both are too small to count. Never of a single round.
    pub(crate) apart: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Agreement {
    Same,
    /// One sees a difference, the other none.
    OneSided,
    /// A loss here, a win there.
    Contrary,
}

impl JudgedTwice {
    fn new(a: &Verdict<'_, '_>, b: &Verdict<'_, '_>, against: &str) -> Self {
        let alike = (a.judgement, b.judgement) == (Judgement::Same, Judgement::Same)
            || a.ratio.is_within(&b.ratio, MARGIN)
            || !a.ratio.apart_from(&b.ratio);
        JudgedTwice {
            workload: a.step.workload.name.clone(),
            step: a.step.step.name.clone(),
            measure: a.measure.name,
            against: against.to_owned(),
            a: a.ratio,
            b: b.ratio,
            judged_a: a.judgement,
            judged_b: b.judgement,
            apart: !alike && a.ratio.rounds.min(b.ratio.rounds) > 1,
        }
    }

    pub(crate) fn agreement(&self) -> Agreement {
        match (self.judged_a, self.judged_b) {
            (a, b) if a == b => Agreement::Same,
            (Judgement::Same, _) | (_, Judgement::Same) => Agreement::OneSided,
            _ => Agreement::Contrary,
        }
    }
}

/// What both reports judge, against each engine alone.
pub(super) fn judge<'a>(
    a: &[WorkloadFigures<'_>],
    b: &[WorkloadFigures<'_>],
    engines: impl Iterator<Item = &'a str>,
) -> Vec<JudgedTwice> {
    let mut judged = Vec::new();
    for engine in engines.filter(|engine| *engine != SUBJECT) {
        let opponent = Opponent::Engine(engine);
        let in_b = verdicts(b, opponent);
        for verdict in verdicts(a, opponent) {
            let other = in_b.iter().find(|other| place(&verdict) == place(other));
            judged.extend(other.map(|other| JudgedTwice::new(&verdict, other, engine)));
        }
    }
    judged
}

/// A workload, a step and a measure.
fn place<'v>(verdict: &'v Verdict<'_, '_>) -> (&'v str, &'v str, &'static str) {
    let (workload, step) = (&verdict.step.workload.name, &verdict.step.step.name);
    (workload, step, verdict.measure.name)
}
