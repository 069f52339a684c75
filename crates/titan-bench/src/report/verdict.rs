//! Where Titan loses and where it wins, against an [`Opponent`].
//!
//! A difference counts only if all rounds agree on its direction and the median exceeds
//! [`MARGIN`].

use std::cmp::Reverse;

use serde::Serialize;

use super::figures::{
    Better, CPU, MEMORY, Measure, OPENING, P99, PEAK_SPACE_AMPLIFICATION, RATE, Rounds, Spread,
    StepFigures, WRITE_AMPLIFICATION, WorkloadFigures, ratio,
};
use titan_workload::step::Step;

/// The engine that the report judges.
pub(crate) const SUBJECT: &str = "titan";

/// Differences up to this share are ignored.
pub(crate) const MARGIN: f64 = 0.05;

/// The measures by which engines are judged.
pub(crate) static MEASURES: [&Measure; 7] = [
    &RATE,
    &P99,
    &WRITE_AMPLIFICATION,
    &PEAK_SPACE_AMPLIFICATION,
    &CPU,
    &MEMORY,
    &OPENING,
];

/// The engine or engines that Titan is compared with.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Opponent<'n> {
    /// The best other engine of each round: a composite that no single engine needs to match.
    BestOther,
    Engine(&'n str),
}

impl Opponent<'_> {
    fn is(self, engine: &str) -> bool {
        match self {
            Opponent::BestOther => engine != SUBJECT,
            Opponent::Engine(name) => engine == name && engine != SUBJECT,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Judgement {
    Loss,
    Win,
    Same,
}

/// One measure of one step.
pub(crate) struct Verdict<'f, 'a> {
    pub(crate) step: &'f StepFigures<'a>,
    pub(crate) measure: &'static Measure,
    pub(crate) ours: Spread,
    /// The opponent's figure, and the engines it came from, the most frequent first.
    pub(crate) theirs: Spread,
    pub(crate) engines: Vec<&'a str>,
    /// Ours divided by theirs, round by round.
    pub(crate) ratio: Spread,
    pub(crate) judgement: Judgement,
}

impl Verdict<'_, '_> {
    /// Factor by which it is better or worse: at least 1.
    pub(crate) fn size(&self) -> f64 {
        self.ratio.median.max(1.0 / self.ratio.median)
    }
}

/// The verdicts for every step that Titan and the opponent ran, in the order of the report.
pub(crate) fn verdicts<'f, 'a>(
    figures: &'f [WorkloadFigures<'a>],
    opponent: Opponent<'_>,
) -> Vec<Verdict<'f, 'a>> {
    let steps = figures.iter().flat_map(|workload| &workload.steps);
    steps
        .flat_map(|step| {
            let measures = MEASURES.iter();
            measures.filter_map(move |measure| judge(step, measure, opponent))
        })
        .collect()
}

/// The verdicts of one kind, by measure in the order of [`MEASURES`], the largest first.
pub(crate) fn sorted<'v, 'f, 'a>(
    verdicts: &'v [Verdict<'f, 'a>],
    judgement: Judgement,
) -> Vec<&'v Verdict<'f, 'a>> {
    let mut chosen: Vec<_> = (verdicts.iter())
        .filter(|verdict| verdict.judgement == judgement)
        .collect();
    let rank = |verdict: &Verdict<'_, '_>| {
        let same = |measure: &&Measure| measure.name == verdict.measure.name;
        MEASURES.iter().position(same)
    };
    chosen.sort_by(|a, b| (rank(a).cmp(&rank(b))).then(b.size().total_cmp(&a.size())));
    chosen
}

/// `None` if either did not run the step.
pub(crate) fn judge<'f, 'a>(
    step: &'f StepFigures<'a>,
    measure: &'static Measure,
    opponent: Opponent<'_>,
) -> Option<Verdict<'f, 'a>> {
    let subject = step.by(SUBJECT)?;
    let (mut ours, mut theirs, mut engines) = (Vec::new(), Vec::new(), Vec::new());
    for (round, measured) in subject.measured() {
        let others = step
            .engines
            .iter()
            .filter(|other| opponent.is(other.engine));
        if let Some(our) = measure.comparable(step.step, measured)
            && let Some((engine, value)) = best_of(others, round, step.step, measure)
        {
            ours.push(our);
            theirs.push(value);
            engines.push(engine);
        }
    }
    let ratios = ours.iter().zip(&theirs);
    let ratio = Spread::of(ratios.map(|(our, their)| ratio(*our, *their)))?;
    let (ours, theirs) = (Spread::of(ours)?, Spread::of(theirs)?);
    let is_noise = (ours.median - theirs.median).abs() <= measure.noise;
    Some(Verdict {
        step,
        measure,
        ours,
        theirs,
        engines: by_frequency(&engines),
        ratio,
        judgement: match is_noise {
            true => Judgement::Same,
            false => judgement(ratio, measure.better),
        },
    })
}

/// Each once, the most frequent first.
fn by_frequency<'a>(names: &[&'a str]) -> Vec<&'a str> {
    let mut each: Vec<&str> = Vec::new();
    for name in names {
        if !each.contains(name) {
            each.push(name);
        }
    }
    each.sort_by_key(|name| Reverse(names.iter().filter(|other| *other == name).count()));
    each
}

fn best_of<'a, 'r>(
    others: impl Iterator<Item = &'r Rounds<'a>>,
    round: u32,
    step: &Step,
    measure: &Measure,
) -> Option<(&'a str, f64)>
where
    'a: 'r,
{
    let values = others.filter_map(|other| {
        let (_, measured) = other.measured().find(|(at, _)| *at == round)?;
        Some((other.engine, measure.comparable(step, measured)?))
    });
    values.reduce(|best, other| {
        let better = match measure.better {
            Better::Higher => other.1 > best.1,
            Better::Lower => other.1 < best.1,
        };
        if better { other } else { best }
    })
}

fn judgement(ratio: Spread, better: Better) -> Judgement {
    let median = ratio.median;
    if ratio.contains(1.0) || median.max(1.0 / median) <= 1.0 + MARGIN {
        return Judgement::Same;
    }
    match (median > 1.0, better) {
        (true, Better::Higher) | (false, Better::Lower) => Judgement::Win,
        (true, Better::Lower) | (false, Better::Higher) => Judgement::Loss,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{figures, synthetic};
    use super::*;

    fn judged(ratios: &[f64], better: Better) -> Judgement {
        judgement(Spread::of(ratios.iter().copied()).unwrap(), better)
    }

    #[test]
    fn only_what_all_rounds_say_counts() {
        use Judgement::{Loss, Same, Win};
        assert_eq!(judged(&[1.2, 1.3, 1.1], Better::Higher), Win);
        assert_eq!(judged(&[1.2, 1.3, 1.1], Better::Lower), Loss);
        assert_eq!(judged(&[0.8, 0.7], Better::Higher), Loss);
        assert_eq!(judged(&[0.8, 0.7], Better::Lower), Win);
        assert_eq!(judged(&[0.8, 1.3, 1.4], Better::Higher), Same);
        assert_eq!(judged(&[1.02, 1.04, 1.03], Better::Higher), Same);
        assert_eq!(judged(&[0.0], Better::Higher), Loss);
        assert_eq!(judged(&[f64::INFINITY], Better::Lower), Loss);
    }

    #[test]
    fn the_best_other_of_each_round_is_the_opponent() {
        let report = synthetic::report();
        let figures = figures::of(&report);
        let verdicts = verdicts(&figures, Opponent::BestOther);
        let find = |step: &str, measure: &str| {
            (verdicts.iter()).find(|v| v.step.step.name == step && v.measure.name == measure)
        };
        let fill = find("fill", RATE.name).unwrap();
        assert_eq!(fill.judgement, Judgement::Win);
        assert_eq!(fill.engines, ["rocksdb"]);
        let get = find("get", RATE.name).unwrap();
        assert_eq!(get.judgement, Judgement::Loss);
        assert_eq!(get.engines, ["lmdb"]);
        assert!(find("get", WRITE_AMPLIFICATION.name).is_none());
        assert!(find("idle", P99.name).is_none());
        let losses = sorted(&verdicts, Judgement::Loss);
        let rates = losses.iter().filter(|v| v.measure.name == RATE.name);
        assert!(rates.clone().count() > 0);
        assert!(
            losses[..rates.clone().count()]
                .iter()
                .all(|v| v.measure.name == RATE.name)
        );
        assert!(rates.is_sorted_by(|a, b| a.size() >= b.size()));
        assert_eq!(by_frequency(&["a", "b", "c", "c", "b"]), ["b", "c", "a"]);
    }

    #[test]
    fn an_engine_by_itself_is_an_opponent() {
        let report = synthetic::report();
        let figures = figures::of(&report);
        let verdicts = verdicts(&figures, Opponent::Engine("rocksdb"));
        let get = |v: &&Verdict<'_, '_>| v.step.step.name == "get" && v.measure.name == RATE.name;
        let get = verdicts.iter().find(get).unwrap();
        assert_eq!(get.judgement, Judgement::Win);
        assert!(verdicts.iter().all(|v| v.engines == ["rocksdb"]));
    }

    #[test]
    fn there_is_nothing_to_judge_alone() {
        let mut report = synthetic::report();
        synthetic::keep_engines(&mut report, &["titan"]);
        assert!(verdicts(&figures::of(&report), Opponent::BestOther).is_empty());
        let mut report = synthetic::report();
        synthetic::keep_engines(&mut report, &["rocksdb", "lmdb"]);
        assert!(verdicts(&figures::of(&report), Opponent::BestOther).is_empty());
    }
}
