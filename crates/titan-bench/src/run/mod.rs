//! The driver: runs every workload with every engine, in rounds, each step in its own process.
//!
//! Within a round, workloads follow each other, and all engines run a workload one after the other.
//! Every second round has the opposite order, so that drift of the machine affects all engines
//! alike.

mod process;
pub(crate) mod progress;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};

use crate::engine::Engine;
use crate::measure::device::{self, Mount};
use crate::measure::{fio, machine};
use crate::report::units;
use crate::results::{AboutEngine, Measured, Outcome, Report, SCHEMA, StepRun};
use crate::settings::Settings;
use crate::worker::Job;
use crate::worker::db_bench::Program;
use process::Surroundings;
use progress::Progress;
use titan_workload::step::Workload;

/// The subcommand of this program that runs a [`Job`]. Not for users.
pub(crate) const WORKER: &str = "worker";

/// A participant.
pub(crate) enum Contender {
    Engine(Box<dyn Engine>),
    Program(Program),
}

impl Contender {
    pub(crate) fn name(&self) -> &str {
        match self {
            Contender::Engine(engine) => engine.name(),
            Contender::Program(program) => &program.name,
        }
    }

    fn about(&self, settings: &Settings) -> AboutEngine {
        match self {
            Contender::Engine(engine) => engine.about(settings),
            Contender::Program(program) => program.about(settings),
        }
    }

    /// The part of a workload that it can run.
    fn part_of(&self, workload: &Workload) -> Option<Workload> {
        match self {
            Contender::Engine(_) => Some(workload.clone()),
            Contender::Program(program) => program.part_of(workload),
        }
    }

    fn survives_kill(&self, settings: &Settings) -> bool {
        match self {
            Contender::Engine(engine) => engine.survives_kill(settings),
            Contender::Program(_) => true,
        }
    }

    fn program(&self) -> Option<&Program> {
        match self {
            Contender::Engine(_) => None,
            Contender::Program(program) => Some(program),
        }
    }
}

/// The plan of a run.
pub(crate) struct Plan {
    pub(crate) profile: String,
    pub(crate) contenders: Vec<Contender>,
    pub(crate) workloads: Vec<Workload>,
    pub(crate) rounds: u32,
    pub(crate) settings: Settings,
    /// The directory for databases. It is removed at the end.
    pub(crate) dir: PathBuf,
    /// Seconds of each of `fio`'s measurements before each round.
    pub(crate) ceiling_seconds: u32,
    /// Remarks for the reader of the report, as far as known before the run.
    pub(crate) remarks: Vec<String>,
}

impl Plan {
    /// The number of steps of all participants in all rounds.
    fn steps(&self) -> usize {
        let parts = self.contenders.iter().flat_map(|contender| {
            let parts = self.workloads.iter().map(|all| contender.part_of(all));
            parts.flatten().map(|part| part.steps.len())
        });
        parts.sum::<usize>() * self.rounds as usize
    }
}

/// Saves a report of a run that has not ended.
pub(crate) type Keep<'a> = &'a dyn Fn(&Report) -> Result<()>;

/// Runs the plan, and saves the measurements after each workload of an engine. Failures are in the
/// report with their reasons; an interruption ends it early, with the measurements so far.
pub(crate) fn run(plan: Plan, interrupted: &AtomicBool, keep: Keep<'_>) -> Result<Report> {
    if let Some(parent) = plan.dir.parent() {
        fs::create_dir_all(parent).with_context(|| format!("making {}", parent.display()))?;
    }
    // It is removed at the end, so it must not exist before.
    fs::create_dir(&plan.dir).with_context(|| {
        format!(
            "making {}, which may remain from a run that was killed",
            plan.dir.display()
        )
    })?;
    let live = Notes::new();
    let began = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    // Not by its path, which may name another file by now.
    let program = Path::new("/proc/self/exe");
    let mount = device::mount_of(&plan.dir);
    let mut report = Report {
        schema: SCHEMA,
        profile: plan.profile.clone(),
        began: began.as_secs(),
        seconds: 0.0,
        machine: machine::describe(&plan.dir),
        settings: plan.settings.clone(),
        engines: plan
            .contenders
            .iter()
            .map(|e| e.name().to_owned())
            .collect(),
        about_engines: plan
            .contenders
            .iter()
            .map(|e| e.about(&plan.settings))
            .collect(),
        workloads: plan.workloads.clone(),
        rounds: plan.rounds,
        ceilings: Vec::new(),
        runs: Vec::new(),
        remarks: plan.remarks.clone(),
    };
    if mount.as_ref().and_then(Mount::counts).is_none() {
        report.remarks.push(
            "The kernel counts nothing for the device under the databases: bytes read and written \
             are those it counts for each process."
                .to_owned(),
        );
    }
    let mut driver = Driver {
        plan: &plan,
        surroundings: Surroundings {
            program,
            mount: mount.as_ref(),
            memory_limit: plan.settings.memory_limit,
            drop_caches: plan.settings.drop_caches,
            interrupted,
        },
        progress: Progress::of(plan.steps()),
        live: &live.0,
        started: Instant::now(),
        keep,
        report: &mut report,
    };
    for remark in &plan.remarks {
        driver.progress.warn(remark);
    }
    driver.rounds();
    driver.progress.finish();
    if interrupted.load(Relaxed) {
        report
            .remarks
            .push("Interrupted: not everything was run.".to_owned());
    }
    // A directory that stays shows in the disk usage; the measurements matter more than that error.
    let _ = fs::remove_dir_all(&plan.dir);
    Ok(report)
}

struct Driver<'a> {
    plan: &'a Plan,
    surroundings: Surroundings<'a>,
    progress: Progress,
    /// The file in which processes record the existing keys.
    live: &'a Path,
    started: Instant,
    keep: Keep<'a>,
    report: &'a mut Report,
}

/// A file in memory if possible, so that it does not count as activity of the device; removed at
/// the end.
struct Notes(PathBuf);

impl Notes {
    fn new() -> Self {
        let memory = PathBuf::from("/dev/shm");
        let dir = if memory.is_dir() {
            memory
        } else {
            std::env::temp_dir()
        };
        Notes(dir.join(format!("titan-bench-{}.live", std::process::id())))
    }
}

impl Drop for Notes {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

impl Driver<'_> {
    fn is_interrupted(&self) -> bool {
        self.surroundings.interrupted.load(Relaxed)
    }

    fn rounds(&mut self) {
        let plan = self.plan;
        for round in 1..=plan.rounds {
            self.ceilings(round);
            for workload in &plan.workloads {
                let mut contenders: Vec<_> = plan.contenders.iter().collect();
                if round % 2 == 0 {
                    contenders.reverse();
                }
                for contender in contenders {
                    if let Some(part) = contender.part_of(workload) {
                        self.workload(round, &part, contender);
                    }
                }
            }
        }
    }

    fn ceilings(&mut self, round: u32) {
        if self.is_interrupted() {
            return;
        }
        self.progress.at("what the device gives (fio)");
        match fio::ceilings(&self.plan.dir, round, self.plan.ceiling_seconds) {
            Ok(ceilings) => self.report.ceilings.push(ceilings),
            Err(e) => {
                let remark = format!("What the device can give was not measured: {e:#}.");
                if !self.report.remarks.contains(&remark) {
                    self.progress.warn(&remark);
                    self.report.remarks.push(remark);
                }
            }
        }
    }

    fn workload(&mut self, round: u32, workload: &Workload, contender: &Contender) {
        let engine = contender.name();
        let dir = self.plan.dir.join(engine);
        // Why the database is not in the state that the next step expects; and whether it must
        // recover.
        let (mut broken, mut killed) = (None::<String>, false);
        for (at, step) in workload.steps.iter().enumerate() {
            if self.is_interrupted() {
                break;
            }
            if step.fresh {
                (broken, killed) = (None, false);
            }
            let name = step_name(workload, at, contender);
            self.progress.at(&name);
            let outcome = match &broken {
                Some(step) => Outcome::Failed(format!("the step {step:?} before it failed")),
                None => match self.step(round, workload, at, contender, &dir, killed) {
                    Ok(measured) => Outcome::Measured(Box::new(measured)),
                    Err(_) if self.is_interrupted() => break,
                    Err(e) => {
                        self.progress.warn(format!("{name}: {e:#}"));
                        broken = Some(step.name.clone());
                        Outcome::Failed(format!("{e:#}"))
                    }
                },
            };
            match &outcome {
                Outcome::Measured(measured) => {
                    let rate = units::number(measured.rate());
                    self.progress.ended(&name, format!("{rate}/s"));
                }
                Outcome::Failed(_) => self.progress.ended(&name, "failed"),
            }
            killed = step.ends_killed;
            self.report.runs.push(StepRun {
                round,
                engine: engine.to_owned(),
                workload: workload.name.clone(),
                step: step.name.clone(),
                outcome,
            });
        }
        let _ = fs::remove_dir_all(&dir);
        self.report.seconds = self.started.elapsed().as_secs_f64();
        if let Err(e) = (self.keep)(self.report) {
            self.progress.warn(format!("keeping the report: {e:#}"));
        }
    }

    fn step(
        &self,
        round: u32,
        workload: &Workload,
        at: usize,
        contender: &Contender,
        dir: &Path,
        recovers: bool,
    ) -> Result<Measured> {
        if workload.steps[at].fresh && dir.exists() {
            fs::remove_dir_all(dir).with_context(|| format!("emptying {}", dir.display()))?;
        }
        fs::create_dir_all(dir).with_context(|| format!("making {}", dir.display()))?;
        let job = Job {
            engine: contender.name().to_owned(),
            program: contender.program().cloned(),
            dir: dir.to_owned(),
            live: self.live.to_owned(),
            settings: self.plan.settings.clone(),
            workload: workload.clone(),
            step: at,
            exact: contender.survives_kill(&self.plan.settings)
                || !workload.steps[..at].iter().any(|step| step.ends_killed),
            // The same for every engine, different for each step and round.
            seed: self.plan.settings.seed ^ (u64::from(round) << 32 | (at as u64) << 16),
            cgroup: None,
        };
        let name = step_name(workload, at, contender);
        self.surroundings
            .run(job, recovers, &mut |operations, seconds| {
                let rate = units::number(operations as f64 / seconds);
                self.progress.at(format!("{name}: {rate}/s"));
            })
    }
}

/// The name of a step in messages.
fn step_name(workload: &Workload, at: usize, contender: &Contender) -> String {
    let (step, engine) = (&workload.steps[at].name, contender.name());
    format!("{} / {step}, {engine}", workload.name)
}
