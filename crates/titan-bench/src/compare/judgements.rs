//! Whether two reports come to the same judgements of Titan.
//!
//! Machines vary from day to day, and all speeds with them; the claims of a report are ratios of
//! engines that ran on the same day.

use serde::Serialize;

use super::{Pair, exceeds_spread};
use crate::report::figures::Spread;
use crate::report::verdict::{self, Judgement, MEASURES, Opponent, SUBJECT, Verdict};

/// Titan compared with one other engine in one measure of a step.
#[derive(Debug, Serialize)]
pub(crate) struct JudgedTwice {
    pub(crate) workload: String,
    pub(crate) step: String,
    pub(crate) measure: &'static str,
    pub(crate) against: String,
    /// Titan's figure divided by the other's, round by round.
    pub(crate) a: Spread,
    pub(crate) b: Spread,
    pub(crate) judged_a: Judgement,
    pub(crate) judged_b: Judgement,
    /// Whether the ranges of the rounds do not overlap, medians differ by more than the margin, and
    /// at least one is large enough to count. Never true of a single round.
    pub(crate) apart: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Agreement {
    Same,
    /// One shows a difference, the other none.
    OneSided,
    /// A loss here, a win there.
    Contrary,
}

impl JudgedTwice {
    fn new(a: &Verdict<'_, '_>, b: &Verdict<'_, '_>, against: &str) -> Self {
        let small = (a.judgement, b.judgement) == (Judgement::Same, Judgement::Same);
        JudgedTwice {
            workload: a.step.workload.name.clone(),
            step: a.step.step.name.clone(),
            measure: a.measure.name,
            against: against.to_owned(),
            a: a.ratio,
            b: b.ratio,
            judged_a: a.judgement,
            judged_b: b.judgement,
            apart: !small && exceeds_spread(&a.ratio, &b.ratio) == Some(true),
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

/// Verdicts of both reports, against each other engine separately.
pub(super) fn judge(pairs: &[Pair<'_, '_>], engines: &[String]) -> Vec<JudgedTwice> {
    let mut judged = Vec::new();
    for engine in engines.iter().filter(|engine| *engine != SUBJECT) {
        let opponent = Opponent::Engine(engine);
        for (a, b) in pairs {
            judged.extend(MEASURES.iter().filter_map(|measure| {
                let (a, b) = (
                    verdict::judge(a, measure, opponent)?,
                    verdict::judge(b, measure, opponent)?,
                );
                Some(JudgedTwice::new(&a, &b, engine))
            }));
        }
    }
    judged
}
