//! Runs one workload with one fault in it: with any result of a call, nothing acknowledged is lost,
//! no read is wrong, errors state the failure, and `resume` or reopening heals the database.

use std::mem::{Discriminant, discriminant};
use std::path::Path;

use titan::{Error, ErrorKind};
use titan_testkit::failure::{CheckFailure, Checked, Doing};
use titan_testkit::ledger::End;
use titan_testkit::ops::{Durability, Op};
use titan_testkit::reads::contents;
use titan_testkit::sim::{FaultHandle, Loss, SimVfs};

use super::plan::{Heal, Plan};
use crate::recovery::{is_sound, misplaced_files, recover};
use crate::settings::Settings;
use crate::store::{Store, power_cut};
use crate::workloads::Workload;

/// A fault that strikes once may do so during healing, so healing is tried twice; an operation on
/// the healed database is tried once more than that.
const ATTEMPTS: usize = 2;

/// Runs the workload with the fault. Returns whether the fault struck.
pub(super) fn run(workload: &Workload, plan: &Plan) -> Checked<bool> {
    let vfs = SimVfs::new();
    let mut fault = Armed {
        handle: plan.arm(&vfs),
        plan,
        vfs: vfs.clone(),
        struck: false,
    };
    let mut round = Round {
        store: fault.open_new(workload.settings)?,
        fault,
        tested: None,
    };
    for op in &workload.ops {
        round.apply(op).doing(op)?;
    }
    round.conclude()?;
    Ok(round.fault.struck || round.fault.handle.is_some_and(|handle| handle.hits() > 0))
}

/// The active fault.
struct Armed<'a> {
    plan: &'a Plan,
    vfs: SimVfs,
    handle: Option<FaultHandle>,
    /// Whether a call failed.
    struck: bool,
}

impl Armed<'_> {
    /// Removes the cause of a failure. A fault that strikes once stays: it may not have been the
    /// cause.
    fn lift(&self) {
        if self.plan.lasts() {
            self.vfs.clear_faults();
            self.vfs.set_capacity(None);
            self.vfs.set_max_open_files(None);
        }
    }

    /// Accepts a failure that the fault may have caused.
    fn excuse(&mut self, error: &Error) -> Checked<()> {
        self.struck = true;
        if error.kind() == ErrorKind::WritesStopped && self.plan.spares_writes() {
            let text = format!("writes stopped because a file could not be opened: {error}");
            return Err(CheckFailure::wrong(text));
        }
        is_clear(error)
    }

    /// A new database, at the second attempt if necessary.
    fn open_new(&mut self, settings: Settings) -> Checked<Store> {
        match Store::open(&self.vfs, settings) {
            Ok(store) => Ok(store),
            Err(error) => {
                self.excuse(&error).doing("opening")?;
                self.lift();
                Store::open(&self.vfs, settings).doing("opening again")
            }
        }
    }
}

/// Checks that an error states the failure: it has a kind that a failing operation may have, the
/// file, and the cause.
fn is_clear(error: &Error) -> Checked<()> {
    let allowed = matches!(
        error.kind(),
        ErrorKind::Io | ErrorKind::NoSpace | ErrorKind::TooManyOpenFiles | ErrorKind::WritesStopped
    );
    let unclear = |why: &str| CheckFailure::wrong(format!("{why}: {error}"));
    if !allowed {
        return Err(unclear("an error of another kind"));
    }
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    let (mut path, mut number) = (None::<&Path>, None);
    while let Some(error) = cause {
        path = path.or_else(|| error.downcast_ref::<Error>()?.path());
        number = number.or_else(|| error.downcast_ref::<std::io::Error>()?.raw_os_error());
        cause = error.source();
    }
    match (path, number) {
        (None, _) => Err(unclear("an error without a file")),
        (_, None) => Err(unclear("an error without its cause")),
        _ => Ok(()),
    }
}

struct Round<'a> {
    store: Store,
    fault: Armed<'a>,
    /// The kinds of operation whose promise was tested since healing; `None` before healing.
    tested: Option<Vec<Discriminant<Op>>>,
}

impl Round<'_> {
    /// Applies an operation; if it fails, heals the database and applies it again.
    fn apply(&mut self, op: &Op) -> Checked<()> {
        for _ in 0..=ATTEMPTS {
            let error = match self.store.apply(op) {
                Ok(()) => return self.keeps_promise(op),
                Err(CheckFailure::Failed(error)) => error,
                Err(wrong) => return Err(wrong),
            };
            let first = !self.fault.struck;
            self.fault.excuse(&error)?;
            // A refused operation had no effect; a failed one may have had.
            let doubt = (error.kind() != ErrorKind::WritesStopped).then_some(op);
            let told = || format!("after \"{error}\"");
            if first {
                self.crashes().doing(told())?;
            }
            self.while_it_fails(doubt).doing(told())?;
            self.fault.lift();
            self.tested = Some(Vec::new());
            if self.heal(op, doubt).doing(told())? || *op == Op::Reopen {
                return Ok(());
            }
        }
        Err(CheckFailure::wrong("fails again and again"))
    }

    /// Crashes the process or the machine after an operation that promises to be durable, the first
    /// of its kind since healing: a later operation might make data durable that this one failed
    /// to.
    fn keeps_promise(&mut self, op: &Op) -> Checked<()> {
        let promises = match op {
            Op::Write { durability, .. } => *durability == Durability::Synced,
            Op::Flush { .. } | Op::CreateCf { .. } | Op::DropCf { .. } => true,
            _ => false,
        };
        let kind = discriminant(op);
        match &mut self.tested {
            Some(tested) if promises && !tested.contains(&kind) => tested.push(kind),
            _ => return Ok(()),
        }
        self.crashes().doing("as it stands after healing")
    }

    /// Crashes the process or the machine now.
    fn crashes(&self) -> Checked<()> {
        let journal = self.store.vfs.journal();
        for loss in [Loss::All, Loss::Random(journal.len() as u64), Loss::None] {
            let image = journal.crash_at(journal.len(), &loss);
            let (ledger, end) = (&self.store.ledger, End::with(&loss));
            recover(&image, &self.store.settings, ledger, end, ledger.now())
                .doing(format!("crash, {loss:?}"))?;
        }
        Ok(())
    }

    /// Steps before the cause is removed: reads, and healing in vain.
    fn while_it_fails(&mut self, doubt: Option<&Op>) -> Checked<()> {
        self.reads_right(doubt)?;
        if !self.fault.plan.lasts() {
            return Ok(());
        }
        let healed = match self.fault.plan.heal {
            Heal::Resume => match self.store.db.resume() {
                Err(error) if error.kind() == ErrorKind::Closed => self.store.reopen(),
                resumed => resumed,
            },
            Heal::Reopen => {
                // It may fail like the database did; only opening matters.
                let _ = self.store.close();
                self.store.reopen()
            }
        };
        match healed {
            Ok(()) => Ok(()),
            Err(error) => {
                self.fault.excuse(&error).doing("healing in vain")?;
                self.reads_right(doubt)
            }
        }
    }

    /// Reads return acknowledged writes, or fail.
    fn reads_right(&mut self, doubt: Option<&Op>) -> Checked<()> {
        match contents(&self.store.db) {
            // A family may exist or not although creating or dropping it failed.
            Ok(found) if matches!(doubt, Some(Op::CreateCf { .. } | Op::DropCf { .. })) => {
                match found == self.store.ledger.with_doubts() {
                    true => Ok(()),
                    false => Ok(self.store.ledger.is_now(&found)?),
                }
            }
            Ok(found) => Ok(self.store.ledger.is_now(&found)?),
            // `Closed`: reopening failed between closing and opening.
            Err(CheckFailure::Failed(error)) if error.kind() == ErrorKind::Closed => Ok(()),
            Err(CheckFailure::Failed(error)) => self.fault.excuse(&error).doing("reading"),
            Err(wrong) => Err(wrong),
        }
    }

    /// Heals the database and reads everything. Returns whether the failed operation turns out to
    /// have taken effect.
    fn heal(&mut self, op: &Op, doubt: Option<&Op>) -> Checked<bool> {
        if self.fault.plan.heal == Heal::Resume && *op != Op::Reopen {
            self.twice("resuming", |store| Ok(store.db.resume()?))?;
            self.store.ledger.abandon(0);
            // Writes that failed and were not acknowledged are not there.
            self.twice("reading", |store| store.verify())?;
            return Ok(false);
        }
        // Closing may fail like the database did; only opening matters.
        if let Err(error) = self.store.close()
            && error.kind() != ErrorKind::Closed
        {
            self.fault.excuse(&error).doing("closing")?;
        }
        self.twice("opening", |store| Ok(store.reopen()?))?;
        let mut found = None;
        self.twice("reading", |store| {
            found = Some(contents(&store.db)?);
            Ok(())
        })?;
        let took_effect = found.is_some_and(|found| self.store.ledger.settle(&found));
        self.twice("reading", |store| store.verify())?;
        Ok(took_effect && doubt.is_some())
    }

    /// Performs an action that must succeed unless the fault strikes, and then at the second
    /// attempt.
    fn twice(&mut self, what: &str, mut act: impl FnMut(&mut Store) -> Checked<()>) -> Checked<()> {
        for _ in 1..ATTEMPTS {
            match act(&mut self.store) {
                Ok(()) => return Ok(()),
                Err(CheckFailure::Failed(error)) => self.fault.excuse(&error).doing(what)?,
                Err(wrong) => return Err(wrong).doing(what),
            }
        }
        act(&mut self.store).doing(format!("{what} again"))
    }

    /// At the end, with the fault removed, everything is there, durable, and nothing else is.
    fn conclude(&mut self) -> Checked<()> {
        let (vfs, settings) = (self.store.vfs.clone(), self.store.settings);
        // Writes promised since healing must be durable before anything here makes them so.
        self.crashes().doing("as it stands in the end")?;
        self.fault.lift();
        vfs.clear_faults();
        // Running jobs may have met the fault.
        let _ = self.store.db.wait_idle();
        if let Some(error) = self.store.db.background_error() {
            if self.fault.plan.spares_writes() {
                let text = format!("a file that could not be opened stopped writes: {error}");
                return Err(CheckFailure::wrong(text));
            }
            self.fault.excuse(&error)?;
            self.store.db.resume().doing("resuming in the end")?;
        }
        self.store.verify().doing("reading in the end")?;
        let everything_durable = match settings.unlogged {
            true => Op::FlushAll,
            false => Op::SyncWal,
        };
        let synced = self.store.apply(&everything_durable);
        synced.doing("syncing in the end")?;
        let cut = power_cut(&vfs);
        let ledger = &self.store.ledger;
        recover(&cut, &settings, ledger, End::Machine, ledger.now()).doing("power cut")?;
        is_sound(&cut, &settings).doing("power cut")?;
        self.store.close().doing("closing in the end")?;
        self.store.reopen().doing("opening in the end")?;
        let wrong = misplaced_files(&self.store.db, &vfs)?;
        match wrong.is_empty() {
            true => Ok(()),
            false => Err(CheckFailure::wrong(wrong.join("\n"))),
        }
    }
}
