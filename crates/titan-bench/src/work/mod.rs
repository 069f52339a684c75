//! Work that is the same for every engine: workloads, and their keys and values.
//!
//! | module | has |
//! |---|---|
//! | [`profile`] | the amounts of `quick`, `standard` and `long` |
//! | [`catalog`] | the workloads |
//! | [`keys`] | the choice of the next key |
//! | [`values`] | sizes and bytes of values |
//! | [`live`] | the existing keys |
//!
//! A step is described by data alone, which the driver passes to the process that runs it.

pub(crate) mod catalog;
pub(crate) mod keys;
pub(crate) mod live;
pub(crate) mod profile;
pub(crate) mod values;

use serde::{Deserialize, Serialize};

/// A database, and the steps run on it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Workload {
    pub(crate) name: String,
    pub(crate) about: String,
    /// Keys are numbered from 0 up to this; inserts continue from there.
    pub(crate) records: u64,
    /// Whether keys sort by their numbers, or in random order.
    pub(crate) key_order: KeyOrder,
    pub(crate) value_sizes: ValueSizes,
    pub(crate) steps: Vec<Step>,
}

/// The sort order of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum KeyOrder {
    /// By their numbers.
    Numbered,
    /// By a hash of their numbers, as in YCSB.
    Hashed,
}

/// The sizes of values. A key determines its size: all values of a key have the same.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ValueSizes {
    Fixed(u32),
    /// A generalised Pareto distribution, as measured in production stores: many small values, few
    /// large ones (Cao et al., FAST 2020).
    Pareto {
        mean: f64,
        shape: f64,
        max: u32,
    },
}

/// The operations of all threads of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Step {
    pub(crate) name: String,
    pub(crate) threads: u32,
    /// Operations with their relative frequencies.
    pub(crate) mix: Vec<(Operation, u32)>,
    pub(crate) keys: Choice,
    pub(crate) amount: Amount,
    /// Operations per second of all threads together; `None` for no limit.
    pub(crate) rate: Option<f64>,
    /// Puts per second of one more thread, with random keys; they count only as written bytes.
    pub(crate) writer_beside: Option<f64>,
    /// Whether a snapshot is held from the start to the end.
    pub(crate) holds_snapshot: bool,
    /// Whether the process is killed at the end, so that the next one must recover.
    pub(crate) ends_killed: bool,
    /// Whether it begins with an empty database.
    pub(crate) fresh: bool,
}

impl Step {
    /// The most frequent operation; of several, the first.
    pub(crate) fn main_operation(&self) -> Operation {
        let most = self.mix.iter().map(|(_, share)| share).max();
        let main = self.mix.iter().find(|(_, share)| Some(share) == most);
        main.map_or(Operation::Get, |(operation, _)| *operation)
    }

    /// Whether every engine that completes it has written the same: only then can the bytes
    /// written, live and on disk be compared.
    pub(crate) fn writes_the_same(&self) -> bool {
        let fixed = self.amount.operations.is_some() || self.rate.is_some();
        fixed || self.mix.iter().all(|(operation, _)| !operation.writes())
    }
}

/// One operation on a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Operation {
    /// Puts the next new key.
    Insert,
    /// Puts a chosen key.
    Put,
    Get,
    /// Looks up this many keys in one call.
    MultiGet(u32),
    /// Seeks to a key and reads this many entries from there on.
    Scan(u32),
    /// The same, with a number of entries drawn from 1 up to this.
    ScanUpTo(u32),
    /// Reads the next entry of one scan over everything.
    ReadNext,
    ReadModifyWrite,
    Delete,
    /// Deletes the oldest keys in one range, so that at most this many are left.
    Expire(u64),
}

impl Operation {
    /// Its name in reports.
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

/// The choice of the next key.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Choice {
    Uniform,
    /// A few are popular, independent of the sort order.
    Zipf(f64),
    /// The newest are popular.
    Latest(f64),
}

/// A step ends at whichever of the two limits comes first.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Amount {
    /// For all threads together.
    pub(crate) operations: Option<u64>,
    pub(crate) seconds: f64,
}
