//! Compares two reports: what became faster, smaller or neither from A to B.
//!
//! A difference counts only if it exceeds the spread of both, so that their ranges of rounds do not
//! overlap, and 5 %. If either has a single round, this is unknown. Machines vary from day to day,
//! and all speeds with them: so judgements of Titan and the order of engines are compared, too,
//! which are of engines that ran on the same day.

use std::fmt;

use serde::Serialize;

use crate::report::document::{Document, Table};
use crate::report::markdown;
use crate::report::page::NOTHING;
use crate::report::verdict::{Judgement, MARGIN, Opponent, SUBJECT, judge};
use crate::results::{Better, Report, Spread};
use crate::units::Unit;

/// The comparison of two reports.
#[derive(Debug, Serialize)]
pub(crate) struct Comparison {
    /// Conditions that differ, and may therefore have caused differences: name, A and B.
    pub(crate) conditions: Vec<(String, Option<String>, Option<String>)>,
    pub(crate) judged: Vec<JudgedTwice>,
    pub(crate) figures: Vec<Compared>,
    pub(crate) rankings: Vec<Ranking>,
    /// Entries that are in one report only.
    pub(crate) only_in_a: Vec<String>,
    pub(crate) only_in_b: Vec<String>,
}

/// One figure.
#[derive(Debug, Serialize)]
pub(crate) struct Compared {
    pub(crate) name: String,
    pub(crate) variant: String,
    pub(crate) measure: String,
    pub(crate) a: Spread,
    pub(crate) b: Spread,
    /// B divided by A: of the medians, and the range that their ranges allow.
    pub(crate) ratio: Spread,
    /// By more than the margin. `None` if either has a single round.
    pub(crate) exceeds_spread: Option<bool>,
    #[serde(skip)]
    unit: Unit,
}

/// Titan compared with one other engine in one measure.
#[derive(Debug, Serialize)]
pub(crate) struct JudgedTwice {
    pub(crate) name: String,
    pub(crate) measure: String,
    pub(crate) against: String,
    /// Titan's figure divided by the other's.
    pub(crate) a: Spread,
    pub(crate) b: Spread,
    pub(crate) judged_a: Judgement,
    pub(crate) judged_b: Judgement,
    /// Whether the ratios differ by more than their spread and the margin, and at least one is
    /// large enough to count.
    pub(crate) apart: bool,
}

impl JudgedTwice {
    /// Whether it is a loss in one report and a win in the other.
    fn is_contrary(&self) -> bool {
        let same = |judged| judged == Judgement::Same;
        self.judged_a != self.judged_b && !same(self.judged_a) && !same(self.judged_b)
    }
}

/// Variants by the first measure that is better when it is higher, the best first.
#[derive(Debug, Serialize)]
pub(crate) struct Ranking {
    pub(crate) name: String,
    pub(crate) a: Vec<String>,
    pub(crate) b: Vec<String>,
    /// Whether two changed places that both reports tell apart.
    pub(crate) contrary: bool,
}

/// Compares B to A.
pub(crate) fn compare(a: &Report, b: &Report) -> Comparison {
    let only = |these: &Report, others: &Report| {
        let entries = these.workloads.iter();
        let only = entries.filter(|e| others.entry(&e.name, &e.variant).is_none());
        only.map(|entry| format!("{}, {}", entry.name, entry.variant))
            .collect()
    };
    Comparison {
        conditions: conditions(a, b),
        judged: judged(a, b),
        figures: figures(a, b),
        rankings: a
            .names()
            .into_iter()
            .filter_map(|name| rank(a, b, name))
            .collect(),
        only_in_a: only(a, b),
        only_in_b: only(b, a),
    }
}

/// Conditions of the runs, of their variants and of their workloads that differ.
fn conditions(a: &Report, b: &Report) -> Vec<(String, Option<String>, Option<String>)> {
    let all = |report: &Report| {
        let mut all = report.conditions.clone();
        all.extend(report.about_engines.iter().map(|about| {
            let options = format!("{}; {}", about.version, about.options());
            (format!("engine {}", about.name), options)
        }));
        let about = report.about.iter();
        all.extend(about.map(|(name, work)| (format!("workload {name}"), work.clone())));
        all
    };
    let (of_a, of_b) = (all(a), all(b));
    let value = |of: &[(String, String)], name: &str| {
        let found = of.iter().find(|(other, _)| other == name);
        found.map(|(_, value)| value.clone())
    };
    let only_b = of_b.iter().filter(|(name, _)| value(&of_a, name).is_none());
    let names = of_a.iter().chain(only_b).map(|(name, _)| name);
    let both = names.map(|name| (name.clone(), value(&of_a, name), value(&of_b, name)));
    both.filter(|(_, a, b)| a != b).collect()
}

fn judged(a: &Report, b: &Report) -> Vec<JudgedTwice> {
    let mut all = Vec::new();
    for engine in a.engines.iter().filter(|engine| *engine != SUBJECT) {
        let opponent = Opponent::Engine(engine);
        for name in a.names() {
            all.extend(a.judged().filter_map(|measure| {
                let of_a = judge(a, name, measure, opponent)?;
                let of_b = judge(b, name, measure, opponent)?;
                let is_small = [of_a.judgement, of_b.judgement] == [Judgement::Same; 2];
                let differs = of_a.ratio.differs_from(&of_b.ratio, MARGIN);
                Some(JudgedTwice {
                    name: name.to_owned(),
                    measure: measure.title.clone(),
                    against: engine.clone(),
                    a: of_a.ratio,
                    b: of_b.ratio,
                    judged_a: of_a.judgement,
                    judged_b: of_b.judgement,
                    apart: !is_small && differs == Some(true),
                })
            }));
        }
    }
    all
}

/// Figures of measures that are judged, and of those that have no place among engines.
fn figures(a: &Report, b: &Report) -> Vec<Compared> {
    let mut all = Vec::new();
    for entry in &a.workloads {
        let listed = a.engines.contains(&entry.variant);
        for measure in a.measures.iter().filter(|m| m.better.is_some() || !listed) {
            let spread =
                |report: &Report| report.rated(&entry.name, &entry.variant, measure)?.spread();
            let Some((a, b)) = spread(a).zip(spread(b)) else {
                continue;
            };
            all.push(Compared {
                name: entry.name.clone(),
                variant: entry.variant.clone(),
                measure: measure.title.clone(),
                a,
                b,
                ratio: b.by(&a),
                exceeds_spread: a.differs_from(&b, MARGIN),
                unit: measure.unit,
            });
        }
    }
    all
}

/// Ranks the variants that both reports measured; `None` if fewer than two can be ranked, or if all
/// of them have the same figure in both, as under a prescribed rate.
fn rank(a: &Report, b: &Report, name: &str) -> Option<Ranking> {
    let measure = a
        .judged()
        .find(|measure| measure.better == Some(Better::Higher))?;
    let spread = |report: &Report, variant: &str| report.rated(name, variant, measure)?.spread();
    let variants = a.variants_of(name).into_iter();
    let both =
        variants.filter_map(|variant| Some((variant, spread(a, variant)?, spread(b, variant)?)));
    let mut in_a: Vec<(&str, Spread, Spread)> = both.collect();
    if in_a.len() < 2 {
        return None;
    }
    let mut in_b = in_a.clone();
    in_a.sort_by(|x, y| y.1.median.total_cmp(&x.1.median));
    in_b.sort_by(|x, y| y.2.median.total_cmp(&x.2.median));
    let is_faster =
        |x: &Spread, y: &Spread| x.differs_from(y, MARGIN) == Some(true) && x.least > y.most;
    let contrary = in_a.iter().any(|x| {
        in_a.iter()
            .any(|y| is_faster(&x.1, &y.1) && is_faster(&y.2, &x.2))
    });
    let names = |ranked: &[(&str, Spread, Spread)]| {
        ranked.iter().map(|(name, ..)| (*name).to_owned()).collect()
    };
    Some(Ranking {
        name: name.to_owned(),
        a: names(&in_a),
        b: names(&in_b),
        contrary,
    })
}

impl Comparison {
    fn document(&self) -> Document {
        let mut document = Document {
            title: "B compared to A".to_owned(),
            ..Document::default()
        };
        let mut table = Table::new("Conditions that differ", [":condition", ":A", ":B"]);
        for (name, a, b) in &self.conditions {
            let text = |value: &Option<String>| value.clone().unwrap_or_else(|| NOTHING.to_owned());
            table.row([name.clone(), text(a), text(b)]);
        }
        if table.rows.is_empty() {
            document.text("The conditions are the same.");
        }
        document.table(table);
        document.heading("Titan against each other engine");
        self.add_judged(&mut document);
        document.heading("Rankings");
        self.add_rankings(&mut document);
        document.heading("Figures");
        let columns = [":step", ":variant", ":measure", "A", "B", "B / A", ":"];
        let mut table = Table::new("", columns);
        for compared in &self.figures {
            let verdict = match compared.exceeds_spread {
                Some(true) => "differs",
                Some(false) => "within the spread",
                None => "one round",
            };
            table.row([
                compared.name.clone(),
                compared.variant.clone(),
                compared.measure.clone(),
                compared.a.show(compared.unit),
                compared.b.show(compared.unit),
                compared.ratio.show(Unit::Number),
                verdict.to_owned(),
            ]);
        }
        document.table(table);
        for (name, places) in [("A", &self.only_in_a), ("B", &self.only_in_b)] {
            if !places.is_empty() {
                document.heading(&format!("Measured only in {name}"));
                document.list(places.clone());
            }
        }
        document
    }

    fn add_judged(&self, document: &mut Document) {
        if self.judged.is_empty() {
            return document.text("Titan and another engine are not in both reports.");
        }
        let of = |counts: &dyn Fn(&JudgedTwice) -> bool| {
            self.judged.iter().filter(|judged| counts(judged)).count()
        };
        let (same, contrary) = (
            of(&|judged| judged.judged_a == judged.judged_b),
            of(&JudgedTwice::is_contrary),
        );
        document.text(format!(
            "Of {} ratios of Titan's figure to another's that both reports judge, {same} are a loss, a \
             win or no difference in both, {} are a difference in one report alone, and {contrary} a loss \
             in one and a win in the other. {} differ by more than their spread and {} %.",
            self.judged.len(),
            self.judged.len() - same - contrary,
            of(&|judged| judged.apart),
            MARGIN * 100.0
        ));
        if self
            .judged
            .iter()
            .any(|judged| judged.a.is_single || judged.b.is_single)
        {
            document.text("With one round in a report, a loss or a win may be chance.");
        }
        let columns = [
            ":step", ":measure", ":against", "A", "B", ":A says", ":B says",
        ];
        let mut contrary = Table::new("Where they contradict each other", columns);
        let mut apart = Table::new("Others that lie apart", columns);
        let word = |judgement| match judgement {
            Judgement::Loss => "loss",
            Judgement::Win => "win",
            Judgement::Same => "no difference",
        };
        for judged in &self.judged {
            let table = match judged.is_contrary() {
                true => &mut contrary,
                false if judged.apart => &mut apart,
                false => continue,
            };
            table.row([
                judged.name.clone(),
                judged.measure.clone(),
                judged.against.clone(),
                judged.a.show(Unit::Number),
                judged.b.show(Unit::Number),
                word(judged.judged_a).to_owned(),
                word(judged.judged_b).to_owned(),
            ]);
        }
        document.table(contrary);
        document.table(apart);
    }

    fn add_rankings(&self, document: &mut Document) {
        let changed = || {
            self.rankings
                .iter()
                .filter(|ranking| ranking.a != ranking.b)
        };
        document.text(format!(
            "Engines have the same order in {} of {} steps; in {} of the others two changed places that \
             both reports tell apart.",
            self.rankings.len() - changed().count(),
            self.rankings.len(),
            changed().filter(|ranking| ranking.contrary).count()
        ));
        let mut table = Table::new("Where the order changed", [":step", ":A", ":B", ":"]);
        for ranking in changed() {
            let says = if ranking.contrary {
                "contrary"
            } else {
                "not told apart"
            };
            let (a, b) = (ranking.a.join(" > "), ranking.b.join(" > "));
            table.row([ranking.name.as_str(), &a, &b, says]);
        }
        document.table(table);
    }
}

/// As Markdown.
impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&markdown::render(&self.document()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::synthetic;
    use crate::results::Figure;

    /// Multiplies the rates of an engine at `get`, from a round on.
    fn faster(report: &mut Report, variant: &str, factor: f64, from: usize) {
        let mut entries = report.workloads.iter_mut();
        let entry = entries
            .find(|e| e.name == "mixed: get" && e.variant == variant)
            .unwrap();
        let Some(Figure::Rounds(rates)) = entry.figures.get_mut("operations_per_second") else {
            panic!("no rates");
        };
        rates
            .iter_mut()
            .skip(from)
            .flatten()
            .for_each(|rate| *rate *= factor);
    }

    #[test]
    fn a_report_is_the_same_as_itself() {
        let report = synthetic::report();
        let comparison = compare(&report, &report);
        assert!(comparison.conditions.is_empty());
        assert!(comparison.only_in_a.is_empty() && comparison.only_in_b.is_empty());
        assert!(
            comparison
                .rankings
                .iter()
                .all(|ranking| ranking.a == ranking.b)
        );
        assert!(comparison.judged.len() > 10 && comparison.figures.len() > 10);
        let alike = |judged: &JudgedTwice| judged.judged_a == judged.judged_b && !judged.apart;
        assert!(comparison.judged.iter().all(alike));
        let within = |c: &Compared| c.exceeds_spread == Some(false) && c.ratio.contains(1.0);
        assert!(comparison.figures.iter().all(within));
    }

    #[test]
    fn differences_are_told() {
        let (a, mut b) = (synthetic::report(), synthetic::report());
        b.conditions[1].1 = "none".to_owned();
        b.about_engines[0].version = "2.0.0".to_owned();
        b.workloads.retain(|entry| entry.variant != "redb");
        faster(&mut b, "titan", 2.0, 0);
        let comparison = compare(&a, &b);
        let names: Vec<&str> = comparison
            .conditions
            .iter()
            .map(|(name, ..)| name.as_str())
            .collect();
        assert_eq!(names, ["memory limit", "engine titan"]);
        let mut figures = comparison.figures.iter();
        let of_get = |c: &&Compared| {
            (c.name.as_str(), c.variant.as_str()) == ("mixed: get", "titan")
                && c.measure == "operations/s"
        };
        let rate = figures.find(of_get).unwrap();
        assert_eq!((rate.exceeds_spread, rate.ratio.median), (Some(true), 2.0));
        let contrary: Vec<_> = comparison
            .judged
            .iter()
            .filter(|j| j.is_contrary())
            .collect();
        assert_eq!(contrary.len(), 1);
        assert!(contrary[0].against == "lmdb" && contrary[0].apart);
        assert_eq!(comparison.only_in_a.len(), 2);
        let text = comparison.to_string();
        for part in [
            "memory limit",
            "Measured only in A",
            "| differs |",
            "contradict",
            "lmdb > titan",
            "| contrary |",
        ] {
            assert!(text.contains(part), "{part} is missing in {text}");
        }
        assert!(
            serde_json::to_string(&comparison)
                .unwrap()
                .contains("\"exceeds_spread\":true")
        );
    }

    #[test]
    fn places_changed_within_the_spread_are_no_contradiction() {
        let (a, mut b) = (synthetic::report(), synthetic::report());
        // One of three rounds of redb, and of rocksdb, is above Titan's.
        faster(&mut b, "rocksdb", 1.4, 2);
        faster(&mut b, "redb", 2.0, 2);
        let comparison = compare(&a, &b);
        let ranking = comparison
            .rankings
            .iter()
            .find(|r| r.name == "mixed: get")
            .unwrap();
        assert!(ranking.a != ranking.b && !ranking.contrary, "{ranking:?}");
        assert!(comparison.to_string().contains("not told apart"));
    }

    #[test]
    fn one_round_has_no_spread() {
        let (a, mut b) = (synthetic::report(), synthetic::report());
        for figure in b
            .workloads
            .iter_mut()
            .flat_map(|entry| entry.figures.values_mut())
        {
            if let Figure::Rounds(rounds) = figure {
                rounds.truncate(1);
            }
        }
        let comparison = compare(&a, &b);
        assert!(
            comparison
                .figures
                .iter()
                .all(|c| c.exceeds_spread.is_none())
        );
        assert!(comparison.judged.iter().all(|judged| !judged.apart));
        assert!(comparison.rankings.iter().all(|ranking| !ranking.contrary));
        assert!(comparison.to_string().contains("may be chance"));
    }
}
