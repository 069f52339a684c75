//! Stops the machine at any operation of a workload. The recovered state must be the state after
//! some prefix of the batches, whole across families, including everything acknowledged as durable
//! (WAL-1); if only the process dies, including every logged batch that returned. No file may be
//! leaked, the engine's own check, run on a part of the images, must find nothing, and the database
//! must keep working: it is crashed again, during recovery and after.
//!
//! | module | owns |
//! |---|---|
//! | `life` | one run of a workload, or of its continuation; the states that a crash may leave |
//! | `cut` | a crash as data and as text |
//! | `replay` | reproduces a failure and reduces it |

mod cut;
mod life;
mod replay;

use std::sync::Arc;

use titan_testkit::failure::{CheckFailure, Checked, Doing};
use titan_testkit::mix;
use titan_testkit::sim::{CrashPoint, Loss, SimVfs};

use self::life::Life;
use crate::pool::{Task, catch, run_all};
use crate::recovery::{is_sound, is_sound_but_for_wals};
use crate::regression::Regression;
use crate::run::Run;
use crate::store::file;
use crate::workloads::{self, Workload};

pub use cut::{Cut, Policy};
pub use replay::replay;

/// The extent of a campaign.
#[derive(Clone, Copy, Debug)]
pub struct Scope {
    /// Crash at one crash point in this many, and at the last of each workload.
    pub points: u64,
    /// Run the engine's own check on one image in this many, before and after its recovery. Both
    /// read every file, as recovery does; the time is better spent on more crashes.
    pub checked: u64,
    /// Continue one image in this many, and crash it once more, at one point.
    pub crashed_again: u64,
    /// Crash one image in this many again at every operation of recovery and of its continuation.
    pub dissected: u64,
    /// Random workloads in a round, besides the scripts.
    pub random: u64,
    /// Operations of a random workload.
    pub ops: usize,
}

impl Scope {
    /// Every crash point of every workload.
    pub const WHOLE: Scope = Scope {
        points: 1,
        checked: 8,
        crashed_again: 16,
        dissected: 1000,
        random: 11,
        ops: 250,
    };

    /// A small part, for tests.
    pub const SAMPLE: Scope = Scope {
        points: 12,
        checked: 4,
        crashed_again: 8,
        dissected: 200,
        random: 3,
        ops: 120,
    };
}

/// Crashes scripted and random workloads. Counts as passed each crash (a point and a loss) after
/// which all checks passed.
pub fn crash(run: &Run, scope: Scope) {
    let jobs = run.seeds(1).flat_map(|seed| {
        run.phase(format!("crashes, round {seed}"));
        let random = (0..scope.random).map(move |n| workloads::random(mix(seed, n), scope.ops));
        let all = workloads::scripts().into_iter().chain(random);
        all.map(move |workload| (workload, seed))
    });
    run_all(run, jobs, move |(workload, seed), task| {
        let visit = Visit {
            workload: Arc::new(workload),
            scope,
            task,
        };
        if let Err(failure) = visit.everywhere(seed) {
            let small = replay::reduced(&visit.workload, failure, task);
            task.fail(format!("{}, seed {seed}: {small}", visit.workload.name));
        }
    });
}

/// CheckFailure after these crashes.
struct Failure {
    failure: CheckFailure,
    cuts: Vec<Cut>,
    /// The newest operations before the last crash.
    tail: String,
}

/// A workload that is being crashed.
struct Visit<'a> {
    workload: Arc<Workload>,
    scope: Scope,
    task: &'a Task,
}

impl Visit<'_> {
    fn everywhere(&self, seed: u64) -> Result<(), Failure> {
        self.step(&[]);
        let life = catch(|| Life::of(&self.workload)).map_err(|failure| Failure {
            failure,
            cuts: Vec::new(),
            tail: String::new(),
        })?;
        for point in life.journal.crash_points() {
            let mut rng = fastrand::Rng::with_seed(mix(seed, point.index() as u64));
            if !self.task.goes_on() {
                break;
            }
            let last = point.index() == life.journal.len();
            if rng.u64(..self.scope.points) > 0 && !last {
                continue;
            }
            let policies = [
                Policy::Lose(Loss::None),
                Policy::Lose(Loss::All),
                Policy::Lose(Loss::Random(rng.u64(..))),
                Policy::Lose(Loss::Random(rng.u64(..))),
                Policy::KillWithin(rng.u64(..)),
            ];
            for policy in policies {
                self.crash(&life, &point, policy, &mut rng)?;
            }
        }
        Ok(())
    }

    /// One crash of the workload, and for some a second one after it.
    fn crash(
        &self,
        life: &Life,
        point: &CrashPoint<'_>,
        policy: Policy,
        rng: &mut fastrand::Rng,
    ) -> Result<(), Failure> {
        let checked = rng.u64(..self.scope.checked) == 0;
        if !self.recover(life, point, policy, &[], checked)? {
            return Ok(());
        }
        let again = rng.u64(..self.scope.crashed_again) == 0;
        let dissected = rng.u64(..self.scope.dissected) == 0;
        if !again && !dissected {
            return Ok(());
        }
        let cut = cut_at(point, policy);
        self.step(&[cut]);
        let Some(next) = lives_on(life, point, policy).map_err(|failure| Failure {
            failure,
            cuts: vec![cut],
            tail: life.tail(point.index()),
        })?
        else {
            return Ok(());
        };
        let one = rng.usize(..=next.journal.len());
        let (skip, take) = if dissected { (1, usize::MAX) } else { (one, 1) };
        for point in next.journal.crash_points().skip(skip).take(take) {
            for policy in [
                Policy::Lose(Loss::All),
                Policy::Lose(Loss::Random(rng.u64(..))),
                Policy::Lose(Loss::None),
            ] {
                self.recover(&next, &point, policy, &[cut], false)?;
            }
        }
        Ok(())
    }

    /// Recovers after one crash, which followed those in `earlier`. Returns whether there was a
    /// database to recover.
    fn recover(
        &self,
        life: &Life,
        point: &CrashPoint<'_>,
        policy: Policy,
        earlier: &[Cut],
        checked: bool,
    ) -> Result<bool, Failure> {
        let mut cuts = earlier.to_vec();
        cuts.push(cut_at(point, policy));
        self.step(&cuts);
        let recovered = catch(|| recovers(life, point, policy, checked));
        let passed = recovered.map_err(|failure| Failure {
            failure,
            cuts,
            tail: life.tail(point.index()),
        })?;
        self.task.pass(u64::from(passed));
        Ok(passed)
    }

    fn step(&self, cuts: &[Cut]) {
        let (workload, cuts) = (Arc::clone(&self.workload), cuts.to_vec());
        self.task
            .step(move || Regression::of(&workload, cuts.clone()).to_string());
    }
}

fn cut_at(point: &CrashPoint<'_>, policy: Policy) -> Cut {
    Cut {
        point: Some(point.index()),
        policy,
    }
}

/// Recovers and checks. Returns whether there was a database to recover.
fn recovers(life: &Life, point: &CrashPoint<'_>, policy: Policy, checked: bool) -> Checked<bool> {
    let Some(image) = policy.image(point) else {
        return Ok(false);
    };
    life.check(&image, point, policy)?;
    if checked {
        is_sound(&image, &life.settings).doing("after recovery")?;
        // The image of a crash passes the check even before it is recovered, if it has a database.
        // But a WAL of which unsynced blocks are lost at random looks like a damaged one.
        let there = |image: &SimVfs| image.read_all(file("CURRENT")).is_ok();
        if let Some(image) = policy.image(point).filter(there) {
            match policy {
                Policy::Lose(Loss::Random(_)) => is_sound_but_for_wals(&image, &life.settings),
                _ => is_sound(&image, &life.settings),
            }
            .doing("before recovery")?;
        }
    }
    Ok(true)
}

/// Runs a workload, crashes it once after `share` of 65536 of its operations, continues, and checks
/// everything again.
pub(crate) fn crash_once(workload: &Workload, share: usize, policy: Policy) -> Checked<()> {
    let life = Life::of(workload)?;
    let all = life.journal.len();
    let share = ((all + 1) * share) >> 16;
    for point in life.journal.crash_points().skip(share).take(1) {
        let cut = cut_at(&point, policy);
        goes_on(&life, &point, policy).doing(format_args!("{cut} of {all}"))?;
    }
    Ok(())
}

fn goes_on(life: &Life, point: &CrashPoint<'_>, policy: Policy) -> Checked<()> {
    let Some(next) = lives_on(life, point, policy)? else {
        return Ok(());
    };
    for end in next.journal.crash_points().skip(next.journal.len()) {
        recovers(&next, &end, Policy::Lose(Loss::None), true).doing("opening again")?;
    }
    Ok(())
}

/// Runs the life after a crash.
fn lives_on(life: &Life, point: &CrashPoint<'_>, policy: Policy) -> Checked<Option<Life>> {
    catch(|| {
        let image = policy.image(point);
        let next = image.map(|image| life.after(&image, point, policy));
        next.transpose().doing("going on after recovery")
    })
}
