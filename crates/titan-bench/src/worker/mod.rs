//! The process that runs one step with one engine.
//!
//! It reads a [`Job`] from its standard input and writes [`Event`]s to its standard output, one
//! line of JSON each. A separate process for each step means that caches start empty, that the
//! memory limit of a cgroup applies only to this engine and this step, and that an engine that
//! crashes affects nothing else.

pub(crate) mod db_bench;
mod step;
mod usage;

use std::io::{Read, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use std::{fs, io, thread as threads};

use anyhow::{Context, Result};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use titan_workload::live::{LiveKeys, ROOM};
use titan_workload::run::Made;
use titan_workload::values::Contents;

use crate::engine;
use crate::results::WorkDone;
use crate::settings::{Compression, Settings};
use titan_workload::step::{Step, Workload};

use db_bench::Program;
pub(crate) use usage::Usage;

/// The job of one process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) engine: String,
    /// The program to run instead of an engine.
    pub(crate) program: Option<Program>,
    pub(crate) dir: PathBuf,
    /// The file in which the existing keys are recorded.
    pub(crate) live: PathBuf,
    pub(crate) settings: Settings,
    pub(crate) workload: Workload,
    /// The index of the step in the workload.
    pub(crate) step: usize,
    /// Whether everything recorded as written must exist.
    pub(crate) exact: bool,
    pub(crate) seed: u64,
    /// A file to which this process writes its number before it does anything else, to join the
    /// cgroup made for it.
    pub(crate) cgroup: Option<PathBuf>,
}

/// Events that the process reports while it works.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Event {
    Opened {
        seconds: f64,
    },
    /// Many times a second.
    Progress {
        operations: u64,
        live_bytes: u64,
    },
    /// Everything is done, and nothing is closed yet.
    Worked(Box<Worked>),
    Closed {
        seconds: f64,
        usage: Usage,
    },
}

/// The results, as seen from inside.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Worked {
    pub(crate) work: WorkDone,
    pub(crate) written_by_kind: Vec<(String, u64)>,
    pub(crate) usage: Usage,
    /// The maximum of [`Usage::memory`] in the samples.
    pub(crate) peak_memory: u64,
}

/// Runs the job on standard input.
pub(crate) fn run() -> Result<()> {
    let mut input = String::new();
    io::stdin().read_to_string(&mut input)?;
    let job: Job = serde_json::from_str(&input).context("reading the job from standard input")?;
    if job.program.is_none() {
        // If the driver is gone, this process must end. One that runs a program must end that
        // first.
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    }
    if let Some(file) = &job.cgroup {
        let joined = fs::write(file, std::process::id().to_string());
        joined.with_context(|| format!("joining the cgroup of {}", file.display()))?;
    }
    let step = job.workload.steps.get(job.step).context("no such step")?;
    if let Some(program) = &job.program {
        return db_bench::run(&job, step, program);
    }
    let (room, sizes) = (job.workload.records + ROOM, job.workload.value_sizes);
    let live = match step.fresh {
        true => LiveKeys::none(room, sizes),
        false => LiveKeys::load(&job.live, room, sizes)?,
    };
    let made = made(&job, step);
    let engine = engine::named(&job.engine)?;
    // This program's own usage is not the engine's.
    let before = Usage::of_this_process();
    let usage = || Usage::of_this_process().since(&before);
    let opening = Instant::now();
    let store = engine.open(&job.dir, &job.settings).context("opening")?;
    let seconds = opening.elapsed().as_secs_f64();
    tell(&Event::Opened { seconds })?;
    let (work, peak_memory) = step::run(&job, step, &*store, &live, made)?;
    let used = usage();
    let worked = Worked {
        work,
        written_by_kind: store.written(),
        usage: used,
        peak_memory: peak_memory.saturating_sub(before.memory).max(used.memory),
    };
    live.store(&job.live)?;
    tell(&Event::Worked(Box::new(worked)))?;
    if step.ends_killed {
        // The driver does that now.
        loop {
            threads::sleep(Duration::from_secs(60));
        }
    }
    let closing = Instant::now();
    store.close().context("closing")?;
    let seconds = closing.elapsed().as_secs_f64();
    let usage = usage();
    tell(&Event::Closed { seconds, usage })
}

/// The values of the step's threads.
fn made(job: &Job, step: &Step) -> Made {
    let contents = match job.settings.compression {
        Compression::None => Contents::Random,
        Compression::Lz4 | Compression::Zstd => Contents::Compressible,
    };
    let (sizes, beside) = (job.workload.value_sizes, step.writer_beside.is_some());
    Made::new(step, sizes, contents, job.seed, beside)
}

fn tell(event: &Event) -> Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, event)?;
    out.write_all(b"\n")?;
    Ok(out.flush()?)
}
