//! Runs one step in its own process, and watches it from outside.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal};

use crate::measure::cgroup::MemoryCgroup;
use crate::measure::device::{self, DeviceCounts, Mount};
use crate::measure::disk;
use crate::measured::{Measured, SpaceSample};
use crate::pipe::Said;
use crate::worker::job::{Event, Job, WORKER, Worked};
use crate::worker::usage::Usage;

/// The interval between samples of space.
const SAMPLE_EVERY: Duration = Duration::from_millis(100);
/// Time that a process may take beyond the time of its step, which does not bound recovery and
/// closing. After that it is taken to hang.
const PATIENCE: Duration = Duration::from_secs(900);

/// The environment of a step.
pub(super) struct Surroundings<'a> {
    /// This program.
    pub(super) program: &'a Path,
    pub(super) mount: Option<&'a Mount>,
    pub(super) memory_limit: Option<u64>,
    pub(super) drop_caches: bool,
    /// Set when the user wants to end the run.
    pub(super) interrupted: &'a AtomicBool,
}

/// Receives the progress of a step, to draw it.
pub(super) type OnProgress<'a> = &'a mut dyn FnMut(u64, f64);

impl Surroundings<'_> {
    /// Runs the job, and adds up its cost.
    pub(super) fn run(&self, mut job: Job, progress: OnProgress<'_>) -> Result<Measured> {
        let name = format!("titan-bench-{}", std::process::id());
        let cgroup = self
            .memory_limit
            .map(|limit| MemoryCgroup::new(&name, limit))
            .transpose()?;
        job.cgroup = cgroup.as_ref().map(MemoryCgroup::members);
        device::sync();
        if self.drop_caches {
            device::drop_caches()?;
            // This also dropped this program's own code from the cache, which affects some engines
            // more than others.
            let program = File::open(self.program);
            let read = program.and_then(|mut file| io::copy(&mut file, &mut io::sink()));
            read.context("reading this program")?;
        }
        let before = self.mount.and_then(Mount::counts);
        let mut running = Running::start(self.program, &job)?;
        let told = running.watch(&job, self.interrupted, progress);
        let told = match told {
            Ok(told) => told,
            Err(e) => {
                let (status, errors) = running.end()?;
                if self.interrupted.load(Relaxed) {
                    bail!("interrupted");
                }
                let killed = cgroup.as_ref().is_some_and(MemoryCgroup::has_killed);
                let reason = reason(
                    status,
                    &errors,
                    killed.then_some(self.memory_limit).flatten(),
                );
                return Err(e.context(reason));
            }
        };
        running.end()?;
        let syncing = Instant::now();
        device::sync();
        let sync_seconds = syncing.elapsed().as_secs_f64();
        let counts = before.zip(self.mount.and_then(Mount::counts));
        Ok(told.measured(&job, counts, sync_seconds))
    }
}

/// Why a process ended prematurely.
fn reason(status: ExitStatus, errors: &str, limit: Option<u64>) -> String {
    let last = errors.trim();
    match (limit, status.signal()) {
        (Some(limit), _) => {
            let limit = humansize::format_size(limit, humansize::BINARY);
            format!("it needed more than the {limit} of memory that it may have")
        }
        (None, Some(signal)) => format!("killed by signal {signal}: {last}"),
        (None, None) => last.to_owned(),
    }
}

/// Ensures that no process outlives the driver.
struct Running {
    child: Child,
    waited: bool,
    events: Receiver<Result<Event>>,
    errors: Option<Said>,
}

/// The events of a process, and the samples taken.
struct Told {
    opened: f64,
    worked: Worked,
    closed: Option<(f64, Usage)>,
    space: Vec<SpaceSample>,
}

impl Running {
    fn start(program: &Path, job: &Job) -> Result<Self> {
        let mut child = Command::new(program)
            .arg(WORKER)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .with_context(|| format!("starting {}", program.display()))?;
        let (input, output, errors) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (sender, events) = mpsc::channel();
        // From here on the process does not outlive this function, however it ends.
        let mut running = Running {
            child,
            waited: false,
            events,
            errors: None,
        };
        let (Some(mut input), Some(output), Some(errors)) = (input, output, errors) else {
            bail!("a process without pipes");
        };
        running.errors = Some(Said::through(errors));
        thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                let event = line.map_err(anyhow::Error::from);
                let event = event.and_then(|line| {
                    serde_json::from_str(&line).with_context(|| format!("reading {line:?}"))
                });
                if sender.send(event).is_err() {
                    break;
                }
            }
        });
        let job = serde_json::to_vec(job)?;
        input.write_all(&job).context("handing over the job")?;
        Ok(running)
    }

    /// Receives the events of the process until the last, sampling the disk in the meantime.
    fn watch(
        &mut self,
        job: &Job,
        interrupted: &AtomicBool,
        progress: OnProgress<'_>,
    ) -> Result<Told> {
        let step = &job.workload.steps[job.step];
        let patience = PATIENCE + Duration::from_secs_f64(step.amount.seconds);
        let started = Instant::now();
        let sampler = Sampler::start(job.dir.clone());
        let (mut opened, mut worked) = (None, None);
        let closed = loop {
            if interrupted.load(Relaxed) {
                bail!("interrupted");
            }
            if started.elapsed() > patience {
                bail!("not done after {} seconds", patience.as_secs());
            }
            let event = match self.events.recv_timeout(Duration::from_millis(200)) {
                Ok(event) => event?,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => bail!("the process ended early"),
            };
            match event {
                Event::Opened { seconds } => opened = Some(seconds),
                Event::Progress {
                    operations,
                    live_bytes,
                } => {
                    sampler.live.store(live_bytes, Relaxed);
                    progress(operations, started.elapsed().as_secs_f64());
                }
                Event::Worked(all) => {
                    sampler.live.store(all.work.live_bytes, Relaxed);
                    worked = Some(*all);
                    if step.ends_killed {
                        break None;
                    }
                }
                Event::Closed { seconds, usage } => break Some((seconds, usage)),
            }
        };
        let (Some(opened), Some(worked)) = (opened, worked) else {
            bail!("the process reported no results");
        };
        Ok(Told {
            opened,
            worked,
            closed,
            space: sampler.finish(),
        })
    }

    /// Ends the process in any state; returns its standard error.
    fn end(mut self) -> Result<(ExitStatus, String)> {
        let status = self.kill().context("waiting for the process")?;
        let errors = self.errors.take().map(Said::all);
        Ok((status, errors.unwrap_or_default()))
    }

    fn kill(&mut self) -> io::Result<ExitStatus> {
        // With all its children. After it was waited for, its number may belong to another process.
        if !self.waited
            && let Some(group) = Pid::from_raw(self.child.id() as i32)
        {
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
        }
        self.waited = true;
        self.child.wait()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

/// Samples a directory at equal intervals.
struct Sampler {
    live: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<SpaceSample>>>,
}

impl Sampler {
    fn start(dir: PathBuf) -> Self {
        let live = Arc::new(AtomicU64::new(0));
        let stop = Arc::new(AtomicBool::new(false));
        let (of, until) = (live.clone(), stop.clone());
        let thread = thread::spawn(move || {
            let started = Instant::now();
            let mut samples = Vec::new();
            while !until.load(Relaxed) {
                samples.push(SpaceSample {
                    seconds: started.elapsed().as_secs_f64(),
                    disk: disk::total(&dir),
                    live: of.load(Relaxed),
                });
                thread::sleep(SAMPLE_EVERY);
            }
            samples
        });
        Sampler {
            live,
            stop,
            thread: Some(thread),
        }
    }

    fn finish(mut self) -> Vec<SpaceSample> {
        self.stop.store(true, Relaxed);
        let thread = self.thread.take();
        thread
            .and_then(|thread| thread.join().ok())
            .unwrap_or_default()
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
    }
}

impl Told {
    fn measured(
        self,
        job: &Job,
        counts: Option<(DeviceCounts, DeviceCounts)>,
        sync_seconds: f64,
    ) -> Measured {
        let usage = self.closed.map_or(self.worked.usage, |(_, usage)| usage);
        let device = counts.map(|(before, after)| {
            (
                after.read.saturating_sub(before.read),
                after.written.saturating_sub(before.written),
            )
        });
        let (device_read, device_written) = device.unwrap_or((usage.read, usage.written));
        let kinds: BTreeMap<String, u64> = disk::by_kind(&job.dir);
        let disk = kinds.values().sum();
        let peak = self
            .space
            .iter()
            .map(|sample| sample.disk)
            .max()
            .unwrap_or(0);
        Measured {
            cpu_seconds: usage.cpu_seconds,
            device_read,
            device_written,
            device_counted: device.is_some(),
            written_by_kind: self.worked.written_by_kind,
            disk_by_kind: kinds.into_iter().collect(),
            // Live bytes are unknown before the first tick.
            space: self
                .space
                .into_iter()
                .filter(|sample| sample.live > 0)
                .collect(),
            peak_disk: peak.max(disk),
            disk,
            peak_memory: self.worked.peak_memory.max(usage.memory),
            open_seconds: self.opened,
            close_seconds: self.closed.map(|(seconds, _)| seconds),
            sync_seconds,
            work: self.worked.work,
        }
    }
}
