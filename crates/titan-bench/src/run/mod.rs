//! The driver: runs every workload with every engine, in rounds, each step in its own process.
//!
//! Within a round, workloads follow each other, and all engines run a workload one after the other.
//! Every second round has the opposite order, so that drift of the machine affects all engines
//! alike.

mod conditions;
mod process;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};

use crate::engine::contract::Engine;
use crate::measure::device::{self, Mount};
use crate::measure::fio;
use crate::measured::{self, Measured};
use crate::program::Program;
use crate::results::AboutEngine;
use crate::session::Session;
use crate::settings::Settings;
use crate::units;
use crate::worker::job::Job;
use process::Surroundings;
use titan_workload::step::Workload;

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
    pub(crate) rounds: usize,
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
        parts.sum::<usize>() * self.rounds
    }
}

/// Runs the plan, and keeps the measurements in `out` after each workload of an engine. Failures
/// are in the report with their reasons; an interruption ends it early, with the measurements so
/// far.
pub(crate) fn run(plan: &Plan, out: &Path, interrupted: Arc<AtomicBool>) -> Result<Session> {
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
    let title = "Titan beside its peers";
    let mut session = Session::new(title, &plan.dir, Some(out), plan.steps(), interrupted);
    describe(plan, &mut session);
    let mount = device::mount_of(&plan.dir);
    if mount.as_ref().and_then(Mount::counts).is_none() {
        session.remark(
            "The kernel counts nothing for the device under the databases: bytes read and written \
             are those it counts for each process.",
        );
    }
    let (live, interrupted) = (Notes::new(), Arc::clone(&session.interrupted));
    let mut driver = Driver {
        plan,
        surroundings: Surroundings {
            // Not by its path, which may name another file by now.
            program: Path::new("/proc/self/exe"),
            mount: mount.as_ref(),
            memory_limit: plan.settings.memory_limit,
            drop_caches: plan.settings.drop_caches,
            interrupted: &interrupted,
        },
        live: &live.0,
        session: &mut session,
    };
    driver.rounds();
    // A directory that stays shows in the disk usage; the measurements matter more than that error.
    let _ = fs::remove_dir_all(&plan.dir);
    Ok(session)
}

/// The conditions, engines and workloads of the report.
fn describe(plan: &Plan, session: &mut Session) {
    session.condition("profile", &plan.profile);
    session.condition("rounds", plan.rounds.to_string());
    let report = &mut session.report;
    report
        .conditions
        .extend(conditions::settings(&plan.settings));
    for contender in &plan.contenders {
        report.engines.push(contender.name().to_owned());
        report.about_engines.push(contender.about(&plan.settings));
    }
    for workload in &plan.workloads {
        let about = format!("{} {}", workload.about, conditions::data(workload));
        report.about.push((workload.name.clone(), about));
        let steps = workload.steps.iter();
        report.about.extend(steps.map(|step| {
            let name = format!("{}: {}", workload.name, step.name);
            (name, conditions::work(step))
        }));
    }
    report.measures = measured::measures();
    for remark in &plan.remarks {
        session.remark(remark);
    }
}

struct Driver<'a> {
    plan: &'a Plan,
    surroundings: Surroundings<'a>,
    /// The file in which processes record the existing keys.
    live: &'a Path,
    session: &'a mut Session,
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

    /// Measures the device: a variant of its own of an entry of its own.
    fn ceilings(&mut self, round: usize) {
        if self.session.is_interrupted() {
            return;
        }
        self.session.progress.at("the rates of the device (fio)");
        match fio::ceilings(&self.plan.dir, self.plan.ceiling_seconds) {
            Ok(ceilings) => self
                .session
                .report
                .record("the device", "fio", round, Ok(ceilings)),
            Err(e) => {
                let remark = format!("The rates of the device were not measured: {e:#}.");
                self.session.remark(&remark);
            }
        }
    }

    fn workload(&mut self, round: usize, workload: &Workload, contender: &Contender) {
        let engine = contender.name();
        let dir = self.plan.dir.join(engine);
        // The failed step that left the database in a state that the next one does not expect.
        let mut broken = None::<String>;
        let mut all = Vec::new();
        for (at, step) in workload.steps.iter().enumerate() {
            if self.session.is_interrupted() {
                break;
            }
            if step.fresh {
                broken = None;
            }
            let name = format!("{}: {}", workload.name, step.name);
            self.session.progress.at(format!("{name}, {engine}"));
            let outcome = match &broken {
                Some(step) => Err(format!("the step {step:?} before it failed")),
                None => match self.step(round, workload, at, contender, &dir) {
                    Ok(measured) => Ok(measured),
                    Err(_) if self.session.is_interrupted() => break,
                    Err(e) => {
                        self.session
                            .progress
                            .warn(format!("{name}, {engine}: {e:#}"));
                        broken = Some(step.name.clone());
                        Err(format!("{e:#}"))
                    }
                },
            };
            let shown = match &outcome {
                Ok(measured) => format!("{}/s", units::number(measured.rate())),
                Err(_) => "failed".to_owned(),
            };
            if outcome
                .as_ref()
                .is_ok_and(|measured| !measured.device_counted)
            {
                let remark = format!(
                    "Bytes at the device of {engine} are those that the kernel counts for the process."
                );
                self.session.remark(&remark);
            }
            let figures = outcome.as_ref().map(|measured| measured.round(step));
            let figures = figures.map_err(Clone::clone);
            self.session.record(&name, engine, round, figures, &shown);
            all.extend(outcome);
        }
        if all.len() == workload.steps.len() {
            let name = format!("{}: all steps", workload.name);
            let together = measured::together(&all);
            self.session
                .report
                .record(&name, engine, round, Ok(together));
        }
        let _ = fs::remove_dir_all(&dir);
        self.session.keep();
    }

    fn step(
        &self,
        round: usize,
        workload: &Workload,
        at: usize,
        contender: &Contender,
        dir: &Path,
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
            seed: self.plan.settings.seed ^ ((round as u64) << 32 | (at as u64) << 16),
            cgroup: None,
        };
        let name = format!(
            "{}: {}, {}",
            workload.name,
            workload.steps[at].name,
            contender.name()
        );
        self.surroundings.run(job, &mut |operations, seconds| {
            let rate = units::number(operations as f64 / seconds);
            self.session.progress.at(format!("{name}: {rate}/s"));
        })
    }
}
