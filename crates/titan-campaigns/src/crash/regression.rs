//! A workload and the crashes that it is to survive, as text.
//!
//! ```text
//! # What this is about.
//! settings jobs=1 compression=none
//! crash 512 random:7
//! crash any all
//! put default k 1*100
//! ```
//!
//! The first `crash` is one of the workload; a second one is of what comes after it, recovery
//! and a few writes. As background threads do not keep time, a point is where to look first.

use std::fmt;
use std::str::FromStr;

use titan_testkit::ops::{Op, Ops};

use super::cut::Cut;
use crate::settings::Settings;
use crate::trouble::{Doing, Trouble};

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Regression {
    /// What the workload runs under.
    pub settings: Settings,
    /// One crash or two.
    pub cuts: Vec<Cut>,
    /// The workload.
    pub ops: Vec<Op>,
}

impl fmt::Display for Regression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "settings {}", self.settings)?;
        self.cuts.iter().try_for_each(|cut| writeln!(f, "{cut}"))?;
        self.ops.iter().try_for_each(|op| writeln!(f, "{op}"))
    }
}

impl FromStr for Regression {
    type Err = Trouble;

    fn from_str(text: &str) -> Result<Regression, Trouble> {
        let (mut settings, mut cuts) = (Settings::default(), Vec::new());
        let mut ops = String::new();
        for line in text.lines() {
            match line.split_once(' ') {
                Some(("settings", rest)) => settings = rest.parse()?,
                Some(("crash", _)) => cuts.push(line.parse()?),
                _ => {
                    ops += line;
                    ops += "\n";
                }
            }
        }
        if cuts.is_empty() || cuts.len() > 2 {
            return Err(Trouble::wrong("one crash or two are needed"));
        }
        Ok(Regression {
            settings,
            cuts,
            ops: Ops::parse(&ops).doing("reading the operations")?.0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_regression_survives_its_text() {
        let text = "\
settings jobs=3 compression=zstd min-blob=never wal-limit=0 levels=4 table=4096 unlogged
crash 512 random:77
crash any kill:5
sync put default k 1*100
reopen
";
        let regression: Regression = text.parse().unwrap();
        assert_eq!(regression.to_string(), text);
        let commented = format!("# why\n\n{text}");
        assert_eq!(commented.parse::<Regression>().unwrap(), regression);
        for wrong in ["put default k 1*1\n", "crash 1 some\n", "crash all\n"] {
            wrong.parse::<Regression>().unwrap_err();
        }
    }
}
