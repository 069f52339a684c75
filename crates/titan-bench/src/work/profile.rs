//! The amounts of work: `quick` shows that everything works, `standard` is for publishing, `long`
//! is for higher confidence.

use crate::catalogue::Suite;

/// Length of a run, and its amount of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profile {
    /// Five minutes: everything fits in memory, so that the figures say little about devices.
    Quick,
    /// An hour: the data is twice as large as memory, or as large as memory if everything is
    /// overwritten often.
    Standard,
    /// Most of a day.
    Long,
}

/// The amounts of a profile.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    /// Bytes of keys and values that a workload loads.
    pub(crate) data: u64,
    /// Memory of the whole process, page cache included.
    pub(crate) memory: u64,
    /// Duration of a step that only reads, or mixes reads and writes.
    pub(crate) seconds: f64,
    /// Time after which a step with a fixed amount of work is cut short.
    pub(crate) at_most: f64,
    pub(crate) rounds: usize,
    /// Number of times that churn overwrites all its keys.
    pub(crate) churns: u64,
    /// Workloads that run by default.
    pub(crate) workloads: &'static [&'static str],
    pub(crate) engines: &'static [&'static str],
}

impl Profile {
    pub(crate) fn scale(self) -> Scale {
        match self {
            Profile::Quick => Scale {
                data: 96 << 20,
                memory: 512 << 20,
                seconds: 1.2,
                at_most: 6.0,
                rounds: 1,
                churns: 5,
                workloads: &["db_bench", "ycsb", "churn"],
                engines: &["titan", "rocksdb", "rocksdb-blob", "fjall"],
            },
            Profile::Standard => Scale {
                data: 768 << 20,
                memory: 384 << 20,
                seconds: 3.0,
                at_most: 20.0,
                rounds: 3,
                churns: 5,
                workloads: Suite::Engines.names(),
                engines: &["titan", "rocksdb", "rocksdb-blob", "fjall", "lmdb"],
            },
            Profile::Long => Scale {
                data: 8 << 30,
                memory: 2 << 30,
                seconds: 60.0,
                at_most: 1200.0,
                rounds: 3,
                churns: 10,
                workloads: Suite::Engines.names(),
                engines: &["titan", "rocksdb", "rocksdb-blob", "fjall", "lmdb", "redb"],
            },
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Profile::Quick => "quick",
            Profile::Standard => "standard",
            Profile::Long => "long",
        }
    }
}
