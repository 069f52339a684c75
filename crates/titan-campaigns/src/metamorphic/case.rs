//! A case: a list of operations, and the configurations that it is for; as a file it stays a test.
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
//! `configurations: all` means all. The seed only says where the case comes from.

use std::fmt;
use std::time::{Duration, Instant};

use titan_testkit::ops::{Op, Ops, reduce};

use super::configurations::{CONFIGURATIONS, Configuration, named};
use super::executor::replay;
use crate::history::{Deviation, expected};

/// How long a failing list is made smaller.
const REDUCING: Duration = Duration::from_secs(120);
/// How often a list is tried that does not fail: what background threads do differs.
const ATTEMPTS: usize = 3;

/// A list of operations for some configurations.
pub struct Case {
    /// What it is about.
    pub about: String,
    /// The configurations it is for.
    pub configurations: Vec<&'static Configuration>,
    /// Where its operations come from.
    pub seed: u64,
    /// Its operations.
    pub ops: Ops,
}

impl Case {
    /// Reads what `Display` wrote.
    ///
    /// # Errors
    /// Says which line makes no sense.
    pub fn parse(text: &str) -> Result<Case, String> {
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
                case.seed = seed.parse().map_err(|_| format!("no seed: {seed}"))?;
            } else {
                ops.push_str(line);
            }
            // What is not an operation counts as a line too.
            ops.push('\n');
        }
        case.ops = Ops::parse(&ops).map_err(|e| e.to_string())?;
        match case.configurations.is_empty() {
            true => Err("a case says which configurations it is for".to_owned()),
            false => Ok(case),
        }
    }

    /// The file name it should have.
    pub fn file_name(&self) -> String {
        let first = self.configurations.first().map_or("none", |c| c.name);
        let word = |c: char| match c.is_ascii_alphanumeric() {
            true => c.to_ascii_lowercase(),
            false => '-',
        };
        let name: String = first.chars().map(word).collect();
        format!("{}-{}.ops", name.replace("--", "-"), self.seed)
    }

    /// Performs it under its configurations; the first thing that is wrong.
    pub(super) fn replay(&self) -> Result<(), String> {
        let expected = expected(&self.ops.0);
        let mut configurations = self.configurations.iter();
        configurations.try_for_each(|c| {
            let replayed = replay(c, &self.ops.0, &expected);
            replayed.map_err(|d| format!("{}: operation {}: {}", c.name, d.after, d.what))
        })
    }

    /// The smallest case found from a list that failed, for all configurations that fail it.
    pub(super) fn reduced(
        configuration: &'static Configuration,
        seed: u64,
        ops: &[Op],
        deviation: Deviation,
    ) -> Case {
        let until = Instant::now() + REDUCING;
        let mut last = deviation.what;
        let mut fails = |ops: &[Op]| {
            let expected = expected(ops);
            (0..ATTEMPTS).any(|_| {
                let in_time = Instant::now() < until;
                let failed = in_time.then(|| replay(configuration, ops, &expected).err());
                failed.flatten().map(|found| last = found.what).is_some()
            })
        };
        let until_there = ops.get(..=deviation.after).unwrap_or(ops);
        let start = match fails(until_there) {
            true => until_there,
            // What comes after it mattered, or it comes and goes.
            false => ops,
        };
        let ops = reduce(start.to_vec(), fails);
        let expected = expected(&ops);
        let mut configurations = vec![configuration];
        let others = CONFIGURATIONS
            .iter()
            .filter(|c| c.name != configuration.name);
        configurations.extend(others.filter(|c| replay(c, &ops, &expected).is_err()));
        Case {
            about: last,
            configurations,
            seed,
            ops: Ops(ops),
        }
    }
}

fn find(name: &str) -> Result<&'static Configuration, String> {
    named(name).ok_or_else(|| format!("no configuration: {name}"))
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
        let case = Case::parse(text).unwrap();
        assert_eq!(case.to_string(), text);
        assert_eq!(case.file_name(), "defaults-17.ops");
        let wrong = Case::parse("configurations: all\nseed: 1\n\nwhat\n")
            .err()
            .unwrap();
        assert!(wrong.contains("line 4"), "{wrong}");
        assert!(Case::parse("seed: 1\nreopen").is_err());
        assert!(Case::parse("configurations: none such\n").is_err());
    }
}
