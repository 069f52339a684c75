//! The schema of results: of every suite of this program, in `report.json`, and of the recorded
//! results in `docs/results/`.
//!
//! A report has entries. An entry has the figures of one workload, or of one step of it (`db_bench:
//! fillseq`), by one variant: an engine, or a side of a comparison. Each figure belongs to a
//! [`Measure`] of the report, whose key is the figure's name. Ratios, verdicts, tables and plots
//! are computed from it and never stored.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::units::Unit;

/// The version of this schema. Reports of other versions are not read.
pub(crate) const SCHEMA: u32 = 2;

/// All results of one run.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Report {
    /// [`SCHEMA`].
    pub(crate) schema: u32,
    pub(crate) title: String,
    /// The moment or the day when it began; empty if it is not known.
    #[serde(default)]
    pub(crate) began: String,
    /// The commands that repeat it.
    #[serde(default)]
    pub(crate) commands: Vec<String>,
    /// Names and values of what must be the same for two reports to be comparable: machine,
    /// amounts, settings.
    #[serde(default)]
    pub(crate) conditions: Vec<(String, String)>,
    /// The engines, or the sides of the comparison, in the order of tables.
    pub(crate) engines: Vec<String>,
    #[serde(default)]
    pub(crate) about_engines: Vec<AboutEngine>,
    /// Names of workloads and steps, and a text about each.
    #[serde(default)]
    pub(crate) about: Vec<(String, String)>,
    /// In the order of tables.
    pub(crate) measures: Vec<Measure>,
    #[serde(default)]
    pub(crate) targets: Vec<Target>,
    /// Remarks for the reader besides the figures: limits of this machine, what was omitted.
    #[serde(default)]
    pub(crate) remarks: Vec<String>,
    /// Recorded plots beside the report, whose points are not in it: file and caption.
    #[serde(default)]
    pub(crate) pictures: Vec<(String, String)>,
    /// In the order in which they ran first.
    pub(crate) workloads: Vec<Entry>,
}

/// An engine, as it was used.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct AboutEngine {
    pub(crate) name: String,
    pub(crate) version: String,
    /// Every option that differs from the engine's default, or that matters here.
    pub(crate) options: Vec<(String, String)>,
    /// Where it differs from what the others do.
    pub(crate) notes: Vec<String>,
}

impl AboutEngine {
    pub(crate) fn new<'a>(
        name: &str,
        version: &str,
        options: impl IntoIterator<Item = (&'a str, String)>,
        notes: Vec<String>,
    ) -> Self {
        let options = options.into_iter();
        AboutEngine {
            name: name.to_owned(),
            version: version.to_owned(),
            options: options
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
            notes,
        }
    }

    /// The options in one line.
    pub(crate) fn options(&self) -> String {
        let options = self.options.iter();
        let options: Vec<String> = options
            .map(|(name, value)| format!("{name} = {value}"))
            .collect();
        options.join(", ")
    }
}

/// Which of two values is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Better {
    Higher,
    Lower,
}

/// The meaning of a figure.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Measure {
    /// The name of its figures.
    pub(crate) key: String,
    pub(crate) title: String,
    #[serde(default)]
    pub(crate) unit: Unit,
    /// Variants are judged by it if it is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) better: Option<Better>,
    /// Differences up to this are ignored, however large their ratio.
    #[serde(default)]
    pub(crate) noise: f64,
    /// Whether pages draw it as bars.
    #[serde(default)]
    pub(crate) drawn: bool,
}

impl Measure {
    pub(crate) fn new(key: &str, title: &str, unit: Unit) -> Self {
        Measure {
            key: key.to_owned(),
            title: title.to_owned(),
            unit,
            better: None,
            noise: 0.0,
            drawn: false,
        }
    }

    /// Judged; differences up to `noise` are ignored.
    pub(crate) fn judged(self, better: Better, noise: f64) -> Self {
        Measure {
            better: Some(better),
            noise,
            ..self
        }
    }

    pub(crate) fn drawn(self) -> Self {
        Measure {
            drawn: true,
            ..self
        }
    }
}

/// The figures of a workload or step by a variant.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) variant: String,
    /// Why rounds failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) failed: Vec<String>,
    /// Whether a round ran out of time before its work was done, or did not keep its rate.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) cut_short: bool,
    /// Measures that are shown but not judged here: variants may have done different amounts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) unrated: Vec<String>,
    /// Of the last round that ended well.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) series: Vec<Series>,
    #[serde(flatten)]
    pub(crate) figures: BTreeMap<String, Figure>,
}

/// A measured value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Figure {
    One(f64),
    /// By round; none in rounds that failed.
    Rounds(Vec<Option<f64>>),
    /// Of several rounds whose values were not kept.
    Summary {
        median: f64,
        least: f64,
        most: f64,
    },
}

impl Figure {
    pub(crate) fn spread(&self) -> Option<Spread> {
        match self {
            Figure::One(value) => Spread::of([*value]),
            Figure::Rounds(values) => Spread::of(values.iter().copied().flatten()),
            Figure::Summary {
                median,
                least,
                most,
            } => Some(Spread {
                median: *median,
                least: *least,
                most: *most,
                is_single: false,
            }),
        }
    }

    /// The values by round, if they were kept.
    pub(crate) fn rounds(&self) -> Option<&[Option<f64>]> {
        match self {
            Figure::Rounds(values) => Some(values),
            Figure::One(_) | Figure::Summary { .. } => None,
        }
    }
}

/// The median of some rounds, and their range.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
    pub(crate) is_single: bool,
}

impl Spread {
    /// `None` without values; ignores NaN.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().filter(|value| !value.is_nan()).collect();
        sorted.sort_by(f64::total_cmp);
        let (least, most) = (*sorted.first()?, *sorted.last()?);
        let (low, high) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
        Some(Spread {
            // For two equal values not their mean: it does not exist for infinity.
            median: if low == high { low } else { (low + high) / 2.0 },
            least,
            most,
            is_single: sorted.len() == 1,
        })
    }

    /// These values divided by others: the medians, and the range that their ranges allow.
    pub(crate) fn by(&self, other: &Spread) -> Self {
        Spread {
            median: ratio(self.median, other.median),
            least: ratio(self.least, other.most),
            most: ratio(self.most, other.least),
            is_single: self.is_single || other.is_single,
        }
    }

    pub(crate) fn contains(&self, value: f64) -> bool {
        (self.least..=self.most).contains(&value)
    }

    /// Whether the ranges do not overlap and the medians differ by more than this share. `None` if
    /// either is a single round.
    pub(crate) fn differs_from(&self, other: &Self, margin: f64) -> Option<bool> {
        let ratio = ratio(self.median, other.median);
        let is_apart = self.least > other.most || other.least > self.most;
        (!self.is_single && !other.is_single)
            .then(|| is_apart && ratio.max(1.0 / ratio) > 1.0 + margin)
    }

    /// `median (least–most)`, or the value if there is only one.
    pub(crate) fn show(&self, unit: Unit) -> String {
        let [median, least, most] = [self.median, self.least, self.most].map(|v| unit.show(v));
        match least == most {
            true => median,
            false => format!("{median} ({least}–{most})"),
        }
    }
}

/// `a / b`; 1 if they are equal, also if both are zero.
pub(crate) fn ratio(a: f64, b: f64) -> f64 {
    if a == b { 1.0 } else { a / b }
}

/// Points of a line.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) unit: Unit,
    pub(crate) x: X,
    pub(crate) points: Vec<(f64, f64)>,
}

/// The meaning of the first number of a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum X {
    Seconds,
    /// 0 to 100.
    Percentile,
}

/// The bound that a figure is to keep, or its ratio to that of another variant.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) key: String,
    pub(crate) variant: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) beside: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) at_most: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) at_least: Option<f64>,
}

impl Target {
    /// The measured figure or ratio, and whether it keeps the bound. `None` if it was not measured.
    pub(crate) fn judge(&self, report: &Report) -> Option<(f64, bool)> {
        let median = |variant: &str| {
            let spread = report.spread(&self.name, variant, &self.key);
            spread.map(|spread| spread.median)
        };
        let mut measured = median(&self.variant)?;
        if let Some(beside) = &self.beside {
            measured = ratio(measured, median(beside)?);
        }
        let is_kept = self.at_most.is_none_or(|most| measured <= most)
            && self.at_least.is_none_or(|least| measured >= least);
        Some((measured, is_kept))
    }
}

/// The figures of one round.
#[derive(Debug, Default)]
pub(crate) struct Round {
    pub(crate) figures: Vec<(String, f64)>,
    /// Figures whose measures are known only now.
    pub(crate) more: Vec<(Measure, f64)>,
    pub(crate) cut_short: bool,
    pub(crate) unrated: Vec<String>,
    pub(crate) series: Vec<Series>,
}

impl Report {
    pub(crate) fn entry(&self, name: &str, variant: &str) -> Option<&Entry> {
        let mut entries = self.workloads.iter();
        entries.find(|entry| entry.name == name && entry.variant == variant)
    }

    /// The rounds of a figure of a variant. `None` if it was not measured.
    pub(crate) fn spread(&self, name: &str, variant: &str, key: &str) -> Option<Spread> {
        self.entry(name, variant)?.figures.get(key)?.spread()
    }

    /// The place of a variant in the order of tables.
    pub(crate) fn place(&self, variant: &str) -> Option<usize> {
        self.engines.iter().position(|engine| engine == variant)
    }

    /// The names of the entries, each once, in order.
    pub(crate) fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for entry in &self.workloads {
            if !names.contains(&entry.name.as_str()) {
                names.push(&entry.name);
            }
        }
        names
    }

    /// The variants that ran this, in the order of tables.
    pub(crate) fn variants_of(&self, name: &str) -> Vec<&str> {
        let entries = self.workloads.iter().filter(|entry| entry.name == name);
        let mut variants: Vec<&str> = entries.map(|entry| entry.variant.as_str()).collect();
        variants.sort_by_key(|variant| self.place(variant).unwrap_or(usize::MAX));
        variants
    }

    /// The figure that variants are judged by; `None` if that would be meaningless.
    pub(crate) fn rated(&self, name: &str, variant: &str, measure: &Measure) -> Option<&Figure> {
        let entry = self.entry(name, variant)?;
        let is_rated = !entry.unrated.contains(&measure.key);
        entry.figures.get(&measure.key).filter(|_| is_rated)
    }

    /// Measures that variants are judged by.
    pub(crate) fn judged(&self) -> impl Iterator<Item = &Measure> {
        let measures = self.measures.iter();
        measures.filter(|measure| measure.better.is_some())
    }

    /// Adds the figures of a variant that runs once.
    pub(crate) fn record_single(&mut self, name: &str, variant: &str, measured: Round) {
        let entry = self.entry_mut(name, variant);
        let figures = measured.figures.into_iter();
        entry
            .figures
            .extend(figures.map(|(key, value)| (key, Figure::One(value))));
        entry.series = measured.series;
    }

    fn entry_mut(&mut self, name: &str, variant: &str) -> &mut Entry {
        let found = self
            .workloads
            .iter()
            .position(|entry| entry.name == name && entry.variant == variant);
        let at = found.unwrap_or_else(|| {
            self.workloads.push(Entry {
                name: name.to_owned(),
                variant: variant.to_owned(),
                ..Entry::default()
            });
            self.workloads.len() - 1
        });
        &mut self.workloads[at]
    }

    /// Adds a round, whose number is from 1 on, or the reason why it failed.
    pub(crate) fn record(
        &mut self,
        name: &str,
        variant: &str,
        round: usize,
        measured: Result<Round, String>,
    ) {
        let mut measured = match measured {
            Ok(measured) => measured,
            Err(reason) => {
                let failed = &mut self.entry_mut(name, variant).failed;
                return failed.push(format!("in round {round}: {reason}"));
            }
        };
        for (measure, value) in measured.more {
            measured.figures.push((measure.key.clone(), value));
            if self.measures.iter().all(|known| known.key != measure.key) {
                self.measures.push(measure);
            }
        }
        let entry = self.entry_mut(name, variant);
        for (key, value) in measured.figures {
            let figure = entry.figures.entry(key);
            let figure = figure.or_insert_with(|| Figure::Rounds(Vec::new()));
            if let Figure::Rounds(values) = figure {
                values.resize(values.len().max(round), None);
                values[round - 1] = Some(value);
            }
        }
        entry.cut_short |= measured.cut_short;
        entry.series = measured.series;
        for key in measured.unrated {
            if !entry.unrated.contains(&key) {
                entry.unrated.push(key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_of_all_rounds() {
        assert_eq!(Spread::of([]), None);
        let odd = Spread::of([3.0, f64::NAN, 1.0, 2.0]).unwrap();
        assert_eq!((odd.median, odd.least, odd.most), (2.0, 1.0, 3.0));
        let even = Spread::of([4.0, 1.0]).unwrap();
        assert_eq!(even.median, 2.5);
        assert!(even.contains(1.0) && !even.contains(4.5));
        let above = Spread::of([3.1, 3.2]).unwrap();
        assert_eq!(even.differs_from(&odd, 0.05), Some(false));
        assert_eq!(above.differs_from(&odd, 0.05), Some(true));
        assert_eq!(above.differs_from(&odd, 0.6), Some(false));
        assert_eq!(above.differs_from(&Spread::of([1.0]).unwrap(), 0.0), None);
        assert_eq!(even.show(Unit::Number), "2.50 (1.00–4.00)");
        assert_eq!(even.by(&odd).most, 4.0);
        assert_eq!((ratio(0.0, 0.0), ratio(1.0, 0.0)), (1.0, f64::INFINITY));
    }

    #[test]
    fn rounds_are_recorded_and_read_again() {
        let mut report = Report::default();
        let round = |value| Round {
            figures: vec![("rate".to_owned(), value)],
            ..Round::default()
        };
        report.record("fill", "a", 1, Ok(round(1.0)));
        report.record("fill", "b", 1, Err("no room".to_owned()));
        report.record("fill", "a", 3, Ok(round(3.0)));
        let json = serde_json::to_string(&report).unwrap();
        let report: Report = serde_json::from_str(&json).unwrap();
        let entry = report.entry("fill", "a").unwrap();
        let rounds = Figure::Rounds(vec![Some(1.0), None, Some(3.0)]);
        assert_eq!(entry.figures["rate"], rounds);
        assert_eq!(
            report.entry("fill", "b").unwrap().failed,
            ["in round 1: no room"]
        );
        assert_eq!(report.variants_of("fill"), ["a", "b"]);

        let text =
            "name = 'x'\nvariant = 'y'\none = 3\nall = { median = 2, least = 1, most = 3.5 }";
        let entry: Entry = toml::from_str(text).unwrap();
        assert_eq!(entry.figures["one"], Figure::One(3.0));
        assert_eq!(entry.figures["all"].spread().unwrap().most, 3.5);
    }

    #[test]
    fn targets_are_figures_or_ratios() {
        let mut report = Report::default();
        for (variant, value) in [("off", 4.0), ("on", 1.0)] {
            let figures = vec![("mean".to_owned(), value)];
            let round = Round {
                figures,
                ..Round::default()
            };
            report.record("W1", variant, 1, Ok(round));
        }
        let mut target = Target {
            name: "W1".to_owned(),
            key: "mean".to_owned(),
            variant: "on".to_owned(),
            beside: Some("off".to_owned()),
            at_most: Some(0.3),
            at_least: None,
        };
        assert_eq!(target.judge(&report), Some((0.25, true)));
        target.beside = None;
        assert_eq!(target.judge(&report), Some((1.0, false)));
        target.name = "W2".to_owned();
        assert_eq!(target.judge(&report), None);
    }
}
