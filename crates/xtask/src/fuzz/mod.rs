//! `cargo xtask fuzz`: builds the fuzz targets in `fuzz/` and runs them, several at once.
//!
//! libFuzzer is linked into each target, so cargo-fuzz is not needed. The targets have the layout
//! that cargo-fuzz expects, so it can run them too. What the fuzzer finds is written to
//! `target/fuzz`:
//!
//! | there | is |
//! |---|---|
//! | `corpus/TARGET` | inputs that reached something new, kept for the next run |
//! | `failures/TARGET-*` | inputs that failed |
//!
//! `fuzz/corpus` is only read. An input that failed should be added to it once its cause is fixed:
//! the decoders' tests run everything in it.

mod build;
mod libfuzzer;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Instant;

use clap::Args;
use titan_campaigns::Run;

use crate::campaign::Budget;
use build::Instrumentation;
use libfuzzer::Fuzzer;

/// The targets that run whole databases and nodes: they are so much slower that they get more of
/// the time.
const SLOW: [&str; 4] = ["calls", "directory", "operations", "placement"];
const SHARES_OF_SLOW: u32 = 5;
/// Number of runs of a decoder that count as one run of a slow target.
const RUNS_OF_SLOW: u64 = 50;

/// Feeds inputs that a fuzzer generates to decoders, damaged databases and lists of operations.
#[derive(Args)]
#[command(
    after_help = "Without --minutes and --runs each target runs its committed corpus, once.\n\
    \nExamples:\
    \n  cargo xtask fuzz --minutes 60 --runs 10000000\
    \n  cargo xtask fuzz --target version_edit --runs 10000000\
    \n  cargo xtask fuzz --target block --input target/fuzz/failures/block-crash-..."
)]
pub(crate) struct FuzzArgs {
    #[command(flatten)]
    budget: Budget,
    /// Only this target; may be repeated.
    #[arg(long, value_name = "T")]
    target: Vec<String>,
    /// Continue until each decoder has run N times, and whole databases and nodes a fiftieth of
    /// it; at most for the given time.
    #[arg(long, value_name = "N")]
    runs: Option<u64>,
    /// The number of processes at once; without it, the number of cores.
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Compile with the address sanitizer: needs a nightly toolchain, and is several times slower.
    #[arg(long)]
    asan: bool,
    /// Run this input, and print what happens.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["runs", "seeds"])]
    input: Option<PathBuf>,
    /// Write the committed corpus and the databases to be damaged again; fuzz nothing.
    #[arg(long)]
    seeds: bool,
}

impl FuzzArgs {
    fn jobs(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        self.jobs.unwrap_or_else(cores).max(1)
    }
}

pub(crate) fn main(args: &FuzzArgs) -> Result<ExitCode, String> {
    match prepare(args)? {
        Task::Done(status) => Ok(status),
        Task::Fuzz(fuzzers) => args.budget.run("fuzz", |run| fuzz(run, fuzzers, args)),
    }
}

enum Task {
    Done(ExitCode),
    Fuzz(Vec<Fuzzer>),
}

fn prepare(args: &FuzzArgs) -> Result<Task, String> {
    if args.seeds {
        return build::seeds().map(Task::Done);
    }
    let known = build::targets()?;
    if let Some(unknown) = args.target.iter().find(|name| !known.contains(name)) {
        let known = known.join(", ");
        return Err(format!("there is no target {unknown}; there are: {known}"));
    }
    let names = match args.target.is_empty() {
        true => known,
        false => args.target.clone(),
    };
    let binaries = Binaries::build(&names, args.asan)?;
    let fuzzer = |name: String| Fuzzer::new(binaries.of(&name), name, args.asan);
    if let Some(input) = &args.input {
        let [name] = &names[..] else {
            return Err("--input needs one --target".to_owned());
        };
        return fuzzer(name.clone()).replay(input).map(Task::Done);
    }
    // If there is one target, all processes run it; several take turns.
    let each = (args.jobs() / names.len()).max(1);
    let names = names
        .iter()
        .flat_map(|name| std::iter::repeat_n(name, each));
    Ok(Task::Fuzz(names.cloned().map(fuzzer).collect()))
}

/// Where the compiled targets are.
struct Binaries {
    decoders: PathBuf,
    slow: PathBuf,
}

impl Binaries {
    fn build(names: &[String], asan: bool) -> Result<Self, String> {
        let build = |slow: bool| {
            let names = names.iter().map(String::as_str);
            let names: Vec<_> = names.filter(|name| SLOW.contains(name) == slow).collect();
            let compares = !slow;
            match names.is_empty() {
                true => Ok(PathBuf::new()),
                false => build::fuzzers(&names, Instrumentation { compares, asan }),
            }
        };
        Ok(Binaries {
            decoders: build(false)?,
            slow: build(true)?,
        })
    }

    fn of(&self, name: &str) -> &Path {
        match SLOW.contains(&name) {
            true => &self.slow,
            false => &self.decoders,
        }
    }
}

fn shares(fuzzer: &Fuzzer) -> u32 {
    match SLOW.contains(&fuzzer.name()) {
        true => SHARES_OF_SLOW,
        false => 1,
    }
}

fn runs(fuzzer: &Fuzzer, of_decoders: Option<u64>) -> Option<u64> {
    match SLOW.contains(&fuzzer.name()) {
        true => of_decoders.map(|runs| runs / RUNS_OF_SLOW),
        false => of_decoders,
    }
}

/// Runs all fuzzers, several at a time, the long ones first.
fn fuzz(run: &Run, mut fuzzers: Vec<Fuzzer>, args: &FuzzArgs) {
    fuzzers.sort_by_key(shares);
    let jobs = args.jobs().min(fuzzers.len());
    let started = Instant::now();
    let waiting = Mutex::new(fuzzers);
    // The time that the previous fuzzers left is divided among the next one and those after it.
    let next = || {
        let mut waiting = waiting.lock().ok()?;
        let all: u32 = waiting.iter().map(shares).sum();
        let mut fuzzer = waiting.pop()?;
        let left = run
            .time()
            .map(|time| time.saturating_sub(started.elapsed()));
        let at_once = jobs.min(1 + waiting.len()) as u32;
        let time = left.map(|left| left * at_once * shares(&fuzzer) / all);
        let seed = run.seed().wrapping_add(waiting.len() as u64);
        fuzzer.limit(time.min(left), runs(&fuzzer, args.runs), seed);
        Some(fuzzer)
    };
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while let Some(fuzzer) = next().filter(|_| run.goes_on()) {
                    run.phase(fuzzer.name());
                    match fuzzer.run(run) {
                        Ok(summary) => run.note(summary),
                        Err(e) => run.fail(e),
                    }
                }
            });
        }
    });
}
