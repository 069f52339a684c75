//! The arguments of `titan bench`, and its steps.

use std::path::PathBuf;

use clap::ValueEnum;

/// Run workloads as db_bench defines them
///
/// fillseq and fillrandom DESTROY the database and create it anew, unless --existing is given. If
/// the first or last key is not one that a step writes, the database holds other data: without
/// --existing, steps that write refuse it.
///
/// Keys have 16 bytes: the number in 8, the most significant first, then eight '0'. Random keys are
/// drawn uniformly, with replacement, out of --num. Counts are per thread. MB/s counts keys and
/// values in units of 1024 * 1024 bytes. write_amp is the bytes written to all files during the
/// step per byte of user data written. space_amp is the bytes of SST, blob and map files per live
/// byte; space_amp_max is the highest and space_amp_mean the mean of samples taken every 100 ms.
/// known_amp_mean counts, besides live data, only known garbage in blob files.
///
/// Unless --config says otherwise: write buffers of 64 MiB, a cache of 256 MiB, Bloom filters of 10
/// bits per key, no compression, 2 background jobs.
///
/// With --mvcc the database is a store of versions: see titan mvcc. Its steps are load, update, get
/// and scan; load DESTROYS the store. Each update adds a version to a row, so load followed by nine
/// updates leaves ten versions a row on average. A write is a transaction of --batch-size rows,
/// which is repeated if it conflicts. next counts steps of the engine's iterator, and processed the
/// rows that were found. The safe point is moved to ten minutes ago, also that of a store that
/// --existing keeps.
#[derive(clap::Args)]
#[command(override_usage = USAGE, after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Directory of a database that may be destroyed; created if it does not exist.
    pub(super) db: PathBuf,
    /// The database is a store of versions.
    #[arg(long, conflicts_with = "verify")]
    pub(super) mvcc: bool,
    /// The steps, in order, separated by commas.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "STEP,...",
        required_unless_present = "verify"
    )]
    pub(super) benchmarks: Vec<Benchmark>,
    /// Number of keys that random ones are drawn from; also the operations per thread where no
    /// other option sets them.
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) num: u64,
    /// Bytes of a value.
    #[arg(long, value_name = "BYTES", default_value_t = 100, value_parser = clap::value_parser!(u32).range(..=1 << 30))]
    pub(super) value_size: u32,
    /// Threads of each step; readwhilewriting has one more, which writes.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(super) threads: u16,
    /// Writes or deletions per thread. Default: --num.
    #[arg(long, value_name = "N")]
    pub(super) writes: Option<u64>,
    /// Reads or seeks per thread. Default: --num.
    #[arg(long, value_name = "N")]
    pub(super) reads: Option<u64>,
    /// Entries that each seek of seekrandom reads after the first, or rows that each scan reads.
    /// Default: 0, for scan 100.
    #[arg(long, value_name = "N")]
    pub(super) seek_nexts: Option<u64>,
    /// Entries written, or keys read, in one call. Default: 1, for multireadrandom 10.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) batch_size: Option<u64>,
    /// Draw random keys from a Zipf distribution with this exponent, for example 0.99, scattered
    /// over all keys; without it, uniformly.
    #[arg(long, value_name = "EXPONENT")]
    pub(super) zipf: Option<f64>,
    /// Start this many operations per second, all --threads together; latencies count from the time
    /// at which a call was due. The writer of readwhilewriting runs at the rate of one thread.
    /// Without it, each call starts when the previous one ends.
    #[arg(long, value_name = "OPS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) rate: Option<u64>,
    /// Hold a snapshot of the database from the start of each step to its end.
    #[arg(long)]
    pub(super) hold_snapshot: bool,
    /// Sync every write.
    #[arg(long)]
    pub(super) sync: bool,
    /// Run each step with random keys for this many seconds, not by counts; 0: run by counts.
    #[arg(long, value_name = "SECONDS")]
    pub(super) duration: Option<u64>,
    /// Keep the existing database; fail if there is none.
    #[arg(long)]
    pub(super) existing: bool,
    /// With --existing, assume that all --num keys exist instead of counting them by a scan before
    /// the first step that writes; space_amp is then too low if some are missing.
    #[arg(long, requires = "existing")]
    pub(super) no_scan: bool,
    /// After each step that writes, wait for its compactions before counting its bytes; the wait is
    /// reported separately.
    #[arg(long)]
    pub(super) wait_compactions: bool,
    /// Print the distribution of latencies too.
    #[arg(long)]
    pub(super) histogram: bool,
    /// Seed of the random keys. Default: the time.
    #[arg(long, value_name = "N")]
    pub(super) seed: Option<u64>,
    /// Instead of running steps, check that every entry is one that steps with this --num and
    /// --value-size write; the exit status is 1 at the first that is not.
    #[arg(long, alias = "check", conflicts_with = "benchmarks")]
    pub(super) verify: bool,
}

const USAGE: &str = "titan bench [OPTIONS] --benchmarks <STEP,...> <DB>
       titan bench [OPTIONS] --verify <DB>";

const EXAMPLES: &str = "Examples, one after the other; a measurement takes more than 5,000 entries:
  titan bench bench.db --benchmarks fillrandom,overwrite,readrandom --num 5000 --value-size 1024
  titan bench bench.db --benchmarks seekrandom --existing --num 5000 --value-size 1024 \\
      --seek-nexts 100 --threads 2 --reads 1000
  titan bench bench.db --verify --num 5000 --value-size 1024
  titan bench versions.db --mvcc --benchmarks load,update,update,get,scan --num 5000";

/// The steps, by db_bench's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "lower")]
pub(super) enum Benchmark {
    /// Write keys in order, into a new database.
    FillSeq,
    /// Write random keys into a new database.
    FillRandom,
    /// Write random keys into the existing database.
    Overwrite,
    /// Read random keys.
    ReadRandom,
    /// Read random keys, --batch-size in one call.
    MultiReadRandom,
    /// Seek to random keys and read --seek-nexts entries from there.
    SeekRandom,
    /// Read entries in order, from the first.
    ReadSeq,
    /// Delete random keys.
    DeleteRandom,
    /// Read random keys while one more thread writes random keys.
    ReadWhileWriting,
    /// With --mvcc: put every row once, in order, into a new store; all threads together.
    Load,
    /// With --mvcc: put random rows.
    Update,
    /// With --mvcc: read random rows.
    Get,
    /// With --mvcc: scan --seek-nexts rows from random ones on.
    Scan,
}

impl Benchmark {
    pub(super) fn name(self) -> &'static str {
        match self {
            Benchmark::FillSeq => "fillseq",
            Benchmark::FillRandom => "fillrandom",
            Benchmark::Overwrite => "overwrite",
            Benchmark::ReadRandom => "readrandom",
            Benchmark::MultiReadRandom => "multireadrandom",
            Benchmark::SeekRandom => "seekrandom",
            Benchmark::ReadSeq => "readseq",
            Benchmark::DeleteRandom => "deleterandom",
            Benchmark::ReadWhileWriting => "readwhilewriting",
            Benchmark::Load => "load",
            Benchmark::Update => "update",
            Benchmark::Get => "get",
            Benchmark::Scan => "scan",
        }
    }

    /// Whether the step starts from an empty database.
    pub(super) fn fills(self) -> bool {
        matches!(
            self,
            Benchmark::FillSeq | Benchmark::FillRandom | Benchmark::Load
        )
    }

    /// Whether it is a step of a store of versions.
    pub(super) fn is_versioned(self) -> bool {
        use Benchmark::{Get, Load, Scan, Update};
        matches!(self, Load | Update | Get | Scan)
    }

    /// Whether its operations look up keys, which may be missing.
    pub(super) fn looks_up(self) -> bool {
        matches!(
            self,
            Benchmark::ReadRandom
                | Benchmark::MultiReadRandom
                | Benchmark::SeekRandom
                | Benchmark::ReadWhileWriting
                | Benchmark::Get
        )
    }

    /// Whether it changes the database.
    pub(super) fn writes(self) -> bool {
        matches!(
            self,
            Benchmark::FillSeq
                | Benchmark::FillRandom
                | Benchmark::Overwrite
                | Benchmark::DeleteRandom
                | Benchmark::ReadWhileWriting
                | Benchmark::Load
                | Benchmark::Update
        )
    }
}
