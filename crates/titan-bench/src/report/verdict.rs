//! Where Titan loses and where it wins, against an [`Opponent`].
//!
//! A difference counts only if all rounds agree on its direction and the median exceeds [`MARGIN`].

use std::cmp::Reverse;

use serde::Serialize;

use crate::results::{Better, Measure, Report, Spread, ratio};

/// The engine that reports judge.
pub(crate) const SUBJECT: &str = "titan";

/// Differences up to this share are ignored.
pub(crate) const MARGIN: f64 = 0.05;

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

/// One measure of one workload or step.
pub(crate) struct Verdict<'r> {
    pub(crate) name: &'r str,
    pub(crate) measure: &'r Measure,
    pub(crate) ours: Spread,
    /// The opponent's figure, and the engines it came from, the most frequent first.
    pub(crate) theirs: Spread,
    pub(crate) engines: Vec<&'r str>,
    /// Ours divided by theirs, round by round: between engines that met the machine in one state.
    pub(crate) ratio: Spread,
    pub(crate) judgement: Judgement,
}

impl Verdict<'_> {
    /// Factor by which it is better or worse: at least 1.
    pub(crate) fn size(&self) -> f64 {
        self.ratio.median.max(1.0 / self.ratio.median)
    }
}

/// The verdicts for everything that Titan and the opponent ran, in the order of the report.
pub(crate) fn verdicts<'r>(report: &'r Report, opponent: Opponent<'_>) -> Vec<Verdict<'r>> {
    let mut verdicts = Vec::new();
    for name in report.names() {
        let measures = report.judged();
        verdicts.extend(measures.filter_map(|measure| judge(report, name, measure, opponent)));
    }
    verdicts
}

/// `None` if either did not run it, or if the values of rounds were not kept.
pub(crate) fn judge<'r>(
    report: &'r Report,
    name: &'r str,
    measure: &'r Measure,
    opponent: Opponent<'_>,
) -> Option<Verdict<'r>> {
    let better = measure.better?;
    let rounds = |engine: &str| report.rated(name, engine, measure)?.rounds();
    let subject = rounds(SUBJECT)?;
    let others = report.variants_of(name).into_iter();
    let others = others.filter(|engine| opponent.is(engine));
    let others: Vec<_> = others
        .filter_map(|engine| Some((engine, rounds(engine)?)))
        .collect();
    let (mut ours, mut theirs, mut engines) = (Vec::new(), Vec::new(), Vec::new());
    for (round, our) in subject.iter().enumerate() {
        let values = others.iter().filter_map(|(engine, values)| {
            let value = values.get(round).copied().flatten()?;
            Some((*engine, value))
        });
        let best = values.reduce(|best, other| {
            let is_better = match better {
                Better::Higher => other.1 > best.1,
                Better::Lower => other.1 < best.1,
            };
            if is_better { other } else { best }
        });
        if let (Some(our), Some((engine, value))) = (our, best) {
            ours.push(*our);
            theirs.push(value);
            engines.push(engine);
        }
    }
    let ratios = ours.iter().zip(&theirs);
    let ratio = Spread::of(ratios.map(|(our, their)| ratio(*our, *their)))?;
    let (ours, theirs) = (Spread::of(ours)?, Spread::of(theirs)?);
    let is_noise = (ours.median - theirs.median).abs() <= measure.noise;
    Some(Verdict {
        name,
        measure,
        ours,
        theirs,
        engines: by_frequency(&engines),
        ratio,
        judgement: match is_noise {
            true => Judgement::Same,
            false => judgement(ratio, better),
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
    use super::super::synthetic;
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
        let all = verdicts(&report, Opponent::BestOther);
        let find = |name: &str, key: &str| {
            let mut all = all.iter();
            all.find(|v| v.name == name && v.measure.key == key)
        };
        let fill = find("mixed: fill", "operations_per_second").unwrap();
        assert_eq!(
            (fill.judgement, &fill.engines[..]),
            (Judgement::Win, &["rocksdb"][..])
        );
        let get = find("mixed: get", "operations_per_second").unwrap();
        assert_eq!(
            (get.judgement, &get.engines[..]),
            (Judgement::Loss, &["lmdb"][..])
        );
        // Shown, not judged.
        assert!(find("mixed: get", "write_amplification").is_none());
        let against = verdicts(&report, Opponent::Engine("rocksdb"));
        assert!(against.iter().all(|v| v.engines == ["rocksdb"]));
        let get = |v: &&Verdict<'_>| v.name == "mixed: get" && v.measure.title == "operations/s";
        assert_eq!(against.iter().find(get).unwrap().judgement, Judgement::Win);
        assert_eq!(by_frequency(&["a", "b", "c", "c", "b"]), ["b", "c", "a"]);
    }

    #[test]
    fn there_is_nothing_to_judge_alone() {
        for kept in [&["titan"][..], &["rocksdb", "lmdb"]] {
            let mut report = synthetic::report();
            synthetic::keep_engines(&mut report, kept);
            assert!(verdicts(&report, Opponent::BestOther).is_empty());
        }
    }
}
