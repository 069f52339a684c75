//! The catalogue: the names of all workloads, by suite.

use anyhow::{Error, anyhow};

/// Workloads that are compared in one way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Suite {
    /// Whole engines, each step in a process of its own.
    Engines,
    /// Calls that only Titan and some peer have, in one process.
    Calls,
    /// A store of versions with and without a range cache.
    RangeCache,
}

impl Suite {
    /// The names, in the order in which they run.
    pub(crate) const fn names(self) -> &'static [&'static str] {
        match self {
            Suite::Engines => &[
                "db_bench",
                "ycsb",
                "pareto",
                "timeseries",
                "large",
                "snapshot",
                "churn",
            ],
            Suite::Calls => &[
                "transactions",
                "counters",
                "prefixes",
                "hook",
                "mvcc-points",
                "mvcc-commits",
                "mvcc-scans",
            ],
            Suite::RangeCache => &["W1", "W2", "W3", "W4", "W5", "W6", "W7"],
        }
    }

    /// The names that were asked for, or all.
    pub(crate) fn chosen(self, asked: Option<Vec<String>>) -> Vec<String> {
        let all = || self.names().iter().map(|&name| name.to_owned()).collect();
        asked.unwrap_or_else(all)
    }

    /// The error about a name that is none of them.
    pub(crate) fn unknown(self, name: &str) -> Error {
        let names = self.names().join(", ");
        anyhow!("no workload is called {name}; there are {names}")
    }
}
