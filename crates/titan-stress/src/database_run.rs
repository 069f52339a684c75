//! One database and its lives.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fastrand::Rng;
use titan_campaigns::Run;
use titan_testkit::ledger::{End, Mismatch};
use titan_testkit::model::Model;

use crate::counts::Counts;
use crate::environment::{Environment, directory_size};
use crate::event::Event;
use crate::key_history::key_history;
use crate::keys::{BANK, accounts, nothing};
use crate::mode::Mode;
use crate::outside_record::OutsideRecord;
use crate::plan::{self, Plan};
use crate::process::{Heard, Life};

/// The time limit of opening, of reading everything and of closing.
const PATIENCE: Duration = Duration::from_secs(180);
/// The interval of checks while waiting.
const LOOK: Duration = Duration::from_millis(50);
/// The files are checked after this many lives, and after each life that ended regularly.
const CHECK_EVERY: u32 = 5;

/// When a life ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// This long after its start: mostly before it has reported everything.
    InRecovery(Duration),
    /// During operations.
    AtWork,
    /// This long after it was told to close.
    InClose(Duration),
    /// By itself, closed.
    InOrder,
}

/// End of a wait for an event.
#[derive(PartialEq, Eq)]
enum Waited {
    /// The event came.
    Came,
    /// The time was over.
    InVain,
    /// The file system was full, and the life is to end in that state.
    Full,
}

/// One database and its lives.
pub(crate) struct DatabaseRun<'a> {
    run: &'a Run,
    mode: Mode,
    environment: Environment,
    seed: u64,
    rng: Rng,
    record: OutsideRecord,
    found: Model,
    /// Duration of the last opening.
    opening: Duration,
    /// Whether the current life has opened the database.
    opened: bool,
    /// The plan of the current life.
    plan: Option<Plan>,
    /// Whether the current life is the last one, which ignores the time limit.
    last: bool,
    lives: u32,
    filled_up: u32,
}

impl<'a> DatabaseRun<'a> {
    pub(crate) fn new(
        run: &'a Run,
        mode: Mode,
        environment: Environment,
        seed: u64,
    ) -> Result<Self, Mismatch> {
        Ok(DatabaseRun {
            run,
            mode,
            environment,
            seed,
            rng: Rng::with_seed(seed),
            record: OutsideRecord::new(&mode.scale())?,
            found: nothing(),
            opening: Duration::from_millis(10),
            opened: false,
            plan: None,
            last: false,
            lives: 0,
            filled_up: 0,
        })
    }

    /// Runs this many lives, or as many as the time permits, and one more that checks the last.
    pub(crate) fn run(mut self, lives: u32, in_time: &dyn Fn() -> bool, counts: &mut Counts) {
        let mut outcome = Ok(());
        for number in 1..=lives {
            self.last = number == lives || !in_time();
            let ending = match self.last {
                true => Ending::InOrder,
                false => self.ending(),
            };
            outcome = self.life(ending);
            if outcome.is_err() || self.run.is_stopped() {
                break;
            }
            self.run.pass(1);
            counts.lives += 1;
            match ending {
                Ending::InRecovery(_) => counts.in_recovery += 1,
                Ending::AtWork => counts.at_work += 1,
                Ending::InClose(_) => counts.in_close += 1,
                Ending::InOrder => counts.in_order += 1,
            }
            if ending == Ending::InOrder || self.lives.is_multiple_of(CHECK_EVERY) {
                counts.largest = counts
                    .largest
                    .max(directory_size(&self.environment.database()));
                outcome = self.check(ending);
                counts.checks += 1;
            }
            if outcome.is_err() || self.last {
                break;
            }
        }
        counts.operations += self.record.operations();
        counts.filled_up += self.filled_up;
        counts.peak_memory = counts.peak_memory.max(self.environment.peak_memory());
        if let Err(mismatch) = outcome {
            self.report(&mismatch);
        }
    }

    /// Whether the current life continues.
    fn goes_on(&self) -> bool {
        match self.last {
            true => !self.run.is_stopped(),
            false => self.run.goes_on(),
        }
    }

    fn ending(&mut self) -> Ending {
        let fraction = self.rng.f64();
        match self.rng.u8(..10) {
            0..3 => Ending::InRecovery(self.opening.mul_f64(1.5 * fraction)),
            3..8 => Ending::AtWork,
            8 => Ending::InClose(Duration::from_millis(30).mul_f64(fraction)),
            _ => Ending::InOrder,
        }
    }

    /// Time for which threads run: short times are as likely as long ones.
    fn work(&mut self) -> Duration {
        let (least, most) = self.mode.work();
        least.mul_f64((most.as_secs_f64() / least.as_secs_f64()).powf(self.rng.f64()))
    }

    fn life(&mut self, ending: Ending) -> Result<(), Mismatch> {
        self.lives += 1;
        let path = self.next_plan()?;
        let started = Instant::now();
        let mut life = self.begin(&path)?;
        if let Ending::InRecovery(after) = ending {
            self.wait(&mut life, after, |_| false)?;
            return self.end(life);
        }
        if self.wait(&mut life, PATIENCE, |e| *e == Event::Opened)? == Waited::Full {
            // Opening needs space. Once that is freed, it succeeds.
            self.end(life)?;
            life = self.begin(&path)?;
            self.expect(&mut life, "opened", Event::Opened)?;
        }
        self.opening = started.elapsed();
        // Background jobs may fill the file system while everything is read.
        let full = self.expect(&mut life, "read everything", Event::Dumped)? == Waited::Full;
        if full || !self.goes_on() {
            return self.end(life);
        }
        self.record.judge(&self.found)?;
        self.add_up_banks()?;
        self.environment.take_space(self.mode);
        life.say("go");
        let work = self.work();
        if self.wait(&mut life, work, |_| false)? == Waited::Full {
            return self.end(life);
        }
        if let Ending::InClose(after) = ending {
            life.say("close");
            self.wait_for_end(&mut life, after)?;
        }
        if ending == Ending::InOrder {
            life.say("close");
            if !self.wait_for_end(&mut life, PATIENCE)? && self.goes_on() {
                return Err(format!("it has not closed after {PATIENCE:?}").into());
            }
        }
        self.end(life)
    }

    /// Writes the plan of the next life.
    fn next_plan(&mut self) -> Result<PathBuf, String> {
        let scale = self.mode.scale();
        let path = self.environment.file("plan.toml");
        let plan = Plan {
            dir: self.environment.database(),
            seed: self.rng.u64(..1 << 32),
            next: self.record.next(),
            may_fill_up: self.mode == Mode::Full,
            close_at_work: self.rng.bool(),
            scale,
            options: plan::options(&mut self.rng, &scale),
        };
        plan.save(&path)?;
        self.plan = Some(plan);
        Ok(path)
    }

    fn begin(&mut self, plan: &Path) -> Result<Life, String> {
        self.opened = false;
        self.found = nothing();
        self.environment.start(plan)
    }

    /// Waits for an event that must come, unless the life is to end with a full file system.
    fn expect(&mut self, life: &mut Life, what: &str, event: Event) -> Result<Waited, Mismatch> {
        let waited = self.wait(life, PATIENCE, |e| *e == event)?;
        if waited == Waited::InVain && self.goes_on() {
            return Err(format!("it has not {what} after {PATIENCE:?}").into());
        }
        Ok(waited)
    }

    /// Waits for an event, and processes all others.
    fn wait(
        &mut self,
        life: &mut Life,
        at_most: Duration,
        is_it: impl Fn(&Event) -> bool,
    ) -> Result<Waited, Mismatch> {
        let until = Instant::now() + at_most;
        let mut full = false;
        while self.goes_on() {
            let left = until.saturating_duration_since(Instant::now());
            match life.hear(left.min(LOOK)) {
                Heard::Event(event) => {
                    self.heed(&event)?;
                    if is_it(&event) {
                        return Ok(Waited::Came);
                    }
                    if let Event::Stopped(_) = event {
                        self.filled_up += 1;
                        full = self.end_when_full(life);
                        if full && self.opened {
                            return Ok(Waited::Full);
                        }
                    }
                    if event == Event::Resumed {
                        self.environment.take_space(self.mode);
                    }
                }
                Heard::Nothing if left.is_zero() => break,
                Heard::Nothing => self.environment.sample(),
                Heard::End if full => return Ok(Waited::Full),
                Heard::End => return Err(self.ended_early(life)),
            }
        }
        Ok(Waited::InVain)
    }

    /// Handles a full file system: frees space, except in lives that are to end in that state.
    fn end_when_full(&mut self, life: &mut Life) -> bool {
        if self.opened && self.rng.u8(..4) == 0 {
            return true;
        }
        self.environment.make_room();
        life.say("resume");
        !self.opened
    }

    /// Waits until the process has ended by itself, as it does after closing the database.
    fn wait_for_end(&mut self, life: &mut Life, at_most: Duration) -> Result<bool, Mismatch> {
        let until = Instant::now() + at_most;
        while self.goes_on() {
            let left = until.saturating_duration_since(Instant::now());
            match life.hear(left.min(LOOK)) {
                Heard::Event(event) => self.heed(&event)?,
                Heard::Nothing if left.is_zero() => break,
                Heard::Nothing => self.environment.sample(),
                Heard::End => {
                    // Without space, closing reports the error once more.
                    let may_end = self.record.is_closed() || self.mode == Mode::Full;
                    let in_order = life.wait().is_ok_and(|status| status.success());
                    return match may_end && in_order {
                        true => Ok(true),
                        false => Err(self.ended_early(life)),
                    };
                }
            }
        }
        Ok(false)
    }

    /// Processes an event.
    fn heed(&mut self, event: &Event) -> Result<(), Mismatch> {
        self.record.note(event)?;
        match event {
            Event::Opened => self.opened = true,
            Event::Found { family, pairs } => {
                self.found.create_family(family);
                for (key, value) in pairs {
                    let value = value.to_string().into_bytes();
                    self.found.put(family, key, value);
                }
            }
            Event::Violation(what) => return Err(what.clone().into()),
            Event::Failure(what) => {
                return Err(format!("an operation failed for no reason: {what}").into());
            }
            _ => {}
        }
        Ok(())
    }

    /// The sum of an actor's accounts never changes.
    fn add_up_banks(&self) -> Result<(), Mismatch> {
        for actor in 0..self.mode.scale().actors() {
            let accounts = accounts(&self.found, actor);
            let sum: u64 = accounts.iter().map(|(_, amount)| amount).sum();
            if sum != BANK && !accounts.is_empty() {
                return Err(format!("the accounts of actor {actor} hold {sum}, not {BANK}").into());
            }
        }
        Ok(())
    }

    /// Ends a life, if it has not ended, and processes the remaining events.
    fn end(&mut self, mut life: Life) -> Result<(), Mismatch> {
        while let Heard::Event(event) = life.hear(Duration::ZERO) {
            self.heed(&event)?;
        }
        let end = self.mode.end();
        self.record.ends(end);
        self.environment.end(end, &mut life)?;
        while let Heard::Event(event) = life.hear(PATIENCE) {
            // Every operation fails when the file system has failed.
            if end == End::Process || !matches!(event, Event::Failure(_)) {
                self.heed(&event)?;
            }
        }
        Ok(())
    }

    fn ended_early(&self, life: &mut Life) -> Mismatch {
        let status = life
            .wait()
            .map_or_else(|e| e.to_string(), |status| status.to_string());
        let complaints = std::fs::read_to_string(self.environment.file("complaints"));
        let complaints = complaints.unwrap_or_default();
        let mut last: Vec<&str> = complaints.lines().rev().take(12).collect();
        last.reverse();
        let mut what = format!(
            "the process ended by itself ({status}): {}",
            last.join("\n")
        );
        if let killed @ 1.. = self.environment.killed_for_memory() {
            what += &format!("; {killed} were killed for want of memory");
        }
        what.into()
    }

    /// Checks the files. After a regular close without pinned files there must be no unlisted
    /// file. The unlisted files of a life that ended before closing are deleted by the next
    /// opening.
    fn check(&self, ending: Ending) -> Result<(), Mismatch> {
        let could_close = matches!(ending, Ending::InClose(_) | Ending::InOrder);
        let Some(plan) = self
            .plan
            .as_ref()
            .filter(|plan| plan.dir.join("CURRENT").exists())
        else {
            return Ok(());
        };
        let report = titan_tools::check(&plan.dir, &plan.options, &mut |_| {});
        let report = report.map_err(|e| format!("check: {e}"))?;
        if let Some(problem) = report.problems.first() {
            let all = report.problems.len();
            return Err(format!("check: {all} problems, the first: {problem}").into());
        }
        match report.notes.first() {
            // A machine that ends may forget that a file was removed.
            Some(note)
                if could_close
                    && self.record.is_closed()
                    && !plan.close_at_work
                    && self.mode.end() == End::Process =>
            {
                Err(format!("check after a close in order: {note}").into())
            }
            _ => Ok(()),
        }
    }

    /// Reports everything that is needed to reproduce it.
    fn report(self, mismatch: &Mismatch) {
        let record = self.environment.file("record");
        let mut text = format!(
            "mode {}, seed {}, life {}: {}",
            self.mode.name(),
            self.seed,
            self.lives,
            mismatch.what
        );
        if let Some(place) = &mismatch.place {
            text += &format!("\nthe history of {place:?}:");
            for line in key_history(&record, place) {
                text += &format!("\n  {line}");
            }
        }
        let kept = self.environment.keep();
        text += &format!(
            "\nkept in {}: db, plan.toml with all options, the record, complaints",
            kept.display()
        );
        self.run.fail(text);
    }
}
