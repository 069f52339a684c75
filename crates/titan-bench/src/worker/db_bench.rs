//! Programs with the command line of RocksDB's `db_bench` in place of an engine: builds of RocksDB
//! itself, of Titan's C++ ancestor, of TerarkDB.
//!
//! They bring their own keys, values and clock. What is measured from outside is measured as for
//! every engine; operations, times and latencies are what the program reports, and how many keys
//! live is what is to be expected of so many random ones.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::{Event, Job, Usage, Worked, tell, usage};
use crate::pipe::Said;
use crate::results::{AboutEngine, Latency, WorkDone};
use crate::settings::{Compression, Durability, Settings};
use crate::work::keys::KEY_BYTES;
use crate::work::{Operation, Step, ValueSizes, Workload};

/// Steps that such programs have, by the same names.
const STEPS: &[&str] = &[
    "fillseq",
    "fillrandom",
    "overwrite",
    "readrandom",
    "multireadrandom",
    "seekrandom",
    "readseq",
    "readwhilewriting",
    "deleterandom",
];

/// A program, and the name under which it takes part.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Program {
    pub(crate) name: String,
    path: PathBuf,
    arguments: Vec<String>,
}

impl Program {
    /// From `NAME=PATH ARGUMENTS...`.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let parts = text.split_once('=').filter(|(name, _)| !name.is_empty());
        let (name, command) = parts.with_context(|| format!("{text:?} is not NAME=PATH"))?;
        let mut words = command.split_whitespace();
        let path = PathBuf::from(
            words
                .next()
                .with_context(|| format!("{text:?} has no path"))?,
        );
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if !name.chars().all(plain) || name.starts_with('.') {
            bail!("{name:?}: names have letters, digits, and . _ -, and begin with no dot");
        }
        if !path.is_file() {
            bail!("{} is no program", path.display());
        }
        Ok(Program {
            name: name.to_owned(),
            path,
            arguments: words.map(str::to_owned).collect(),
        })
    }

    pub(crate) fn about(&self, settings: &Settings) -> AboutEngine {
        let version = Command::new(&self.path).arg("--version").output();
        let version = version.map(|out| String::from_utf8_lossy(&out.stdout).trim().to_owned());
        let options = common(settings)
            .into_iter()
            .chain(self.arguments.iter().cloned());
        let options = options.map(|option| {
            let option = option.trim_start_matches('-').to_owned();
            match option.split_once('=') {
                Some((name, value)) => (name.to_owned(), value.to_owned()),
                None => (option, String::new()),
            }
        });
        AboutEngine {
            name: self.name.clone(),
            version: version.unwrap_or_default(),
            options: options.collect(),
            notes: vec![
                format!(
                    "driven through its own command line: {}",
                    self.path.display()
                ),
                "keys, values, times and latencies are its own; live bytes are estimated"
                    .to_owned(),
            ],
        }
    }

    /// What of a workload it can do; none if nothing.
    pub(crate) fn part_of(&self, workload: &Workload) -> Option<Workload> {
        let known = |step: &&Step| STEPS.contains(&step.name.as_str());
        let steps = workload.steps.iter().filter(known);
        let steps = steps.map(|step| Step {
            // It ends by itself, and closes its database.
            ends_killed: false,
            ..step.clone()
        });
        let part = Workload {
            steps: steps.collect(),
            ..workload.clone()
        };
        (workload.name == "db_bench").then_some(part)
    }
}

/// What every step is run with.
fn common(settings: &Settings) -> Vec<String> {
    let compression = match settings.compression {
        Compression::None => "none",
        Compression::Lz4 => "lz4",
        Compression::Zstd => "zstd",
    };
    let ratio = if settings.compression == Compression::None {
        1.0
    } else {
        0.5
    };
    vec![
        format!("--key_size={KEY_BYTES}"),
        format!("--write_buffer_size={}", settings.write_buffer),
        format!("--cache_size={}", settings.block_cache),
        format!("--max_background_jobs={}", settings.background_jobs),
        format!("--compression_type={compression}"),
        format!("--compression_ratio={ratio}"),
        format!("--sync={}", settings.durability == Durability::Synced),
        "--bloom_bits=10".to_owned(),
        "--level_compaction_dynamic_level_bytes=true".to_owned(),
        "--histogram=true".to_owned(),
    ]
}

/// What one step is run with.
fn arguments(job: &Job, step: &Step, value_size: u32) -> Vec<String> {
    let mut arguments = vec![
        format!("--benchmarks={}", step.name),
        format!("--db={}", job.dir.display()),
        format!("--use_existing_db={}", !step.fresh),
        format!("--num={}", job.workload.records),
        format!("--value_size={value_size}"),
        format!("--threads={}", step.threads),
        format!("--seed={}", job.seed % (1 << 31) + 1),
    ];
    match step.amount.operations {
        Some(operations) => {
            // Each benchmark takes one of them for its own.
            arguments.push(format!("--writes={operations}"));
            arguments.push(format!("--deletes={operations}"));
        }
        None => arguments.push(format!("--duration={}", step.amount.seconds.ceil())),
    }
    for (operation, _) in &step.mix {
        match operation {
            Operation::Scan(nexts) => arguments.push(format!("--seek_nexts={nexts}")),
            Operation::MultiGet(keys) => {
                arguments.push(format!("--batch_size={keys}"));
                arguments.push("--multiread_batched=true".to_owned());
            }
            _ => {}
        }
    }
    if let Some(puts) = step.writer_beside {
        let bytes = puts * f64::from(value_size + KEY_BYTES as u32);
        arguments.push(format!("--benchmark_write_rate_limit={bytes:.0}"));
    }
    arguments
}

/// Does the job with the program.
pub(super) fn run(job: &Job, step: &Step, program: &Program) -> Result<()> {
    let ValueSizes::Fixed(value_size) = job.workload.value_sizes else {
        bail!("db_bench has values of one size");
    };
    let live = match step.fresh {
        true => 0.0,
        false => fs::read_to_string(&job.live)
            .context("reading the count of keys")?
            .trim()
            .parse()
            .context("reading the count of keys")?,
    };
    // What it takes to open is part of its time and told by nobody.
    tell(&Event::Opened { seconds: 0.0 })?;
    let mut child = Command::new(&program.path)
        .args(common(&job.settings))
        .args(arguments(job, step, value_size))
        .args(&program.arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("starting {}", program.path.display()))?;
    let (output, errors) = (
        child.stdout.take().map(Said::through),
        child.stderr.take().map(Said::through),
    );
    let (status, peak_memory) = watch(&mut child, live * f64::from(value_size))?;
    let all = |said: Option<Said>| said.map(Said::all).unwrap_or_default();
    let (output, errors) = (all(output), all(errors));
    if !status.success() {
        let last = errors.lines().last().unwrap_or_default();
        bail!("{} ended with {status}: {last}", program.path.display());
    }
    let mut work =
        parse(&output, step).with_context(|| format!("reading what it says of {}", step.name))?;
    let live = expected(live, job.workload.records, step, work.operations);
    fs::write(&job.live, live.to_string()).context("noting the count of keys")?;
    let entry = (KEY_BYTES as u64) + u64::from(value_size);
    work.live_entries = live as u64;
    work.live_bytes = work.live_entries * entry;
    let puts = |operation| matches!(operation, Operation::Insert | Operation::Put);
    let writes = step.mix.iter().any(|(operation, _)| puts(*operation));
    work.bytes_written = match step.writer_beside {
        Some(puts) => (puts * work.seconds) as u64 * entry,
        None if writes => work.operations * entry,
        None => 0,
    };
    let usage = Usage::of_this_process();
    tell(&Event::Worked(Box::new(Worked {
        work,
        written_by_kind: Vec::new(),
        usage,
        peak_memory,
    })))?;
    tell(&Event::Closed {
        seconds: 0.0,
        usage,
    })
}

/// Tells of progress until the child has ended; gives the most memory that it was seen to have.
fn watch(child: &mut Child, live_bytes: f64) -> Result<(ExitStatus, u64)> {
    let mut peak = 0;
    loop {
        if let Some(status) = child.try_wait().context("waiting for db_bench")? {
            return Ok((status, peak));
        }
        let memory = usage::own_memory(&child.id().to_string());
        peak = peak.max(memory.unwrap_or(0));
        tell(&Event::Progress {
            operations: 0,
            live_bytes: live_bytes as u64,
        })?;
        thread::sleep(Duration::from_millis(50));
    }
}

/// Keys that are there after so many operations on random ones.
fn expected(before: f64, records: u64, step: &Step, operations: u64) -> f64 {
    let all = records as f64;
    let untouched = (-(operations as f64) / all).exp();
    match step.mix.first() {
        Some((Operation::Insert, _)) => all.min(operations as f64),
        Some((Operation::Put, _)) => all - (all - before) * untouched,
        Some((Operation::Delete, _)) => before * untouched,
        _ => before,
    }
}

/// The line of a benchmark, and the percentiles below it.
fn parse(text: &str, step: &Step) -> Result<WorkDone> {
    // Progress ends with carriage returns, or with nothing at all.
    let lines: Vec<&str> = text.split(['\n', '\r']).collect();
    let is_headline = |line: &&str| {
        let behind = line.split_once(&step.name);
        behind.is_some_and(|(_, rest)| rest.trim_start().starts_with(':'))
    };
    let at = lines.iter().rposition(is_headline);
    let at = at.context("there is no line of results")?;
    let (_, headline) = lines[at]
        .rsplit_once(" : ")
        .context("the line of results has no colon")?;
    let words: Vec<&str> = headline.split_whitespace().collect();
    let before = |unit: &str| -> Option<f64> {
        let at = words
            .iter()
            .position(|word| word.trim_end_matches(';') == unit)?;
        words.get(at.checked_sub(1)?)?.parse().ok()
    };
    let rate = before("ops/sec").context("there is no rate")?;
    // Older versions say neither how long it took nor how much was done.
    let micros = before("micros/op").context("there is no time of an operation")?;
    let seconds = before("seconds").unwrap_or(step.amount.seconds);
    let operations = before("operations").unwrap_or(rate * seconds) as u64;
    // `(found of tried found)`, of one of the threads.
    let share = headline.split_once('(').and_then(|(_, rest)| {
        let mut words = rest.split_whitespace();
        let found: f64 = words.next()?.parse().ok()?;
        let tried: f64 = words.nth(1)?.parse().ok()?;
        (tried > 0.0).then(|| found / tried)
    });
    let below = lines[at..]
        .iter()
        .find(|line| line.starts_with("Percentiles:"));
    let percentile = |name: &str| -> Result<f64> {
        let figure = below.and_then(|line| line.split_once(name));
        let word = figure.and_then(|(_, rest)| rest.split_whitespace().next());
        let value = word.and_then(|word| word.parse().ok());
        value.with_context(|| format!("there is no {}", name.trim_end_matches(": ")))
    };
    let (p50, p99) = (percentile("P50: ")?, percentile("P99: ")?);
    let (p999, p9999) = (percentile("P99.9: ")?, percentile("P99.99: ")?);
    let max = lines[at..]
        .iter()
        .find_map(|line| line.split_once(" Max: "));
    let max = max
        .and_then(|(_, max)| max.trim().parse().ok())
        .unwrap_or(p9999);
    let operation = step
        .mix
        .first()
        .map_or("", |(operation, _)| operation.name());
    Ok(WorkDone {
        operations,
        seconds,
        looked_up: share.map_or(0, |_| operations),
        found: share.map_or(0, |share| (share * operations as f64) as u64),
        latencies: vec![Latency {
            operation: operation.to_owned(),
            count: operations,
            mean: micros,
            p50,
            // It says P75 and P99.
            p90: p99,
            p99,
            p999,
            p9999,
            max,
            curve: vec![
                (50.0, p50),
                (99.0, p99),
                (99.9, p999),
                (99.99, p9999),
                (100.0, max),
            ],
            ..Latency::default()
        }],
        ..WorkDone::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::work::catalog;
    use crate::work::profile::Profile;

    const OUTPUT: &str = "... finished 1000 ops\rDB path: [/tmp/db]\n\
        readrandom   :      12.202 micros/op 162431 ops/sec 1.010 seconds 163998 operations;   \
        99.2 MB/s (50553 of 79999 found)\n\nMicroseconds per read:\n\
        Count: 163998 Average: 12.2416  StdDev: 163.67\nMin: 1  Median: 3.9509  Max: 8906\n\
        Percentiles: P50: 3.95 P75: 6.98 P99: 14.94 P99.9: 3318.20 P99.99: 6197.73\n";

    fn step(name: &str) -> Step {
        let workload = catalog::workload("db_bench", &Profile::Quick.scale()).unwrap();
        workload
            .steps
            .into_iter()
            .find(|step| step.name == name)
            .unwrap()
    }

    #[test]
    fn what_db_bench_prints_is_read() {
        let work = parse(OUTPUT, &step("readrandom")).unwrap();
        assert_eq!((work.operations, work.found), (163_998, 103_633));
        assert_eq!(work.seconds, 1.01);
        let latency = &work.latencies[0];
        assert_eq!(
            (latency.p50, latency.p99, latency.max),
            (3.95, 14.94, 8906.0)
        );
        assert_eq!((latency.p999, latency.p9999), (3318.2, 6197.73));
        assert!(parse(OUTPUT, &step("readseq")).is_err());
        assert!(parse("readseq : nothing", &step("readseq")).is_err());
    }

    #[test]
    fn as_many_keys_live_as_are_to_be_expected() {
        assert_eq!(expected(0.0, 1000, &step("fillseq"), 1000), 1000.0);
        let filled = expected(0.0, 1000, &step("fillrandom"), 1000);
        assert!((filled - 632.1).abs() < 0.1, "{filled}");
        let again = expected(filled, 1000, &step("overwrite"), 1000);
        assert!((again - 864.7).abs() < 0.1, "{again}");
        let left = expected(again, 1000, &step("deleterandom"), 500);
        assert!((left - 524.5).abs() < 0.1, "{left}");
        assert_eq!(expected(left, 1000, &step("readrandom"), 500), left);
    }

    #[test]
    fn a_program_takes_part_in_what_it_knows() {
        let program = Program::parse("name=/bin/sh --use_titan=true -x").unwrap();
        assert_eq!(program.arguments, ["--use_titan=true", "-x"]);
        let scale = Profile::Quick.scale();
        let all = catalog::workload("db_bench", &scale).unwrap();
        let part = program.part_of(&all).unwrap();
        assert_eq!(
            part.steps.len() + 1,
            all.steps.len(),
            "all but the step at a rate"
        );
        assert!(part.steps.iter().all(|step| !step.ends_killed));
        let ycsb = catalog::workload("ycsb", &scale).unwrap();
        assert!(program.part_of(&ycsb).is_none());
        for wrong in [
            "",
            "name",
            "../x=/bin/sh",
            "/x=/bin/sh",
            "=/bin/sh",
            "name=",
            "name=/nonexistent",
        ] {
            assert!(Program::parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
