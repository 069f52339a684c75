//! The process that runs one step with one engine.
//!
//! It reads a [`Job`](job::Job) from its standard input and writes [`Event`]s to its standard
//! output, one line of JSON each. A separate process for each step means that caches start empty,
//! that the memory limit of a cgroup applies only to this engine and this step, and that an engine
//! that crashes affects nothing else.

mod db_bench;
pub(crate) mod job;
mod step;
pub(crate) mod usage;

use std::io::Read;
use std::time::{Duration, Instant};
use std::{fs, io, thread as threads};

use anyhow::{Context, Result};
use rustix::process::Signal;
use titan_workload::live::{LiveKeys, ROOM};

use crate::engine;
use job::{Event, Job, Worked, tell};
use usage::Usage;

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
    let made = step::made(&job, step);
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
