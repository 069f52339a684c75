//! The process or the machine stops at any operation on the file system below the engine.
//!
//! A list of operations runs once. Then, for each operation on the disk, the state is taken that a
//! crash there leaves, and the volume is opened. It must be as after some prefix of the operations:
//! one with all that was acknowledged if the process stopped, or all that was synced if the machine
//! did. It must be clean before anything is repaired, which nothing does, and nothing may be left
//! over once everything is reclaimed. Then it must go on working. A part of the images is crashed
//! again while that happens.

use std::ops::RangeInclusive;
use std::time::Duration;

use rustix::io::Errno;
use tifs::check::Report;
use tifs::file_system::{Changes, FileSystem, SIZE_MAX};
use tifs::volume::Volume;
use titan_testkit::clock::SimClock;
use titan_testkit::mix;
use titan_testkit::sim::{CrashPoint, Journal, Loss, SimVfs};

use crate::calls::{World, caller};
use crate::contents::{Contents, content, view};
use crate::failure::{Checked, Context, Failure};
use crate::lockstep::{Lockstep, clean};
use crate::model::{Model, Outcome};
use crate::ops::{Generator, Op, Ops, Shape};
use crate::place::Place;

/// Operations, and all that happened on the disk meanwhile.
pub struct Life {
    journal: Journal,
    /// The contents after each number of operations.
    states: Vec<Contents>,
    /// The store with these contents.
    models: Vec<Model>,
    /// Of so many operations, how many are synced.
    synced: Vec<usize>,
}

impl Life {
    /// Marks in the journal count the making of the volume and the operations after it.
    pub fn of(ops: &Ops) -> Checked<Life> {
        Life::after(&Ops::default(), ops)
    }

    /// The same, but nothing crashes during the operations of `setup`, if there are any.
    pub fn after(setup: &Ops, ops: &Ops) -> Checked<Life> {
        let vfs = SimVfs::new();
        let mut lockstep = Lockstep::new(Place::simulated(&vfs))?;
        for step in &setup.0 {
            lockstep.step(step).context(step)?;
        }
        if !setup.0.is_empty() {
            lockstep.step(&Op::Sync {}.into())?;
            vfs.restart_journal();
        }
        Life::on(&vfs, &mut lockstep, ops)
    }

    /// The same on a volume that is there.
    fn on(vfs: &SimVfs, lockstep: &mut Lockstep, ops: &Ops) -> Checked<Life> {
        vfs.mark(1);
        let mut models = vec![lockstep.model.clone()];
        let mut states = vec![Contents::of_model(&lockstep.model)];
        let mut synced = vec![0];
        for (index, step) in ops.0.iter().enumerate() {
            lockstep
                .step(step)
                .context(format!("operation {index}, {step}"))?;
            vfs.mark(index as u64 + 2);
            states.push(Contents::of_model(&lockstep.model));
            models.push(lockstep.model.clone());
            synced.push(match step.op {
                // Of a slot without an inode, as in lists that are reduced, nothing is synced.
                Op::Sync {} | Op::Fsync { .. } | Op::Remount {}
                    if lockstep.model.is_meaningful(&step.op) =>
                {
                    index + 1
                }
                _ => synced[index],
            });
        }
        Ok(Life {
            journal: vfs.journal(),
            states,
            models,
            synced,
        })
    }

    /// The numbers of operations that may have taken effect after a crash at a point.
    fn allowed(&self, point: &CrashPoint<'_>, power: bool) -> RangeInclusive<usize> {
        let marks = point.acknowledged() as usize;
        let acknowledged = marks.saturating_sub(1);
        let least = if power {
            self.synced[acknowledged]
        } else {
            acknowledged
        };
        // The next one may have had its effect, but not returned.
        let begun = if marks == 0 { 0 } else { acknowledged + 1 };
        least..=begun.min(self.states.len() - 1)
    }
}

/// The kind of a crash.
#[derive(Clone, Copy, Debug)]
enum End {
    Kill,
    /// Within the writing of a log.
    KillWithin(u64),
    PowerFailure,
    /// An arbitrary part of what was not synced survives.
    PartialPowerFailure(u64),
}

impl End {
    fn is_power_failure(self) -> bool {
        matches!(self, End::PowerFailure | End::PartialPowerFailure(_))
    }

    /// `None` if there is nothing to kill within.
    fn image(self, point: &CrashPoint<'_>) -> Option<SimVfs> {
        match self {
            End::Kill => Some(point.crash(&Loss::None)),
            End::KillWithin(seed) => point.kill_within(seed),
            End::PowerFailure => Some(point.crash(&Loss::All)),
            End::PartialPowerFailure(seed) => Some(point.crash(&Loss::Random(seed))),
        }
    }

    fn all(seed: u64) -> [End; 5] {
        [
            End::Kill,
            End::KillWithin(seed),
            End::PowerFailure,
            End::PartialPowerFailure(seed),
            End::PartialPowerFailure(seed + 1),
        ]
    }
}

/// Opens what a crash left, and checks everything. Returns how many operations had an effect.
pub fn recover(
    image: &SimVfs,
    states: &[Contents],
    allowed: RangeInclusive<usize>,
) -> Checked<usize> {
    let place = Place::simulated(image);
    let store = place.open().context("opening the store")?;
    let clock = SimClock::with_seed(1);
    let options = place.options(&clock);
    match Volume::make(&*store.kv(), &options) {
        Ok(()) if *allowed.start() == 0 => {}
        Err(e) if e.errno() == Errno::EXIST => {}
        other => return Err(Failure(format!("the volume is gone: {other:?}"))),
    }
    clean(&*store.kv()).context("before anything else")?;
    let contents = Contents::of_store(store.kv()).context("reading everything")?;
    let found = allowed
        .clone()
        .rev()
        .find(|n| states[*n].lines == contents.lines);
    let Some(found) = found else {
        let difference = contents.difference(&states[*allowed.end()]);
        let elsewhere = states
            .iter()
            .position(|state| state.lines == contents.lines);
        return Err(Failure(format!(
            "as after {elsewhere:?} operations, not {allowed:?}: {}",
            difference.unwrap_or_default()
        )));
    };
    let volume = Volume::open(store.kv(), options).context("opening")?;
    volume.reclaim_all().context("reclaiming")?;
    let report = clean(&*store.kv()).context("after reclaiming")?;
    tidy(&report, &volume, &contents)?;
    let after = Contents::of_store(store.kv()).context("reading everything again")?;
    match after.difference(&contents) {
        None => Ok(found),
        Some(difference) => Err(Failure(format!("changed by reclaiming: {difference}"))),
    }
}

/// Nothing is left of what was deleted, and the counters are what a count finds.
fn tidy(report: &Report, volume: &Volume, contents: &Contents) -> Checked<()> {
    let usage = volume.usage();
    let expected = (contents.inodes, contents.units);
    if (report.orphans, report.truncated) != (0, 0)
        || report.inodes != contents.inodes
        || (usage.inodes, usage.blocks) != expected
    {
        return Err(Failure(format!(
            "{report:?}, {usage:?}, expected {expected:?}"
        )));
    }
    Ok(())
}

/// Files that grow after a crash, before anything is reclaimed, have zeros there.
fn grow(image: &SimVfs) -> Checked<()> {
    let world = World::with_clock(Place::simulated(image), SimClock::with_seed(3));
    let world = world.context("opening, to let files grow")?;
    let contents = Contents::of_store(world.store.kv()).context("reading everything")?;
    for file in contents.files {
        let size = world.volume.attributes(file).context("a file")?.inode.size;
        let grown_size = size.max(32 << 20) + 1;
        if grown_size > SIZE_MAX {
            continue;
        }
        let before = view(world.store.kv()).and_then(|view| content(&view, file, size));
        let mut expected = before.context("reading a file")?;
        expected.resize(grown_size);
        let changes = Changes {
            size: Some(grown_size),
            ..Changes::default()
        };
        let grown = world.volume.set_attributes(&caller(0), file, &changes);
        grown.context("letting a file grow")?;
        let after = view(world.store.kv()).and_then(|view| content(&view, file, grown_size));
        if after.context("reading a longer file")? != expected {
            return Err(Failure(format!("inode {file} grew at {size}: no zeros")));
        }
    }
    clean(&*world.store.kv()).context("after files grew")?;
    world.volume.reclaim_all().context("reclaiming")?;
    clean(&*world.store.kv()).context("after files grew and reclaiming")?;
    Ok(())
}

/// A recovered volume works on: what is done is there after closing and opening it.
pub fn goes_on(image: &SimVfs) -> Checked<()> {
    let ops = "mknod 0/after-the-crash 100644 0 0 1\nwrite 1 5000 1*70000\n\
               unlink 0/after-the-crash\nforget 1\nreclaim";
    let ops: Ops = ops.parse().map_err(Failure)?;
    let clock = SimClock::with_seed(2);
    let mut world = World::with_clock(Place::simulated(image), clock).context("opening again")?;
    for step in &ops.0 {
        if let Outcome::Failed(errno) = world.apply(step) {
            return Err(Failure(format!("going on, {step}: {errno:?}")));
        }
    }
    let before = Contents::of_store(world.store.kv()).context("reading everything")?;
    world.volume.close().context("closing")?;
    let place = world.place.clone();
    drop(world);
    let store = place.open().context("opening once more")?;
    let report = clean(&*store.kv()).context("after closing")?;
    let after = Contents::of_store(store.kv()).context("reading everything")?;
    match after.difference(&before) {
        _ if report.inodes != before.inodes => Err(Failure(format!("left over: {report:?}"))),
        None => Ok(()),
        Some(difference) => Err(Failure(format!("after closing: {difference}"))),
    }
}

/// Crashes a life at one point in `step`, and some of the recoveries again. Returns how many
/// crashes there were.
pub fn crash(life: &Life, seed: u64, step: usize) -> Checked<u64> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut crashes = 0;
    for point in life.journal.crash_points() {
        if random.usize(..step) > 0 && point.index() < life.journal.len() {
            continue;
        }
        for end in End::all(mix(seed, point.index() as u64)) {
            let Some(image) = end.image(&point) else {
                continue;
            };
            if let Some(other) = end.image(&point).filter(|_| random.u8(..4) == 0) {
                grow(&other).context(format!("crash at {}, {end:?}", point.index()))?;
            }
            let power = end.is_power_failure();
            let what = format!(
                "crash at {} of {}, {end:?}",
                point.index(),
                life.journal.len()
            );
            image.restart_journal();
            let allowed = life.allowed(&point, power);
            let found = recover(&image, &life.states, allowed).context(&what)?;
            crashes += 1;
            if random.u8(..8) > 0 {
                goes_on(&image).context(&what)?;
                continue;
            }
            crashes +=
                crash_again(life, &point, &image, found, power, &mut random).context(&what)?;
        }
    }
    Ok(crashes)
}

/// Crashes a recovery, which found the effect of so many operations.
fn crash_again(
    life: &Life,
    point: &CrashPoint<'_>,
    image: &SimVfs,
    found: usize,
    power: bool,
    random: &mut fastrand::Rng,
) -> Checked<u64> {
    let recovery = image.journal();
    let mut crashes = 0;
    for _ in 0..3 {
        let chosen = random.usize(..=recovery.len());
        for again in recovery.crash_points().skip(chosen).take(1) {
            let end = End::all(random.u64(..u64::MAX))[random.usize(..5)];
            let Some(image) = end.image(&again) else {
                continue;
            };
            // After a second failure of the power, what was found may not have been durable.
            let least = match power || end.is_power_failure() {
                true => *life.allowed(point, true).start(),
                false => found,
            };
            let what = format!(
                "and again at {} of {}, {end:?}",
                again.index(),
                recovery.len()
            );
            recover(&image, &life.states, least..=found).context(&what)?;
            goes_on(&image).context(&what)?;
            crashes += 1;
        }
    }
    Ok(crashes)
}

/// The power fails again and again, at any moment, and the volume goes on with what is left.
/// Returns how many operations were lost.
pub fn power_failures(seed: u64, rounds: u64) -> Checked<usize> {
    let shape = Shape {
        longest_write: 300_000,
        ..Shape::default()
    };
    let mut random = fastrand::Rng::with_seed(seed);
    let mut disk = SimVfs::new();
    let mut model = Lockstep::new(Place::simulated(&disk))?.model;
    let mut lost = 0;
    for round in 0..rounds {
        let clock = SimClock::with_seed(seed);
        clock.advance(Duration::from_secs(round * 1000));
        let world = World::with_clock(Place::simulated(&disk), clock).context("opening")?;
        let mut lockstep = Lockstep::recovered(world, model)?;
        lockstep
            .compare()
            .context(format!("round {round}, opened"))?;
        lockstep.step(&Op::Sync {}.into())?;
        disk.restart_journal();
        let next_slot = round as u32 * 1000 + 1;
        let mut generator = Generator::on(lockstep.model.clone(), next_slot, random.u64(..), shape);
        let ops = generator.ops(random.usize(20..300));
        let life = Life::on(&disk, &mut lockstep, &ops).context(format!("round {round}"))?;
        drop(lockstep);
        let chosen = random.usize(..=life.journal.len());
        let Some(point) = life.journal.crash_points().nth(chosen) else {
            return Err(Failure(format!("there is no point {chosen}")));
        };
        let end = match random.u8(..3) {
            0 => End::PowerFailure,
            _ => End::PartialPowerFailure(random.u64(..u64::MAX)),
        };
        let Some(image) = end.image(&point) else {
            return Err(Failure("no image".to_owned()));
        };
        let allowed = life.allowed(&point, true);
        let begun = *allowed.end();
        let what = format!(
            "round {round}, {end:?} at {chosen} of {}",
            life.journal.len()
        );
        let found = recover(&image, &life.states, allowed).context(what)?;
        lost += begun - found;
        model = life.models[found].clone();
        disk = image;
    }
    Ok(lost)
}
