//! Work that is the same for every engine: what a workload is, and how its keys and values are made.
//!
//! | module | has |
//! |---|---|
//! | [`profile`] | how much of everything `quick`, `standard` and `long` do |
//! | [`catalog`] | the workloads |
//! | [`keys`] | which key is next |
//! | [`values`] | sizes and bytes of values |
//! | [`live`] | which keys are there |
//!
//! A step is described by data alone, which the driver hands to the process that does it.

pub(crate) mod catalog;
pub(crate) mod keys;
pub(crate) mod live;
pub(crate) mod profile;
pub(crate) mod values;

use serde::{Deserialize, Serialize};

/// A database, and the steps it goes through.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Workload {
    pub(crate) name: String,
    pub(crate) about: String,
    /// Keys are numbered from 0 up to this; inserts go on from there.
    pub(crate) records: u64,
    /// Whether keys sort by their numbers, or as if drawn.
    pub(crate) key_order: KeyOrder,
    pub(crate) value_sizes: ValueSizes,
    pub(crate) steps: Vec<Step>,
}

/// How keys sort.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum KeyOrder {
    /// By their numbers.
    Numbered,
    /// By a hash of their numbers, as YCSB has it.
    Hashed,
}

/// How large values are. The size belongs to the key: every value of a key is as large.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ValueSizes {
    Fixed(u32),
    /// A generalised Pareto distribution, as measured of production stores: many small values, few
    /// large ones (Cao et al., FAST 2020).
    Pareto {
        mean: f64,
        shape: f64,
        max: u32,
    },
}

/// What all threads of a step do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Step {
    pub(crate) name: String,
    pub(crate) threads: u32,
    /// Operations and how often each is drawn, in proportion.
    pub(crate) mix: Vec<(Operation, u32)>,
    pub(crate) keys: Choice,
    pub(crate) amount: Amount,
    /// Operations a second of all threads together; none: as fast as they go.
    pub(crate) rate: Option<f64>,
    /// Puts a second of one more thread, of random keys; they are counted as written bytes only.
    pub(crate) writer_beside: Option<f64>,
    /// A snapshot is held from the start to the end.
    pub(crate) holds_snapshot: bool,
    /// The process is killed at the end, so that the next one has to recover.
    pub(crate) ends_killed: bool,
    /// Begins with an empty database.
    pub(crate) fresh: bool,
}

impl Step {
    /// What is drawn most often; of several, the first.
    pub(crate) fn main_operation(&self) -> Operation {
        let most = self.mix.iter().map(|(_, share)| share).max();
        let main = self.mix.iter().find(|(_, share)| Some(share) == most);
        main.map_or(Operation::Get, |(operation, _)| *operation)
    }

    /// Whether every engine that comes to the end of it has written the same: what is written, kept
    /// and on disk then can be compared.
    pub(crate) fn writes_the_same(&self) -> bool {
        let fixed = self.amount.operations.is_some() || self.rate.is_some();
        fixed || self.mix.iter().all(|(operation, _)| !operation.writes())
    }
}

/// One thing done to a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Operation {
    /// Puts the next new key.
    Insert,
    /// Puts a key that was chosen.
    Put,
    Get,
    /// Looks so many keys up in one call.
    MultiGet(u32),
    /// Seeks to a key and reads so many entries from there on.
    Scan(u32),
    /// The same, of a number of entries drawn from 1 up to this.
    ScanUpTo(u32),
    /// Reads the next entry of one scan over everything.
    ReadNext,
    ReadModifyWrite,
    Delete,
    /// Deletes the oldest keys so that at most so many are left, in one range.
    Expire(u64),
}

impl Operation {
    /// What it is called in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Operation::Insert => "insert",
            Operation::Put => "put",
            Operation::Get => "get",
            Operation::MultiGet(_) => "multi-get",
            Operation::Scan(_) | Operation::ScanUpTo(_) => "scan",
            Operation::ReadNext => "next",
            Operation::ReadModifyWrite => "read-modify-write",
            Operation::Delete => "delete",
            Operation::Expire(_) => "expire",
        }
    }

    pub(crate) fn writes(self) -> bool {
        use Operation::{Insert, Put, ReadModifyWrite};
        self.deletes() || matches!(self, Insert | Put | ReadModifyWrite)
    }

    pub(crate) fn deletes(self) -> bool {
        matches!(self, Operation::Delete | Operation::Expire(_))
    }
}

/// Which key comes next.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Choice {
    Uniform,
    /// A few are popular, wherever they sort.
    Zipf(f64),
    /// The newest are popular.
    Latest(f64),
}

/// When a step ends: by the first of both.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Amount {
    /// Of all threads together.
    pub(crate) operations: Option<u64>,
    pub(crate) seconds: f64,
}
