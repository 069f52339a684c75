//! `titan bench`: db_bench's workloads, with its definitions, and their cost in space and writes.
//!
//! `titan-workload` has keys, values and the threads that use them. `step` says what a step is in
//! its terms, and measures it; `report` prints; `verify` checks whether the entries of a database
//! are ones that these steps write.

mod memory;
mod opened;
mod report;
mod step;
mod verify;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::ValueEnum;
use serde::Serialize;
use titan::{CompressionType, Db, Error, Options, Result};
use titan_workload::keys::{self, Chooser, KEY_BYTES};
use titan_workload::live::LiveKeys;
use titan_workload::step::{Choice, KeyOrder, ValueSizes};

use crate::global::Global;
use crate::output::Out;
use crate::{config, progress};

use opened::Opened;
use report::{Report, StepReport};

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
    db: PathBuf,
    /// The database is a store of versions.
    #[arg(long, conflicts_with = "verify")]
    mvcc: bool,
    /// The steps, in order, separated by commas.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "STEP,...",
        required_unless_present = "verify"
    )]
    benchmarks: Vec<Benchmark>,
    /// Number of keys that random ones are drawn from; also the operations per thread where no
    /// other option sets them.
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    num: u64,
    /// Bytes of a value.
    #[arg(long, value_name = "BYTES", default_value_t = 100, value_parser = clap::value_parser!(u32).range(..=1 << 30))]
    value_size: u32,
    /// Threads of each step; readwhilewriting has one more, which writes.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: u16,
    /// Writes or deletions per thread. Default: --num.
    #[arg(long, value_name = "N")]
    writes: Option<u64>,
    /// Reads or seeks per thread. Default: --num.
    #[arg(long, value_name = "N")]
    reads: Option<u64>,
    /// Entries that each seek of seekrandom reads after the first, or rows that each scan reads.
    /// Default: 0, for scan 100.
    #[arg(long, value_name = "N")]
    seek_nexts: Option<u64>,
    /// Entries written, or keys read, in one call. Default: 1, for multireadrandom 10.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    batch_size: Option<u64>,
    /// Draw random keys from a Zipf distribution with this exponent, for example 0.99, scattered
    /// over all keys; without it, uniformly.
    #[arg(long, value_name = "EXPONENT")]
    zipf: Option<f64>,
    /// Start this many operations per second, all --threads together; latencies count from the time
    /// at which a call was due. The writer of readwhilewriting runs at the rate of one thread.
    /// Without it, each call starts when the previous one ends.
    #[arg(long, value_name = "OPS", value_parser = clap::value_parser!(u64).range(1..))]
    rate: Option<u64>,
    /// Hold a snapshot of the database from the start of each step to its end.
    #[arg(long)]
    hold_snapshot: bool,
    /// Sync every write.
    #[arg(long)]
    sync: bool,
    /// Run each step with random keys for this many seconds, whatever the counts say; 0: run by
    /// counts.
    #[arg(long, value_name = "SECONDS")]
    duration: Option<u64>,
    /// Keep the existing database; fail if there is none.
    #[arg(long)]
    existing: bool,
    /// With --existing, assume that all --num keys exist instead of counting them by a scan before
    /// the first step that writes; space_amp is then too low if some are missing.
    #[arg(long, requires = "existing")]
    no_scan: bool,
    /// After each step that writes, wait for its compactions before counting its bytes; the wait is
    /// reported separately.
    #[arg(long)]
    wait_compactions: bool,
    /// Print the distribution of latencies too.
    #[arg(long)]
    histogram: bool,
    /// Seed of the random keys. Default: the time.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Instead of running steps, check that every entry is one that steps with this --num and
    /// --value-size write; the exit status is 1 at the first that is not.
    #[arg(long, alias = "check", conflicts_with = "benchmarks")]
    verify: bool,
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
enum Benchmark {
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
    fn name(self) -> &'static str {
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
    fn fills(self) -> bool {
        matches!(
            self,
            Benchmark::FillSeq | Benchmark::FillRandom | Benchmark::Load
        )
    }

    /// Whether it is a step of a store of versions.
    fn is_versioned(self) -> bool {
        use Benchmark::{Get, Load, Scan, Update};
        matches!(self, Load | Update | Get | Scan)
    }

    /// Whether its operations look up keys, which may be missing.
    fn looks_up(self) -> bool {
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
    fn writes(self) -> bool {
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

pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    let mut options = config::options_over(global, &base())?;
    let is_other = |step: &&Benchmark| step.is_versioned() != args.mvcc;
    if let Some(other) = args.benchmarks.iter().find(is_other) {
        let name = other.name();
        return Err(Error::invalid_argument(match args.mvcc {
            true => format!("{name} is no step of --mvcc, which has load, update, get and scan"),
            false => format!("{name} is a step of --mvcc, which is not given"),
        }));
    }
    if let Some(exponent) = args.zipf {
        // Before anything is written.
        Chooser::new(Choice::Zipf(exponent), 1).map_err(|e| e.context("--zipf"))?;
    }
    if args.existing || args.verify {
        options.db.create_if_missing = false;
    }
    if args.verify {
        return verify::run(args, &options, global.json);
    }
    let time = || {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |t| t.as_nanos() as u64)
    };
    // JSON parsers differ in which integers they represent exactly; all handle 53 bits.
    let seed = args.seed.unwrap_or_else(|| time() & ((1 << 53) - 1));
    let mut bench = Bench {
        args,
        options,
        seed,
        open: None,
    };
    let mut steps = Vec::new();
    let mut out = Out::new();
    for (index, &benchmark) in args.benchmarks.iter().enumerate() {
        let step = bench.step(index, benchmark)?;
        if !global.json {
            report::print(&step, &mut out)?;
            out.flush()?;
        }
        steps.push(step);
    }
    if let Some(open) = bench.open {
        open.database.close()?;
    }
    if global.json {
        out.json(&Report::new(args, seed, steps))?;
        out.flush()?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The options where `--config` says nothing.
fn base() -> Options {
    let mut options = Options::default();
    options.db.block_cache_size = 256 << 20;
    options.db.max_background_jobs = 2;
    options.default.write_buffer_size = 64 << 20;
    options.default.bloom_bits_per_key = 10.0;
    options.default.compression = CompressionType::None;
    options.default.blob_compression_type = CompressionType::None;
    options
}

/// The database between steps.
struct Bench<'a> {
    args: &'a Args,
    options: Options,
    seed: u64,
    open: Option<Open>,
}

struct Open {
    database: Opened,
    /// `None` for an existing database, until a step needs it.
    live: Option<Live>,
}

/// The existing keys: the base of space amplification.
struct Live {
    keys: LiveKeys,
    known_by: KnownBy,
}

/// Way in which the initial keys of a database were determined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum KnownBy {
    /// There were none.
    Tracking,
    /// They were counted.
    Scan,
    /// All keys were assumed to exist.
    Assumption,
}

impl Live {
    /// For this database, whose keys are determined in this way.
    fn of(args: &Args, database: &Opened, known_by: KnownBy) -> Result<Self> {
        let keys = LiveKeys::none(args.num, ValueSizes::Fixed(args.value_size));
        match known_by {
            KnownBy::Tracking => {}
            KnownBy::Assumption => (0..args.num).for_each(|number| keys.add(number)),
            KnownBy::Scan => {
                let progress = progress::operations("counting keys", None);
                database.for_each_key(|key, stored| {
                    match number(key) {
                        Some(number) if number < args.num => keys.add(number),
                        _ => keys.add_foreign(key.len() as u64 + stored),
                    }
                    progress.inc(1);
                })?;
                progress.finish_and_clear();
            }
        }
        Ok(Live { keys, known_by })
    }
}

/// The number of a key, if a step can have written the key.
fn number(key: &[u8]) -> Option<u64> {
    keys::number(key, KeyOrder::DbBench)
}

impl Bench<'_> {
    fn step(&mut self, index: usize, benchmark: Benchmark) -> Result<StepReport> {
        let path = &self.args.db;
        let fresh = benchmark.fills() && !self.args.existing;
        if self.open.is_none() && benchmark.writes() && !self.args.existing {
            opened::refuse_what_is_others(self.args, &self.options)?;
        }
        let open = match self.open.take() {
            Some(open) if !fresh => open,
            open => {
                if let Some(open) = open {
                    open.database.close()?;
                }
                if fresh {
                    match Db::destroy(path, &self.options) {
                        Err(error) if !error.is_not_found() => return Err(error),
                        _ => {}
                    }
                }
                let database = Opened::open(self.args, &self.options)?;
                let live = fresh.then(|| Live::of(self.args, &database, KnownBy::Tracking));
                Open {
                    live: live.transpose()?,
                    database,
                }
            }
        };
        let open = self.open.insert(open);
        if benchmark.writes() && open.live.is_none() {
            let known_by = match self.args.no_scan {
                true => KnownBy::Assumption,
                false => KnownBy::Scan,
            };
            open.live = Some(Live::of(self.args, &open.database, known_by)?);
        }
        step::run(self.args, self.seed, index, benchmark, open)
    }
}
