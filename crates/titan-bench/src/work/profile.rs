//! How much of everything: `quick` says that all works, `standard` is for publishing, `long` is
//! for those who doubt that.

/// How long a run takes, and how much it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profile {
    /// Five minutes: everything fits in memory, so that figures say little about devices.
    Quick,
    /// An hour: data is twice as large as memory, or as large where everything is overwritten often.
    Standard,
    /// Most of a day.
    Long,
}

/// What a profile stands for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    /// Bytes of keys and values that a workload loads.
    pub(crate) data: u64,
    /// Of the whole process, page cache included.
    pub(crate) memory: u64,
    /// Of a step that only reads, or mixes reads and writes.
    pub(crate) seconds: f64,
    /// After which a step that has so much to do is cut short.
    pub(crate) at_most: f64,
    pub(crate) rounds: u32,
    /// How often churn overwrites all it has.
    pub(crate) churns: u64,
    /// Workloads that run unless others are asked for.
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
                workloads: super::catalog::NAMES,
                engines: &["titan", "rocksdb", "rocksdb-blob", "fjall", "lmdb"],
            },
            Profile::Long => Scale {
                data: 8 << 30,
                memory: 2 << 30,
                seconds: 60.0,
                at_most: 1200.0,
                rounds: 3,
                churns: 10,
                workloads: super::catalog::NAMES,
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
