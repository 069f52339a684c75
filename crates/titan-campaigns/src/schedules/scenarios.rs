//! The concurrent scenarios.

use std::sync::Arc;

use shuttle::thread::{JoinHandle, spawn};
use titan::{ColumnFamily, ColumnFamilyId, ErrorKind, EventListener, ReadOptions, StallEvent};
use titan_testkit::failure::{CheckFailure, Checked, ensure};
use titan_testkit::ops::Durability;
use titan_testkit::sim::{Fault, OpKind, SimVfs};

use super::world::{World, compact, options, unless, value_of};

/// A scenario, given the seed of its data.
type Scenario = fn(u64) -> Checked<()>;

/// All of them, by name.
pub(super) const SCENARIOS: [(&str, Scenario); 7] = [
    ("work", work),
    ("held readers", held_readers),
    ("passing families", passing_families),
    ("closing", closing),
    ("failing", failing),
    ("stalls", stalls),
    ("range cache", super::cached::range_cache),
];

/// The threads of a scenario; it continues when all have ended.
#[derive(Default)]
pub(super) struct Threads(Vec<JoinHandle<Checked<()>>>);

impl Threads {
    pub(super) fn start<W: Clone + Send + 'static>(
        &mut self,
        world: &W,
        body: impl FnOnce(&W) -> Checked<()> + Send + 'static,
    ) {
        let world = world.clone();
        self.0.push(spawn(move || body(&world)));
    }

    pub(super) fn join(self) -> Checked<()> {
        let panicked = |_| Err(CheckFailure::wrong("a thread panicked"));
        let outcomes: Vec<Checked<()>> = self
            .0
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(panicked))
            .collect();
        outcomes.into_iter().collect()
    }
}

fn logged(rng: &mut fastrand::Rng) -> Durability {
    match rng.u8(..4) {
        0 => Durability::Synced,
        _ => Durability::Logged,
    }
}

/// Flushes and compactions requested by users.
fn disturb(world: &World, rng: &mut fastrand::Rng) -> titan::Result<()> {
    match rng.u8(..6) {
        0 => world.db.flush(),
        1 => world.db.flush_all(),
        2 => compact(&world.other, rng),
        3 => compact(&world.db, rng),
        4 => world.db.sync_wal(),
        _ => world.db.wait_idle(),
    }
}

/// Writers, a reader and a disturber; then a crash, or closing and opening.
fn work(seed: u64) -> Checked<()> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let world = World::new(&mut rng)?;
    work_in(&world, &mut rng)?;
    match rng.bool() {
        true => world.crash_and_check(&mut rng),
        false => world.close_and_check(&mut rng),
    }
}

/// Writers, a reader and a disturber.
pub(super) fn work_in(world: &World, rng: &mut fastrand::Rng) -> Checked<()> {
    let mut threads = Threads::default();
    for writer in 0..2 {
        let mut rng = rng.fork();
        threads.start(world, move |world| {
            for _ in 0..6 {
                world.write(writer, logged(&mut rng), false)?;
            }
            Ok(())
        });
    }
    threads.start(world, |world| {
        for _ in 0..2 {
            drop(world.read()?);
        }
        Ok(())
    });
    let mut of_disturber = rng.fork();
    threads.start(world, move |world| {
        for _ in 0..2 {
            disturb(world, &mut of_disturber)?;
        }
        Ok(())
    });
    threads.join()?;
    drop(world.read()?);
    Ok(())
}

/// Snapshots and lazy values not fetched yet, while the values that they need are overwritten,
/// compacted, deleted.
fn held_readers(seed: u64) -> Checked<()> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let world = World::new(&mut rng)?;
    for _ in 0..4 {
        world.write(0, Durability::Logged, false)?;
    }
    let mut threads = Threads::default();
    for _ in 0..2 {
        threads.start(&world, |world| {
            let held = world.read()?;
            let first = held.found()?;
            for _ in 0..2 {
                held.unchanged(world, &first)?;
            }
            Ok(())
        });
    }
    let mut of_writer = rng.fork();
    threads.start(&world, move |world| {
        for _ in 0..4 {
            world.write(0, logged(&mut of_writer), false)?;
        }
        compact(&world.db, &mut of_writer)?;
        Ok(())
    });
    let mut of_compactor = rng.fork();
    threads.start(&world, move |world| {
        compact(&world.other, &mut of_compactor)?;
        compact(&world.db, &mut of_compactor)?;
        Ok(())
    });
    threads.join()?;
    world.db.wait_idle()?;
    world.close_and_check(&mut rng)
}

/// Families that are created, written to, flushed, read and dropped while others are in use.
fn passing_families(seed: u64) -> Checked<()> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let world = World::new(&mut rng)?;
    let mut threads = Threads::default();
    let mut of_writer = rng.fork();
    threads.start(&world, move |world| {
        for _ in 0..4 {
            world.write(0, logged(&mut of_writer), false)?;
        }
        Ok(())
    });
    for n in 0..2 {
        let mut rng = rng.fork();
        threads.start(&world, move |world| come_and_go(world, n, &mut rng));
    }
    let mut of_disturber = rng.fork();
    threads.start(&world, move |world| {
        disturb(world, &mut of_disturber)?;
        Ok(world.db.flush_all()?)
    });
    threads.join()?;
    world.crash_and_check(&mut rng)?;
    world.close_and_check(&mut rng)
}

fn come_and_go(world: &World, n: usize, rng: &mut fastrand::Rng) -> Checked<()> {
    let family_options = world.db.options().clone();
    let name = format!("passing {n}");
    let family = world.db.create_column_family(&name, family_options)?;
    let mut threads = Threads::default();
    for number in 1..3 {
        family.put(&[number], &value_of(u64::from(number)).bytes())?;
    }
    let iterated = family.iter(&ReadOptions::default())?;
    if rng.bool() {
        let family = family.clone();
        threads.start(world, move |_| {
            let late = (3..6).try_for_each(|n| family.put(&[n], &value_of(u64::from(n)).bytes()));
            unless(&[ErrorKind::InvalidArgument], late)
        });
    }
    if rng.bool() {
        let family = family.clone();
        let mut rng = rng.fork();
        threads.start(world, move |_| {
            let outcome = family.flush().and_then(|()| compact(&family, &mut rng));
            unless(&[ErrorKind::InvalidArgument], outcome)
        });
    }
    if rng.bool() {
        world.db.drop_column_family(&family)?;
    }
    threads.join()?;
    both_there(iterated)
}

/// Checks that the entries that an iterator saw are there, whether its family still exists or not.
fn both_there(mut iterator: titan::DbIterator) -> Checked<()> {
    iterator.seek_to_first()?;
    for number in 1..3 {
        ensure!(
            iterator.valid() && iterator.key() == [number],
            "key {number} of a dropped family is missing"
        );
        let value = iterator.value()?;
        ensure!(
            value[..] == value_of(u64::from(number)).bytes()[..],
            "key {number} of a dropped family has another value"
        );
        iterator.next()?;
    }
    Ok(())
}

/// Closing, from two threads, concurrently with everything else.
fn closing(seed: u64) -> Checked<()> {
    const ENDED: [ErrorKind; 1] = [ErrorKind::Closed];
    let mut rng = fastrand::Rng::with_seed(seed);
    let world = World::new(&mut rng)?;
    let mut threads = Threads::default();
    for writer in 0..2 {
        // Closing also saves acknowledged writes that were not logged.
        let durability = match writer == 0 && rng.bool() {
            true => Durability::Unlogged,
            false => Durability::Logged,
        };
        threads.start(&world, move |world| {
            let outcome = (0..6).try_for_each(|_| world.write(writer, durability, false));
            unless(&ENDED, outcome)
        });
    }
    for _ in 0..2 {
        let mut rng = rng.fork();
        threads.start(&world, move |world| {
            let outcome = (0..2).try_for_each(|_| disturb(world, &mut rng));
            unless(&ENDED, outcome)
        });
    }
    threads.start(&world, |world| {
        let family = world
            .db
            .create_column_family("late", world.db.options().clone());
        let outcome = family.and_then(|family: ColumnFamily| family.put(b"key", b"value"));
        unless(&ENDED, outcome)
    });
    for _ in 0..2 {
        threads.start(&world, World::close);
    }
    threads.join()?;
    world.untouched()?;
    let late = world.db.put(b"key", b"value");
    ensure!(late.is_err(), "a closed database was written to");
    world.reopen_and_check(&mut rng)
}

/// One operation of the file system fails while everything runs; then the database resumes, while
/// everything runs.
fn failing(seed: u64) -> Checked<()> {
    const STOPPED: [ErrorKind; 2] = [ErrorKind::WritesStopped, ErrorKind::Io];
    let mut rng = fastrand::Rng::with_seed(seed);
    let world = World::new(&mut rng)?;
    world.vfs.inject(fault(&mut rng));
    let mut threads = Threads::default();
    for writer in 0..2 {
        let mut rng = rng.fork();
        threads.start(&world, move |world| {
            for _ in 0..6 {
                unless(&STOPPED, world.write(writer, logged(&mut rng), false))?;
            }
            Ok(())
        });
    }
    let mut of_disturber = rng.fork();
    threads.start(&world, move |world| {
        for _ in 0..2 {
            unless(&STOPPED, disturb(world, &mut of_disturber))?;
        }
        Ok(())
    });
    for _ in 0..2 {
        threads.start(&world, |world| {
            unless(&STOPPED, world.db.resume())?;
            drop(world.read()?);
            unless(&STOPPED, world.db.resume())
        });
    }
    threads.join()?;
    if rng.bool() {
        return world.crash_and_check(&mut rng);
    }
    world.vfs.clear_faults();
    // Running jobs may have met the fault and be about to stop writes.
    let _ = world.db.wait_idle();
    world.db.resume()?;
    world.write(0, Durability::Synced, false)?;
    drop(world.read()?);
    world.crash_and_check(&mut rng)?;
    world.close_and_check(&mut rng)
}

/// One operation of the kind, anywhere in the run, with any effect.
fn fault(rng: &mut fastrand::Rng) -> Fault {
    let (kind, path, skip) = [
        (OpKind::Append, "*.log", 8),
        (OpKind::Sync, "*.log", 4),
        (OpKind::Create, "*.log", 3),
        (OpKind::Append, "*.sst", 4),
        (OpKind::Sync, "*.sst", 4),
        (OpKind::Append, "*.blob", 8),
        (OpKind::Sync, "*.blob", 4),
        (OpKind::Append, "MANIFEST*", 6),
        (OpKind::Sync, "MANIFEST*", 6),
        (OpKind::SyncDir, "*", 8),
    ][rng.usize(..10)];
    let fault = Fault::on([kind]).path(path).skip(rng.u64(..skip));
    match rng.u8(..3) {
        0 if kind == OpKind::Sync => fault.losing_pages(),
        1 => fault.after_the_fact(),
        _ => fault,
    }
}

/// Records the last notified write stall of each family.
#[derive(Default)]
struct Stalls(std::sync::Mutex<std::collections::BTreeMap<u32, StallEvent>>);

impl EventListener for Stalls {
    fn stall_changed(&self, family: ColumnFamilyId, event: StallEvent) {
        if let Ok(mut last) = self.0.lock() {
            last.insert(family.0, event);
        }
    }
}

/// Writers that are delayed or stopped, and some that do not wait.
fn stalls(seed: u64) -> Checked<()> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let vfs = SimVfs::new();
    let mut options = options(&vfs, &mut rng);
    let families = options.families.values_mut();
    for family in families.chain([&mut options.default]) {
        family.level0_slowdown_writes_trigger = 2;
        family.level0_stop_writes_trigger = 3;
    }
    options.db.delayed_write_rate = 1024;
    let heard = Arc::new(Stalls::default());
    options.db.listeners.push(Arc::clone(&heard) as Arc<_>);
    let world = World::create(&vfs, &options)?;
    let mut threads = Threads::default();
    for writer in 0..3 {
        threads.start(&world, move |world| {
            for _ in 0..6 {
                let written = world.write(writer, Durability::Logged, writer == 0);
                unless(&[ErrorKind::Busy], written)?;
            }
            Ok(())
        });
    }
    threads.join()?;
    world.db.wait_idle()?;
    let last = heard.0.lock().map(|last| last.clone()).unwrap_or_default();
    for family in [&*world.db, &world.other] {
        let now = family.metrics().stall;
        let heard = last.get(&family.id().0).copied();
        ensure!(
            heard.unwrap_or(StallEvent::Normal) == now,
            "listeners heard {heard:?} last, and writes are {now:?}"
        );
    }
    world.close_and_check(&mut rng)
}
