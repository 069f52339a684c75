//! Workloads: a database of numbered keys, and steps of operations. It is data alone, so that a
//! program can pass it to another process and print it in a report.

use serde::{Deserialize, Serialize};

/// A database, and the steps run on it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Workload {
    /// Its name in reports.
    pub name: String,
    /// Explanation for the reader of a report.
    pub about: String,
    /// Keys are numbered from 0 up to this; inserts continue from there.
    pub records: u64,
    /// Whether keys sort by their numbers, or in random order.
    pub key_order: KeyOrder,
    /// The sizes of values.
    pub value_sizes: ValueSizes,
    /// In the order in which they run.
    pub steps: Vec<Step>,
}

/// The sort order of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyOrder {
    /// By their numbers.
    Numbered,
    /// By a hash of their numbers, as in YCSB.
    Hashed,
    /// By their numbers, in db_bench's form: 8 bytes, the most significant first, then eight '0'.
    DbBench,
}

/// The sizes of values. A key determines its size: all values of a key have the same.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ValueSizes {
    /// All have this many bytes.
    Fixed(u32),
    /// A generalised Pareto distribution, as measured in production stores: many small values, few
    /// large ones (Cao et al., FAST 2020).
    Pareto {
        /// The mean of the distribution.
        mean: f64,
        /// The larger it is, the more bytes are in large values; below 1.
        shape: f64,
        /// Larger ones have this size.
        max: u32,
    },
}

/// The operations of all threads of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Its name in reports.
    pub name: String,
    /// The threads that perform its operations.
    pub threads: u32,
    /// Operations with their relative frequencies.
    pub mix: Vec<(Operation, u32)>,
    /// Distribution of chosen keys.
    pub keys: Choice,
    /// When it ends.
    pub amount: Amount,
    /// Operations per second of all threads together; `None` for no limit.
    pub rate: Option<f64>,
    /// Puts per second of one more thread, with random keys; they count only as written bytes.
    pub writer_beside: Option<f64>,
    /// Whether a snapshot is held from the start to the end.
    pub holds_snapshot: bool,
    /// Whether the process is killed at the end, so that the next one must recover.
    pub ends_killed: bool,
    /// Whether it begins with an empty database.
    pub fresh: bool,
}

impl Step {
    /// The most frequent operation; of several, the first.
    pub fn main_operation(&self) -> Operation {
        let most = self.mix.iter().map(|(_, share)| share).max();
        let main = self.mix.iter().find(|(_, share)| Some(share) == most);
        main.map_or(Operation::Get, |(operation, _)| *operation)
    }

    /// Whether every engine that completes it has written the same: only then can the bytes
    /// written, live and on disk be compared.
    pub fn writes_the_same(&self) -> bool {
        let fixed = self.amount.operations.is_some() || self.rate.is_some();
        fixed || self.mix.iter().all(|(operation, _)| !operation.writes())
    }
}

/// One operation on a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Puts the next new key.
    Insert,
    /// Puts a chosen key.
    Put,
    /// Puts the next key of the thread's own sequence, which begins again after the last.
    PutInOrder,
    /// Looks up a chosen key.
    Get,
    /// Looks up this many keys in one call.
    MultiGet(u32),
    /// Seeks to a key and reads this many entries from there on.
    Scan(u32),
    /// The same, with a number of entries drawn from 1 up to this.
    ScanUpTo(u32),
    /// Seeks to a key, and reads this many entries from there on without checking them. The key is
    /// found if the seek stops at it.
    Seek(u64),
    /// Reads the next entry of one scan over everything.
    ReadNext,
    /// Looks up a chosen key, then puts it.
    ReadModifyWrite,
    /// Deletes a chosen key.
    Delete,
    /// Deletes the oldest keys in one range, so that at most this many are left.
    Expire(u64),
}

impl Operation {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Insert => "insert",
            Operation::Put | Operation::PutInOrder => "put",
            Operation::Get => "get",
            Operation::MultiGet(_) => "multi-get",
            Operation::Scan(_) | Operation::ScanUpTo(_) => "scan",
            Operation::Seek(_) => "seek",
            Operation::ReadNext => "next",
            Operation::ReadModifyWrite => "read-modify-write",
            Operation::Delete => "delete",
            Operation::Expire(_) => "expire",
        }
    }

    /// Whether it changes the database.
    pub fn writes(self) -> bool {
        use Operation::{Insert, Put, PutInOrder, ReadModifyWrite};
        self.deletes() || matches!(self, Insert | Put | PutInOrder | ReadModifyWrite)
    }

    /// Whether it removes keys.
    pub fn deletes(self) -> bool {
        matches!(self, Operation::Delete | Operation::Expire(_))
    }
}

/// The choice of the next key.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Choice {
    /// All keys alike.
    Uniform,
    /// A few are popular, independent of the sort order: a hash of the rank selects the key, as in
    /// YCSB, so that some keys have several ranks and others none.
    Zipf(f64),
    /// The same, but every key has one rank: popular keys are far apart.
    ZipfOfEach(f64),
    /// The newest are popular.
    Latest(f64),
}

/// A step ends at the first of the two limits.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Amount {
    /// For all threads together, unless
    /// [`Conventions::counts_per_thread`](crate::shared::Conventions::counts_per_thread).
    pub operations: Option<u64>,
    /// Since the threads began; infinite for no limit.
    pub seconds: f64,
}
