//! An actor's thread: operations, and reading back their results.

use fastrand::Rng;
use titan_testkit::apply::{Applier, Manner, named};
use titan_testkit::failure::{Checked, ensure};
use titan_testkit::model::Model;

use super::op_source::OpSource;
use super::reads::Window;
use super::world::World;
use crate::keys::{entries, families};
use crate::plan::choose;

/// Runs as `actor`, in a database in which its keys have the contents `model`, until the life
/// ends.
pub(super) fn write(world: &World, mut rng: Rng, actor: usize, model: Model) {
    let plan = &world.plan;
    let manner = Manner {
        stamped: true,
        ..Manner::default()
    };
    let mut writer = Writer {
        world,
        actor,
        ops: OpSource::new(actor, plan.scale, rng.fork()),
        applier: Applier::new(&plan.dir, &plan.options, manner),
        rng,
        model,
        version: world.newest(actor) + 1,
        renewed: 0,
    };
    world.keep_on(|| writer.step());
}

struct Writer<'a> {
    world: &'a World,
    actor: usize,
    ops: OpSource,
    applier: Applier,
    rng: Rng,
    model: Model,
    /// The version of the next operation.
    version: u64,
    /// Number of times that everything was replaced to free space.
    renewed: u64,
}

impl Writer<'_> {
    fn step(&mut self) -> Checked<()> {
        let wanted = self.world.space.renewals_wanted();
        let version = self.version;
        let op = match self.renewed < wanted {
            true => self.ops.renew(&self.model, version),
            false => self.ops.next(&self.model, version),
        };
        self.version += 1;
        self.applier.manner.no_slowdown = self.rng.u8(..30) == 0;
        self.applier.manner.transactions = self.rng.u8(..3) == 0;
        let (world, applier) = (self.world, &mut self.applier);
        if world.record(self.actor, version, &op, || applier.apply(&world.db, &op))? {
            self.model.apply(&op);
            if self.renewed < wanted {
                self.renewed = wanted;
                world.space.renewed();
            }
        }
        match self.rng.u8(..6) {
            0 => self.read_back(),
            _ => Ok(()),
        }
    }

    /// No other thread changes these keys, so their contents are known exactly.
    fn read_back(&mut self) -> Checked<()> {
        let family = choose(&mut self.rng, &families(&self.model, self.actor));
        let keys = self.world.plan.scale.keys;
        let window = Window::any(self.actor, family, keys, &mut self.rng);
        let handle = named(&self.world.db, &family.name(self.actor))?;
        let found = self.world.look(&handle, &window, None, &mut self.rng)?;
        let expected = entries(&self.model, self.actor, family, window.numbers.clone());
        ensure!(
            found == expected,
            "actor {} before its version {} reads {window:?} as {found:?}, not {expected:?}",
            self.actor,
            self.version
        );
        Ok(())
    }
}
