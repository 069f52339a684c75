//! Makes every operation of the file system fail, once or permanently, one run each. With any
//! result of a call, acknowledged writes are there, reads are right, the error states the failure,
//! nothing hangs, and `resume` or reopening heals the database.
//!
//! | module | owns |
//! |---|---|
//! | `plan` | a fault and its healing as data and as text |
//! | `round` | one workload with one fault |

mod plan;
mod round;

use std::sync::Arc;

use titan_testkit::failure::{CheckFailure, Checked, Doing};
use titan_testkit::mix;
use titan_testkit::ops::Op;
use titan_testkit::sim::{OpKind, SimVfs};

use crate::pool::{Task, catch, run_all};
use crate::regression::{Regression, smaller_in_time};
use crate::run::Run;
use crate::store::{DIR, Store};
use crate::workloads::{self, Workload};

pub use plan::{Failing, Heal, Plan, Way};

/// Distance from its number within which a fault is tried again, because the timing of threads
/// varies.
const NEAR: u64 = 8;
/// Number of limits on the disk's size and on open files that are tried.
const LIMITS: u64 = 40;

/// The extent of a campaign.
#[derive(Clone, Copy, Debug)]
pub struct Scope {
    /// One fault in this many of the brief script and of random workloads.
    pub faults: u64,
    /// Of the scripts that `crash` uses, one fault in this many; `None` omits them.
    pub scripts: Option<u64>,
    /// Random workloads in a round, besides the scripts.
    pub random: u64,
    /// Operations of a random workload.
    pub ops: usize,
}

impl Scope {
    /// Every fault in every workload, except for the long ones: of these another part each round.
    pub const WHOLE: Scope = Scope {
        faults: 1,
        scripts: Some(100),
        random: 5,
        ops: 60,
    };

    /// A small part, for tests.
    pub const SAMPLE: Scope = Scope {
        faults: 4,
        scripts: None,
        random: 1,
        ops: 40,
    };
}

/// Makes every operation of scripted and random workloads fail. Counts as passed each fault that
/// struck and was survived.
pub fn faults(run: &Run, scope: Scope) {
    let jobs = run.seeds(1).flat_map(|seed| {
        run.phase(format!("faults, round {seed}"));
        let random = (0..scope.random).map(move |n| workloads::random(mix(seed, n), scope.ops));
        let whole = workloads::brief().into_iter().chain(random);
        let whole = whole.map(move |workload| (workload, scope.faults));
        let long = scope.scripts.into_iter().flat_map(|one_in| {
            let scripts = workloads::scripts().into_iter();
            scripts.map(move |workload| (workload, one_in))
        });
        long.chain(whole).flat_map(move |(workload, one_in)| {
            let workload = Arc::new(without_lawful_losses(workload));
            let targets = plan::KINDS.into_iter().map(Target::Kind);
            let targets = targets.chain([Target::All, Target::Limits]);
            let mut rng = fastrand::Rng::with_seed(seed);
            targets
                .map(|target| (Arc::clone(&workload), target, one_in, rng.u64(..)))
                .collect::<Vec<_>>()
        })
    });
    run_all(run, jobs, move |(workload, target, one_in, seed), task| {
        let failed = sweep(&workload, target, one_in, seed, task);
        if let Err((failure, plan)) = failed {
            task.fail(reduced(&workload, failure, plan, task));
        }
    });
}

/// Runs a regression: its fault, then, because the timing of threads varies, those around it.
/// Returns how many faults struck and were survived.
///
/// # Errors
/// A violated expectation, with the fault.
pub fn replay(regression: &Regression<Plan>) -> Checked<u64> {
    let workload = regression.workload();
    let mut passed = 0;
    for plan in &regression.trials {
        let index = plan.index();
        for index in (index..=index + NEAR).chain(index.saturating_sub(NEAR)..index) {
            let plan = plan.at(index);
            let struck = catch(|| round::run(&workload, &plan)).doing(plan)?;
            passed += u64::from(struck);
        }
    }
    Ok(passed)
}

/// The operations that fail in a sweep.
#[derive(Clone, Copy)]
enum Target {
    /// Each operation of a kind.
    Kind(OpKind),
    /// All operations from some point on.
    All,
    /// Operations that exceed a limit of bytes or of open files.
    Limits,
}

/// Closing legitimately loses unlogged writes that cannot be flushed, so this removes reopenings.
fn without_lawful_losses(mut workload: Workload) -> Workload {
    if workload.settings.unlogged {
        workload.ops.retain(|op| *op != Op::Reopen);
    }
    workload
}

/// Tries the faults of one target, one in this many, in order.
fn sweep(
    workload: &Arc<Workload>,
    target: Target,
    one_in: u64,
    seed: u64,
    task: &Task,
) -> Result<(), (CheckFailure, Option<Plan>)> {
    let describe = |plan: Option<Plan>| {
        let workload = Arc::clone(workload);
        move || Regression::of(&workload, plan.into_iter().collect()).to_string()
    };
    task.step(describe(None));
    let plans = catch(|| plans(workload, target)).map_err(|e| (e, None))?;
    let mut rng = fastrand::Rng::with_seed(seed);
    for plan in plans {
        if !task.goes_on() {
            break;
        }
        if rng.u64(..one_in) > 0 {
            continue;
        }
        task.step(describe(Some(plan)));
        let struck = catch(|| round::run(workload, &plan)).map_err(|e| (e, Some(plan)))?;
        task.pass(u64::from(struck));
    }
    Ok(())
}

/// All plans of a target. Runs the workload once to count its operations.
fn plans(workload: &Workload, target: Target) -> Checked<Vec<Plan>> {
    let vfs = SimVfs::new();
    let mut store = Store::open(&vfs, workload.settings).doing("opening")?;
    store.apply_all(&workload.ops)?;
    store.close().doing("closing")?;
    let heals: &[Heal] = match workload.settings.unlogged {
        true => &[Heal::Resume],
        false => &[Heal::Resume, Heal::Reopen],
    };
    let mut failing = Vec::new();
    let mut operations = |kind: Option<OpKind>, count: u64, step: u64, ways: &[Way]| {
        for index in (0..count).step_by(step as usize) {
            for way in ways.iter().copied() {
                let lasts = if kind.is_some() {
                    &[false, true][..]
                } else {
                    &[true]
                };
                failing.extend(lasts.iter().map(|lasting| Failing::Operation {
                    kind,
                    index,
                    way,
                    lasting: *lasting,
                }));
            }
        }
    };
    match target {
        Target::Kind(kind) => operations(Some(kind), vfs.count(kind, ""), 1, Way::of(kind)),
        Target::All => {
            let total = plan::KINDS.iter().map(|kind| vfs.count(*kind, "")).sum();
            operations(None, total, 2, &[Way::Before]);
        }
        Target::Limits => {
            let written = vfs.bytes_written("");
            let sizes = (0..LIMITS).map(|n| Failing::Capacity(written * n / LIMITS));
            let files = vfs.list(DIR)?.len() as u64 + LIMITS;
            failing.extend(sizes.chain((0..files).map(|n| Failing::OpenFiles(n as usize))));
        }
    }
    let healed = |failing: Failing| {
        heals.iter().map(move |heal| Plan {
            failing,
            heal: *heal,
        })
    };
    Ok(failing.into_iter().flat_map(healed).collect())
}

/// The text of a failure: the reason, followed by a regression as `--replay` reads it, with the
/// smallest workload found that fails in the same way.
fn reduced(workload: &Workload, failure: CheckFailure, plan: Option<Plan>, task: &Task) -> String {
    let Some(mut plan) = plan else {
        let regression = Regression::<Plan>::of(workload, Vec::new());
        return format!(
            "{} without any fault: {failure}\n{regression}",
            workload.name
        );
    };
    let mut newest = failure;
    let mut regression = Regression::of(workload, vec![plan]);
    regression.ops = smaller_in_time(regression.ops, task, |ops, in_time| {
        let candidate = Workload {
            ops: ops.to_vec(),
            ..workload.clone()
        };
        // From the last operation down: the earlier ones still exist. Of the sizes of a disk only
        // some are tried.
        let step = match plan.failing {
            Failing::Capacity(bytes) => (bytes / LIMITS).max(1),
            Failing::Operation { .. } | Failing::OpenFiles(_) => 1,
        };
        let indices = (0..=plan.index()).rev().step_by(step as usize);
        for index in indices.take_while(|_| in_time()) {
            let other = plan.at(index);
            if let Err(failure) = catch(|| round::run(&candidate, &other)) {
                (newest, plan) = (failure, other);
                return true;
            }
        }
        false
    });
    regression.trials = vec![plan];
    format!("{}: {newest}\n{regression}", workload.name)
}
