//! An actor's thread: operations, and reading back their results.

use fastrand::Rng;
use titan::{ColumnFamilyId, WriteBatch, WriteOptions};

use super::op_source::OpSource;
use super::reads::{Cells, Window};
use super::world::{Problem, Step, World, ensure};
use crate::op::{Cell, Change, Durability, Family, Key, Op};
use crate::plan::choose;
use crate::state::State;
use crate::value::value;

/// Runs as `actor`, whose keys have the contents `state`, until the life ends.
pub(super) fn write(world: &World, mut rng: Rng, actor: usize, state: State) {
    let version = world.newest(actor) + 1;
    let ops = OpSource::new(actor, world.plan.scale, rng.fork());
    let mut writer = Writer {
        world,
        actor,
        ops,
        rng,
        state,
        version,
        renewed: 0,
    };
    world.keep_on(|| writer.step());
}

struct Writer<'a> {
    world: &'a World,
    actor: usize,
    ops: OpSource,
    rng: Rng,
    state: State,
    /// The version of the next operation.
    version: u64,
    /// How often everything was replaced to free space.
    renewed: u64,
}

impl Writer<'_> {
    fn step(&mut self) -> Step {
        let wanted = self.world.space.renewals_wanted();
        let op = match self.renewed < wanted {
            true => self.ops.renew(&self.state),
            false => self.ops.next(&self.state),
        };
        let version = self.version;
        self.version += 1;
        let no_slowdown = self.rng.u8(..30) == 0;
        let (world, actor) = (self.world, self.actor);
        if world.record(actor, version, &op, || {
            perform(world, actor, version, &op, no_slowdown)
        })? {
            self.state.apply(version, &op, &mut |_| {});
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
    fn read_back(&mut self) -> Step {
        let family = choose(&mut self.rng, &self.state.families());
        let keys = self.world.plan.scale.keys;
        let window = Window::any(self.actor, family, keys, &mut self.rng);
        let Some(handle) = self.world.family(self.actor, family) else {
            let what = format!("family {} is gone", family.name(self.actor));
            return Err(Problem::Violation(what));
        };
        let found = self.world.look(&handle, &window, None, &mut self.rng)?;
        let at = |number| Key { family, number };
        let range = at(window.numbers.start)..at(window.numbers.end);
        let expected: Cells = self
            .state
            .cells
            .range(range)
            .map(|(k, c)| (*k, *c))
            .collect();
        ensure(found == expected, || {
            format!(
                "actor {} before its version {} reads {window:?} as {found:?}, not {expected:?}",
                self.actor, self.version
            )
        })
    }
}

fn perform(
    world: &World,
    actor: usize,
    version: u64,
    op: &Op,
    no_slowdown: bool,
) -> titan::Result<()> {
    let own = Family::Own.name(actor);
    let handle = || {
        let missing = || titan::Error::corruption(format!("family {own} is gone"));
        world.db.column_family(&own).ok_or_else(missing)
    };
    match op {
        Op::Write(durability, changes) => {
            let mut batch = WriteBatch::new();
            for change in changes {
                add(world, actor, version, change, &mut batch)?;
            }
            let options = WriteOptions {
                sync: *durability == Durability::Synced,
                disable_wal: *durability == Durability::Unlogged,
                no_slowdown,
            };
            world.db.write(batch, &options)
        }
        Op::Create => {
            let options = world.plan.options.default.clone();
            world.db.create_column_family(&own, options).map(drop)
        }
        Op::Drop => world.db.drop_column_family(&handle()?),
        Op::Flush => handle()?.flush(),
        Op::SyncWal => world.db.sync_wal(),
        Op::FlushAll => world.db.flush_all(),
        Op::Close => world.db.close(),
    }
}

fn add(
    world: &World,
    actor: usize,
    version: u64,
    change: &Change,
    batch: &mut WriteBatch,
) -> titan::Result<()> {
    let id = |family: Family| -> titan::Result<ColumnFamilyId> {
        let name = family.name(actor);
        let missing = || titan::Error::corruption(format!("family {name} is gone"));
        Ok(world.db.column_family(&name).ok_or_else(missing)?.id())
    };
    match *change {
        Change::Put { key, amount } => {
            let cell = Cell { version, amount };
            let value = value(actor, key, cell, world.plan.scale.max_value);
            batch.put(id(key.family)?, key.bytes(actor), value)
        }
        Change::Delete(key) => batch.delete(id(key.family)?, key.bytes(actor)),
        Change::SingleDelete(key) => batch.single_delete(id(key.family)?, key.bytes(actor)),
        Change::DeleteRange { family, from, to } => {
            let at = |number| Key { family, number }.bytes(actor);
            batch.delete_range(id(family)?, at(from), at(to))
        }
    }
}
