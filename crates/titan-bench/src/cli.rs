//! The command line.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{self, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use anyhow::{Context, Result, bail};
use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand, value_parser};

use crate::catalogue::Suite;
use crate::compare;
use crate::engine;
use crate::features::{self, Extent};
use crate::ime;
use crate::measure::cgroup::MemoryCgroup;
use crate::measure::device;
use crate::program::Program;
use crate::report;
use crate::run::{self, Contender, Plan};
use crate::settings::{Compression, Durability, Settings};
use crate::work::catalog;
use crate::work::profile::Profile;
use crate::worker;
use crate::worker::job::WORKER;
use titan_workload::step::Workload;

/// Runs the same workloads on Titan and its peers, and reports which engine was better at what.
#[derive(Parser)]
#[command(
    version,
    after_help = "Example:\n  titan-bench quick --out /tmp/report\n  \
                  titan-bench standard --engines titan,rocksdb --workloads ycsb --out report\n  \
                  titan-bench compare before/report.json after/report.json"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Five minutes: checks that everything works.
    Quick(Options),
    /// An hour: data larger than memory, three rounds.
    Standard(Options),
    /// Most of a day: the same with more of everything.
    Long(Options),
    /// Minutes: compares transactions, merges, reads within a prefix, the commit hook and the store
    /// of versions with those of another engine, or with the same without them, call by call.
    #[command(
        after_help = "Examples:\n  titan-bench features --dir /tmp/features --only prefixes\n  \
                      titan-bench features --dir /tmp/features --only mvcc-scans --badger --divisor 10"
    )]
    Features {
        /// Directory for databases, which is emptied afterwards.
        #[arg(long, value_name = "DIR")]
        dir: PathBuf,
        /// Directory to write a report to, as the other suites do.
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
        /// Comparisons to run.
        #[arg(long, value_delimiter = ',', value_name = "NAMES", value_parser = names(Suite::Calls))]
        only: Option<Vec<String>>,
        /// Rounds of each side.
        #[arg(long, default_value_t = 5, value_parser = value_parser!(u32).range(1..))]
        rounds: u32,
        /// Divides the numbers of rows and calls, for a machine with less time or space.
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u32).range(1..))]
        divisor: u32,
        /// Compares the store of versions with Badger 4, too, which Go builds.
        #[arg(long)]
        badger: bool,
        /// Prints JSON.
        #[arg(long)]
        json: bool,
    },
    /// TPC-C over a store of versions with and without a range cache, and with as much more block
    /// cache: seven workloads at fixed rates. Fifty minutes; with --quick ten.
    #[command(after_help = "Example:\n  titan-bench ime --quick --only W1,W3 --out /tmp/ime")]
    Ime {
        /// Directory to write the report to.
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
        /// Directory for the stores; by default a subdirectory of --out. They are removed.
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
        /// The last minutes of each workload only: what was before is loaded.
        #[arg(long)]
        quick: bool,
        /// Workloads to run.
        #[arg(
            long,
            value_delimiter = ',',
            value_name = "NAMES",
            value_parser = names(Suite::RangeCache)
        )]
        only: Option<Vec<String>>,
    },
    /// Writes the pages and plots of recorded results beside them.
    #[command(after_help = "Example:\n  titan-bench report docs/results/tifs/*.toml")]
    Report {
        /// Results as TOML or JSON.
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Compares two reports: what became faster, smaller or neither.
    #[command(after_help = "Example:\n  titan-bench compare before/report.json after/report.json")]
    Compare {
        /// A report.json, or its directory.
        a: PathBuf,
        b: PathBuf,
        /// Prints JSON.
        #[arg(long)]
        json: bool,
    },
    /// Runs one step of a run; started by the driver.
    #[command(name = WORKER, hide = true)]
    Worker,
}

#[derive(Args)]
#[command(after_help = "Example:\n  titan-bench quick --engines titan,fjall --out /tmp/report")]
struct Options {
    /// Directory to write the report to.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,

    /// Directory for databases, which determines the device that is measured; by default a
    /// subdirectory of --out. They are removed at the end.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,

    /// Engines to run: titan, rocksdb, rocksdb-blob, fjall, lmdb, redb.
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    engines: Option<Vec<String>>,

    /// A program with db_bench's command line that takes part in the workload db_bench, with
    /// its own arguments: "NAME=PATH ARGUMENTS". Can be given more than once.
    #[arg(long, value_name = "NAME=PATH")]
    db_bench: Vec<String>,

    /// Workloads to run.
    #[arg(long, value_delimiter = ',', value_name = "NAMES", value_parser = names(Suite::Engines))]
    workloads: Option<Vec<String>>,

    /// Repetitions of everything.
    #[arg(long, value_parser = value_parser!(u32).range(1..))]
    rounds: Option<u32>,

    /// Guarantee of a write that has returned.
    #[arg(long, value_enum, default_value = "buffered")]
    durability: Durability,

    /// Compression of tables and blob files.
    #[arg(long, value_enum, default_value = "none")]
    compression: Compression,

    /// Memory of each process in MiB, page cache included; 0 for no limit.
    #[arg(long, value_name = "MIB")]
    memory: Option<u64>,

    /// Data that each workload loads, in MiB.
    #[arg(long, value_name = "MIB")]
    data: Option<u64>,

    /// Makes space equal: sets the bytes on disk per live byte in every engine that has such an
    /// option.
    #[arg(long, value_name = "RATIO")]
    space_amplification: Option<f64>,

    /// Values of at least this many bytes go to blob files, in engines that have them.
    #[arg(long, value_name = "BYTES", default_value_t = 4096)]
    blob_threshold: u64,

    /// Writes tables and blob files with direct I/O, in the engines that can.
    #[arg(long)]
    direct_io: bool,

    /// Threads that flush and compact.
    #[arg(long, default_value_t = 2, value_parser = value_parser!(u32).range(1..=256))]
    background_jobs: u32,

    /// Seed of keys and values; the same seed gives the same work.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Runs the command line.
pub(crate) fn run() -> Result<ExitCode> {
    match Cli::parse().command {
        Command::Quick(options) => measure(Profile::Quick, &options),
        Command::Standard(options) => measure(Profile::Standard, &options),
        Command::Long(options) => measure(Profile::Long, &options),
        Command::Compare { a, b, json } => {
            let compared = compare::compare(&report::read(&a)?, &report::read(&b)?);
            match json {
                true => println!("{}", serde_json::to_string_pretty(&compared)?),
                false => println!("{compared}"),
            }
            Ok(ExitCode::SUCCESS)
        }
        Command::Features {
            dir,
            out,
            only,
            rounds,
            divisor,
            badger,
            json,
        } => {
            let extent = Extent {
                rounds: rounds as usize,
                divisor: divisor as usize,
                badger,
            };
            let names = Suite::Calls.chosen(only);
            let interrupted = on_interruption()?;
            let session = features::run(&names, &dir, out.as_deref(), extent, interrupted)?;
            let (report, status) = session.end()?;
            match json {
                true => println!("{}", serde_json::to_string(&report)?),
                false => println!("{}", report::tables(&report)),
            }
            Ok(status)
        }
        Command::Ime {
            out,
            dir,
            quick,
            only,
        } => {
            let names = Suite::RangeCache.chosen(only);
            let dir = dir.unwrap_or_else(|| out.join("stores"));
            let session = ime::run(&names, quick, &dir, &out, on_interruption()?)?;
            Ok(session.end()?.1)
        }
        Command::Report { files } => {
            files
                .iter()
                .try_for_each(|file| report::write_pages(file))?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Worker => worker::run().map(|()| ExitCode::SUCCESS),
    }
}

/// Parses names of the catalogue, which the help lists.
fn names(suite: Suite) -> PossibleValuesParser {
    PossibleValuesParser::new(suite.names())
}

fn measure(profile: Profile, options: &Options) -> Result<ExitCode> {
    let plan = plan(profile, options)?;
    let session = run::run(&plan, &options.out, on_interruption()?)?;
    Ok(session.end()?.1)
}

/// Flag that is set when the user wants to end the run.
fn on_interruption() -> Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let set = interrupted.clone();
    ctrlc::set_handler(move || set.store(true, Relaxed)).context("handling interruptions")?;
    Ok(interrupted)
}

fn plan(profile: Profile, options: &Options) -> Result<Plan> {
    let mut scale = profile.scale();
    if let Some(mib) = options.data {
        if mib == 0 {
            bail!("--data 0: there is nothing to measure");
        }
        scale.data = mib << 20;
    }
    if let Some(mib) = options.memory {
        scale.memory = mib << 20;
    }
    if let Some(ratio) = options.space_amplification
        && !(1.1..=100.0).contains(&ratio)
    {
        bail!(
            "--space-amplification {ratio}: 1.1 to 100 bytes on disk per live byte can be asked for"
        );
    }
    let mut remarks = Vec::new();
    let names = |asked: &Option<Vec<String>>, default: &[&str]| {
        asked
            .clone()
            .unwrap_or_else(|| default.iter().map(|&name| name.to_owned()).collect())
    };
    let mut engines = names(&options.engines, scale.engines);
    if options.engines.is_none() {
        let missing = engines.extract_if(.., |name| engine::named(name).is_err());
        let missing: Vec<String> = missing.collect();
        if !missing.is_empty() {
            remarks.push(format!("Built without {}.", missing.join(", ")));
        }
    }
    let engines = engines.iter().map(|name| engine::named(name));
    let engines = engines.map(|engine| engine.map(Contender::Engine));
    let programs = options.db_bench.iter();
    let programs = programs.map(|text| Program::parse(text).map(Contender::Program));
    let contenders: Vec<Contender> = engines.chain(programs).collect::<Result<_>>()?;
    let mut names_seen = BTreeSet::new();
    for contender in &contenders {
        if !names_seen.insert(contender.name().to_owned()) {
            bail!("{} would take part twice", contender.name());
        }
    }
    let workloads = names(&options.workloads, scale.workloads);
    let workloads = workloads.iter().map(|name| catalog::workload(name, &scale));
    let workloads: Vec<Workload> = workloads.collect::<Result<_>>()?;
    let rounds = options
        .rounds
        .map_or(scale.rounds, |rounds| rounds as usize);
    if contenders.is_empty() || workloads.is_empty() {
        bail!("there is nothing to run: an engine and a workload are needed");
    }
    let memory_limit = (scale.memory > 0).then_some(scale.memory);
    let memory_limit = memory_limit.filter(|limit| {
        let limited = MemoryCgroup::new(&format!("titan-bench-{}", process::id()), *limit);
        permitted(&mut remarks, limited, "Memory is not limited")
    });
    let drop_caches = permitted(
        &mut remarks,
        device::may_drop_caches(),
        "The kernel's caches are not dropped, so that reads are served from memory and say little",
    );
    let (block_cache, write_buffer) = Settings::sized_for(scale.memory.max(256 << 20));
    Ok(Plan {
        profile: profile.name().to_owned(),
        contenders,
        workloads,
        rounds,
        settings: Settings {
            durability: options.durability,
            compression: options.compression,
            memory_limit,
            block_cache,
            write_buffer,
            background_jobs: options.background_jobs,
            blob_threshold: options.blob_threshold,
            space_amplification: options.space_amplification,
            direct_io: options.direct_io,
            data_exceeds_memory: memory_limit.is_some_and(|limit| scale.data > limit),
            drop_caches,
            seed: options.seed,
        },
        dir: options
            .dir
            .clone()
            .unwrap_or_else(|| options.out.clone())
            .join("databases"),
        ceiling_seconds: if profile == Profile::Quick { 2 } else { 5 },
        remarks,
    })
}

/// Whether this is possible here; if it is not, the report says so, and why.
fn permitted<T>(remarks: &mut Vec<String>, tried: Result<T>, otherwise: &str) -> bool {
    match tried {
        Ok(_) => true,
        Err(e) => {
            remarks.push(format!("{otherwise}: {e:#}."));
            false
        }
    }
}
