//! Operations on a volume and on the model, side by side: results and contents are equal.

use std::collections::HashMap;

use rustix::io::Errno;
use tifs::check::check;
use tifs::file_system::FileSystem;
use tifs::kv::Kv;
use tifs::schema::InodeNumber;

use crate::calls::World;
use crate::contents::{Contents, content, view};
use crate::failure::{Checked, Context, Failure};
use crate::model::{Id, Model, Outcome, comparable};
use crate::ops::{Op, Ops, Raw, Slot, Step};
use crate::place::Place;

/// Operations between two comparisons of everything.
const COMPARE_EVERY: usize = 50;

/// A volume and its model.
pub struct Lockstep {
    pub world: World,
    pub model: Model,
    identities: HashMap<InodeNumber, Id>,
}

impl Lockstep {
    pub fn new(place: Place) -> Checked<Self> {
        let world = World::new(place).context("making a volume")?;
        Ok(Lockstep {
            model: Model::new(world.now()),
            identities: [(InodeNumber::ROOT, Id::ROOT)].into(),
            world,
        })
    }

    /// A volume that a crash left, of which a model is known.
    pub fn recovered(mut world: World, mut model: Model) -> Checked<Self> {
        model.apply(&Op::Crash {}.into(), world.now());
        world.bind_paths(&paths(&model)).context("looking up")?;
        let number = |(slot, id)| Some((world.number(slot)?, id));
        Ok(Lockstep {
            identities: model.slots().filter_map(number).collect(),
            world,
            model,
        })
    }

    /// Does an operation on both, and compares the results.
    pub fn step(&mut self, step: &Step) -> Checked<()> {
        match self.attempt(step)? {
            None => Ok(()),
            Some(errno) => {
                let why = self.world.error.as_ref().map(ToString::to_string);
                Err(Failure(format!(
                    "failed: {errno:?}, {}",
                    why.unwrap_or_default()
                )))
            }
        }
    }

    /// The same, but the volume may fail as no program has caused. The model is as before then.
    pub fn attempt(&mut self, step: &Step) -> Checked<Option<Errno>> {
        let before = self.model.clone();
        let now = self.world.tick();
        let expected = self.model.apply(step, now);
        let op = &step.op;
        if matches!(op, Op::Remount {} | Op::Crash {}) {
            let (kept, clean) = (paths(&self.model), *op == Op::Remount {});
            self.world.reopen(clean, &kept).context("opening again")?;
            return Ok(None);
        }
        if let Op::Seek { file, offset, what } = op {
            if self
                .model
                .node(*file)
                .is_some_and(|node| node.kind == tifs::schema::FileKind::File)
            {
                let found = match self.world.apply(step) {
                    Outcome::Count(found) => Ok(found),
                    Outcome::Failed(errno) => Err(errno),
                    other => return Err(Failure(format!("{other:?}"))),
                };
                if found.is_err_and(is_failure) {
                    return Ok(found.err());
                }
                if !self.model.allows_seek(*file, *offset, *what, found) {
                    return Err(Failure(format!("sought, and found {found:?}")));
                }
            }
            return Ok(None);
        }
        if expected == Outcome::Skipped {
            return Ok(None);
        }
        let found = self.world.apply(step);
        let found = self.identified(&expected, found);
        if found == expected {
            return Ok(None);
        }
        if let Outcome::Failed(errno) = found
            && is_failure(errno)
        {
            self.model = before;
            return Ok(Some(errno));
        }
        let why = self.world.error.take();
        let difference = difference(&found, &expected);
        Err(Failure(format!("{difference}; last error: {why:?}")))
    }

    /// Gives what was found the identities of the model. A number that was never seen is that of
    /// what is expected, if that has none.
    fn identified(&mut self, expected: &Outcome<Id>, found: Outcome<InodeNumber>) -> Outcome<Id> {
        let mut expected = expected.identities().into_iter();
        found.map(|number| {
            let expected = expected.next();
            let known = self.identities.get(&number).copied();
            known
                .or_else(|| {
                    let new =
                        expected.filter(|id| !self.identities.values().any(|known| known == id))?;
                    self.identities.insert(number, new);
                    Some(new)
                })
                .unwrap_or(Id(0))
        })
    }

    /// Compares everything that the volume has with the model.
    pub fn compare(&self) -> Checked<()> {
        let kv = self.world.store.kv();
        let found = Contents::of_store(kv).context("reading everything")?;
        if let Some(difference) = found.difference(&Contents::of_model(&self.model)) {
            return Err(Failure(difference));
        }
        self.compare_slots(found.units)
    }

    /// Compares what slots have, of which some may have no name, and the counters.
    fn compare_slots(&self, mut units: u64) -> Checked<()> {
        let volume = view(self.world.store.kv()).context("looking")?;
        let mut counted = Vec::new();
        for (slot, id) in self.model.slots() {
            let number = self.world.number(slot).context("a slot is not bound")?;
            let node = self.model.by_id(id).context("a slot has nothing")?;
            let found = volume
                .attributes(number)
                .context("reading attributes")?
                .inode;
            if comparable(found) != node.attributes() {
                let expected = node.attributes();
                return Err(Failure(format!(
                    "slot {slot:?}: {found:?}, expected {expected:?}"
                )));
            }
            if node.links > 0 || counted.contains(&id) {
                continue;
            }
            counted.push(id);
            units += found.blocks;
            if node.content.size() > 0 {
                let content = content(&volume, number, found.size).context("reading content")?;
                if content != node.content {
                    return Err(Failure(format!("slot {slot:?} has other content")));
                }
            }
        }
        let usage = self.world.volume.usage();
        // What nobody needs is counted until it is deleted.
        if usage.inodes < self.model.inodes() || usage.blocks < units {
            return Err(Failure(format!(
                "{usage:?}, {} inodes, {units}",
                self.model.inodes()
            )));
        }
        Ok(())
    }

    /// Deletes what nobody needs, after which nothing is left and the counters are exact.
    pub fn reclaim(&self) -> Checked<()> {
        let volume = &self.world.volume;
        volume.reclaim_all().context("reclaiming")?;
        let report = clean(&*self.world.store.kv())?;
        let kept = self
            .model
            .slots()
            .filter_map(|(_, id)| self.model.by_id(id));
        if report.truncated > 0 || report.inodes != self.model.inodes() {
            return Err(Failure(format!("left over: {report:?}, {}", kept.count())));
        }
        let usage = volume.usage();
        if usage.inodes != report.inodes {
            return Err(Failure(format!("{usage:?}, but {} inodes", report.inodes)));
        }
        self.compare()
    }

    /// Compares and checks everything, closes the volume and does it again.
    pub fn finish(mut self) -> Checked<()> {
        self.compare().context("at the end")?;
        self.reclaim().context("reclaimed at the end")?;
        self.attempt(&Op::Remount {}.into())?;
        self.reclaim().context("after opening again")?;
        self.world.volume.close().context("closing")?;
        let place = self.world.place.clone();
        drop(self);
        let store = place.open().context("opening")?;
        clean(&*store.kv()).context("counters")?;
        Ok(())
    }
}

/// The slots that have names, with one of them.
fn paths(model: &Model) -> Vec<(Slot, Vec<Raw>)> {
    let slots = model.slots();
    let named = slots.filter_map(|(slot, _)| Some((slot, model.path_of(slot)?)));
    named.collect()
}

/// Two outcomes where they begin to be different.
fn difference(found: &Outcome<Id>, expected: &Outcome<Id>) -> String {
    let (found, expected) = (format!("{found:?}"), format!("{expected:?}"));
    let same = found
        .bytes()
        .zip(expected.bytes())
        .take_while(|(a, b)| a == b)
        .count();
    let show = |text: &str| {
        let shown = text.bytes().skip(same.saturating_sub(60)).take(200);
        String::from_utf8_lossy(&shown.collect::<Vec<u8>>()).into_owned()
    };
    format!(
        "found ..{}.., expected ..{}..",
        show(&found),
        show(&expected)
    )
}

/// Whether it comes from the store, not from the operation. A device that is full may also be the
/// answer to an allocation.
fn is_failure(errno: Errno) -> bool {
    matches!(errno, Errno::IO | Errno::NOSPC)
}

/// Checks a store. It is an error if there are problems.
pub fn clean(kv: &dyn Kv) -> Checked<tifs::check::Report> {
    let report = check(kv, true, &mut |_| true).context("checking")?;
    match report.is_clean() {
        true => Ok(report),
        false => {
            let findings = report.findings.iter().take(10);
            let findings = findings.fold(String::new(), |text, f| format!("{text}\n  {f}"));
            Err(Failure(format!("{} problems:{findings}", report.problems)))
        }
    }
}

/// Does operations, compares and checks.
pub fn run(place: Place, ops: &Ops) -> Checked<()> {
    let mut lockstep = Lockstep::new(place)?;
    for (index, step) in ops.0.iter().enumerate() {
        lockstep
            .step(step)
            .context(format!("operation {index}, {step}"))?;
        let after = || format!("after operation {index}, {step}");
        if step.op == (Op::Reclaim {}) {
            lockstep.reclaim().context(after())?;
        } else if index % COMPARE_EVERY == 0 || matches!(step.op, Op::Remount {} | Op::Crash {}) {
            lockstep.compare().context(after())?;
            clean(&*lockstep.world.store.kv()).context(after())?;
        }
    }
    lockstep.finish()
}
