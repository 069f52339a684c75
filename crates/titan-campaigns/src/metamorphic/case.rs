//! A case: a list of operations, and the configurations it is for; as a file it becomes a test.
//!
//! ```text
//! # Where a deletion meets a snapshot.
//! configurations: no separation; two levels
//! seed: 17
//!
//! put default k001 7*4096
//! reopen
//! ```
//!
//! `configurations: all` means all. The seed only records the origin of the case.

use std::fmt;
use std::str::FromStr;

use titan_testkit::failure::{CheckFailure, Checked, Doing};
use titan_testkit::ops::{Op, Ops};

use super::configurations::{CONFIGURATIONS, Configuration, named};
use super::executor::replay;
use crate::answers::{Deviation, expected};
use crate::pool::Task;
use crate::regression::smaller;

/// Attempts with a list that does not fail: the timing of background threads varies.
const ATTEMPTS: usize = 3;

/// A list of operations for some configurations.
pub struct Case {
    /// A description.
    pub about: String,
    /// The configurations it is for.
    pub configurations: Vec<&'static Configuration>,
    /// The seed its operations were generated from.
    pub seed: u64,
    /// Its operations.
    pub ops: Ops,
}

impl Case {
    /// The file name it should have.
    pub fn file_name(&self) -> String {
        let first = self.configurations.first().map_or("none", |c| c.name);
        let word = |c: char| match c.is_ascii_alphanumeric() {
            true => c.to_ascii_lowercase(),
            false => '-',
        };
        let name: String = first.chars().map(word).collect();
        format!("{}-{}.txt", name.replace("--", "-"), self.seed)
    }

    /// Performs it under its configurations; returns the first failure.
    pub(super) fn replay(&self) -> Checked<()> {
        let expected = expected(&self.ops.0);
        let mut configurations = self.configurations.iter();
        configurations.try_for_each(|c| {
            let replayed = replay(c, &self.ops.0, &expected);
            replayed.map_err(|d| {
                let Deviation { after, what } = d;
                CheckFailure::wrong(format!("{}: operation {after}: {what}", c.name))
            })
        })
    }

    /// The smallest case found from a failing list, for all configurations that fail it.
    pub(super) fn reduced(
        configuration: &'static Configuration,
        seed: u64,
        ops: &[Op],
        deviation: Deviation,
        task: &Task,
    ) -> Case {
        let mut last = deviation.what;
        let mut fails = |ops: &[Op]| {
            let expected = expected(ops);
            (0..ATTEMPTS).any(|_| match replay(configuration, ops, &expected) {
                Ok(()) => false,
                Err(found) => {
                    last = found.what;
                    true
                }
            })
        };
        let until_there = ops.get(..=deviation.after).unwrap_or(ops);
        let start = match fails(until_there) {
            true => until_there,
            // Later operations mattered, or the failure is not reproducible.
            false => ops,
        };
        let ops = smaller(start.to_vec(), task, fails);
        let expected = expected(&ops);
        let mut configurations = vec![configuration];
        let others = CONFIGURATIONS
            .iter()
            .filter(|c| c.name != configuration.name);
        configurations.extend(others.filter(|c| replay(c, &ops, &expected).is_err()));
        Case {
            about: last.to_string(),
            configurations,
            seed,
            ops: Ops(ops),
        }
    }
}

fn find(name: &str) -> Checked<&'static Configuration> {
    named(name).ok_or_else(|| CheckFailure::wrong(format!("no configuration: {name}")))
}

/// Parses the output of `Display`. The error names the invalid line.
impl FromStr for Case {
    type Err = CheckFailure;

    fn from_str(text: &str) -> Checked<Case> {
        let mut case = Case {
            about: String::new(),
            configurations: Vec::new(),
            seed: 0,
            ops: Ops::default(),
        };
        let mut ops = String::new();
        for line in text.lines() {
            if let Some(about) = line.strip_prefix("# ") {
                case.about = format!("{}{about}\n", case.about);
            } else if let Some(names) = line.strip_prefix("configurations: ") {
                case.configurations = match names {
                    "all" => CONFIGURATIONS.iter().collect(),
                    names => names.split("; ").map(find).collect::<Result<_, _>>()?,
                };
            } else if let Some(seed) = line.strip_prefix("seed: ") {
                let seed = seed.parse();
                case.seed = seed.map_err(|_| CheckFailure::wrong(format!("no seed: {line}")))?;
            } else {
                ops.push_str(line);
            }
            // Lines that are not operations count too.
            ops.push('\n');
        }
        case.ops = Ops::parse(&ops).doing("reading the operations")?;
        match case.configurations.is_empty() {
            true => Err(CheckFailure::wrong(
                "a case says which configurations it is for",
            )),
            false => Ok(case),
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = match self.configurations.len() == CONFIGURATIONS.len() {
            true => vec!["all"],
            false => self.configurations.iter().map(|c| c.name).collect(),
        };
        self.about
            .lines()
            .try_for_each(|line| writeln!(f, "# {line}"))?;
        writeln!(f, "configurations: {}", names.join("; "))?;
        writeln!(f, "seed: {}\n", self.seed)?;
        self.ops.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_is_read_as_it_was_written() {
        let text = "\
# What it is about.
# More of it.
configurations: defaults; two levels
seed: 17

put default k 7*1
reopen
";
        let case: Case = text.parse().unwrap();
        assert_eq!(case.to_string(), text);
        assert_eq!(case.file_name(), "defaults-17.txt");
        let wrong = |text: &str| text.parse::<Case>().err().unwrap().to_string();
        let line = wrong("configurations: all\nseed: 1\n\nwhat\n");
        assert!(line.contains("line 4"), "{line}");
        wrong("seed: 1\nreopen");
        wrong("configurations: none such\n");
    }
}
