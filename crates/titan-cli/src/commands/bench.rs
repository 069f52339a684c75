//! `titan bench`: db_bench's workloads, with its definitions, and their cost in space and writes.
//!
//! `titan-workload` has keys, values and the threads that use them. `step` states a step in its
//! terms, and measures it; `report` prints; `verify` checks whether the entries of a database are
//! ones that these steps write.

mod args;
mod live;
mod memory;
mod opened;
mod report;
mod step;
mod verify;

use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use titan::{CompressionType, Db, Error, Options, Result};
use titan_workload::keys::Chooser;
use titan_workload::step::Choice;

use crate::config;
use crate::global::Global;
use crate::output::Out;

pub(crate) use args::Args;
use args::Benchmark;
use live::{KnownBy, Live, Open};
use opened::Opened;
use report::{Report, StepReport};

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

/// A run of all steps.
struct Bench<'a> {
    args: &'a Args,
    options: Options,
    seed: u64,
    open: Option<Open>,
}

impl Bench<'_> {
    fn step(&mut self, index: usize, benchmark: Benchmark) -> Result<StepReport> {
        let path = &self.args.db;
        let fresh = benchmark.fills() && !self.args.existing;
        if self.open.is_none() {
            match benchmark.writes() && !self.args.existing {
                true => opened::refuse_what_is_others(self.args, &self.options)?,
                false if self.args.mvcc => {}
                false => opened::refuse_records(self.args, &self.options)?,
            }
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
