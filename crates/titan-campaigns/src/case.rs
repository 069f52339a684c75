//! A case: a list of operations, and the configurations it is for; as a file it becomes a test. A
//! failing list is reduced to one.
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
use std::fs;
use std::path::Path;
use std::str::FromStr;

use titan_testkit::failure::{CheckFailure, Checked, Doing};
use titan_testkit::ops::{Operation, Ops};

use crate::answers::Deviation;
use crate::pool::Task;
use crate::regression::smaller;

/// Attempts with a list that does not fail: the timing of background threads varies.
const ATTEMPTS: usize = 3;

/// A configuration that judges lists of operations.
pub trait Judge: 'static {
    /// The language of the lists.
    type Op: Operation;

    /// Its name.
    fn name(&self) -> &'static str;

    /// All configurations.
    fn all() -> Vec<&'static Self>;

    /// Performs a list, and checks each outcome.
    ///
    /// # Errors
    /// The first deviation.
    fn judge(&'static self, ops: &[Self::Op]) -> Result<(), Deviation>;
}

/// A list of operations for some configurations.
pub struct Case<J: Judge> {
    /// A description.
    pub about: String,
    /// The configurations it is for.
    pub configurations: Vec<&'static J>,
    /// The seed its operations were generated from.
    pub seed: u64,
    /// Its operations.
    pub ops: Ops<J::Op>,
}

impl<J: Judge> Case<J> {
    /// The file name it should have.
    pub fn file_name(&self) -> String {
        let first = self.configurations.first().map_or("none", |c| c.name());
        let word = |c: char| match c.is_ascii_alphanumeric() {
            true => c.to_ascii_lowercase(),
            false => '-',
        };
        let name: String = first.chars().map(word).collect();
        format!("{}-{}.txt", name.replace("--", "-"), self.seed)
    }

    /// Performs it under its configurations. Returns the number of its operations, once for each
    /// configuration.
    ///
    /// # Errors
    /// The first failure.
    pub fn replay(&self) -> Checked<u64> {
        let mut configurations = self.configurations.iter();
        configurations.try_for_each(|c| {
            c.judge(&self.ops.0).map_err(|d| {
                let Deviation { after, what } = d;
                CheckFailure::wrong(format!("{}: operation {after}: {what}", c.name()))
            })
        })?;
        Ok((self.ops.0.len() * self.configurations.len()) as u64)
    }

    /// The text of a failure, after the failing list was reduced to the smallest case found, for
    /// all configurations that fail it. Writes the case to a file of its own in the directory
    /// `kept`.
    pub(crate) fn report(
        configuration: &'static J,
        seed: u64,
        ops: &[J::Op],
        deviation: Deviation,
        kept: Option<&Path>,
        task: &Task,
    ) -> String {
        let Deviation { after, what } = &deviation;
        let first = format!(
            "{}, list {seed}, operation {after}: {what}",
            configuration.name()
        );
        let case = Case::reduced(configuration, seed, ops, deviation, task);
        let kept = kept.map_or(String::new(), |dir| case.keep(dir));
        format!("{first}\n{kept}{case}")
    }

    /// Writes it to its file, and returns a line with the path.
    fn keep(&self, dir: &Path) -> String {
        let path = dir.join(self.file_name());
        let written = fs::create_dir_all(dir).and_then(|()| fs::write(&path, self.to_string()));
        match written {
            Ok(()) => format!("kept as {}\n", path.display()),
            Err(e) => format!("cannot be kept as {}: {e}\n", path.display()),
        }
    }

    fn reduced(
        configuration: &'static J,
        seed: u64,
        ops: &[J::Op],
        deviation: Deviation,
        task: &Task,
    ) -> Self {
        let mut last = deviation.what;
        let mut fails = |ops: &[J::Op]| {
            (0..ATTEMPTS).any(|_| match configuration.judge(ops) {
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
        let mut configurations = vec![configuration];
        let others = J::all().into_iter();
        let others = others.filter(|c| c.name() != configuration.name());
        configurations.extend(others.filter(|c| c.judge(&ops).is_err()));
        Case {
            about: last.to_string(),
            configurations,
            seed,
            ops: Ops(ops),
        }
    }
}

/// Parses a case and performs it, as [`Case::replay`] does.
///
/// # Errors
/// The first failure, and those of parsing.
pub fn replay<J: Judge>(text: &str) -> Checked<u64> {
    text.parse::<Case<J>>()?.replay()
}

/// The configuration of this name.
fn named<J: Judge>(name: &str) -> Checked<&'static J> {
    let found = J::all().into_iter().find(|c| c.name() == name);
    found.ok_or_else(|| CheckFailure::wrong(format!("no configuration: {name}")))
}

/// Parses the output of `Display`. The error names the invalid line.
impl<J: Judge> FromStr for Case<J> {
    type Err = CheckFailure;

    fn from_str(text: &str) -> Checked<Self> {
        let mut case = Case {
            about: String::new(),
            configurations: Vec::new(),
            seed: 0,
            ops: Ops(Vec::new()),
        };
        let mut ops = String::new();
        for line in text.lines() {
            if let Some(about) = line.strip_prefix("# ") {
                case.about = format!("{}{about}\n", case.about);
            } else if let Some(names) = line.strip_prefix("configurations: ") {
                case.configurations = match names {
                    "all" => J::all(),
                    names => names.split("; ").map(named).collect::<Result<_, _>>()?,
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
        case.ops = ops.parse::<Ops<_>>().doing("reading the operations")?;
        match case.configurations.is_empty() {
            true => Err(CheckFailure::wrong(
                "a case says which configurations it is for",
            )),
            false => Ok(case),
        }
    }
}

impl<J: Judge> fmt::Display for Case<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = match self.configurations.len() == J::all().len() {
            true => vec!["all"],
            false => self.configurations.iter().map(|c| c.name()).collect(),
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
    use crate::metamorphic::configurations::Configuration;

    type Case = super::Case<Configuration>;

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
