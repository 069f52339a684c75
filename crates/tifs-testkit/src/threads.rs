//! Several threads on one volume.
//!
//! Short histories are explained: there must be an order of the operations, which keeps that of
//! each thread and that of time, in which the model returns the same results and ends with the same
//! contents. Long ones are checked by the laws of every order: each thread finds under
//! its own names what it left there; names are conserved; the tree is one.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};

use rustix::io::Errno;
use tifs::file_system::FileSystem;
use tifs::schema::InodeNumber;
use titan_testkit::mix;

use crate::calls::World;
use crate::contents::Contents;
use crate::failure::{Checked, Context, Failure};
use crate::lockstep::{Lockstep, clean};
use crate::model::{Id, Model, Outcome};
use crate::ops::{Ops, Slot, Step};
use crate::place::Place;

/// An operation of a thread, when it began and ended, and what came of it.
struct Event {
    step: Step,
    began: u64,
    ended: u64,
    outcome: Outcome<()>,
}

/// Slots 1 and 2 are directories, 3 and 4 are files, of which 4 has no name in slot 1.
const SETUP: &str = "mkdir 0/a 755 0 1\nmkdir 0/b 755 0 2\n\
    mknod 1/x 100644 0 0 3\nwrite 3 0 1*5000\nmknod 2/y 100644 0 0 4\nmkdir 1/d 755 0 5";

/// A few operations of one thread. They bind slots from `slot` on.
fn few(random: &mut fastrand::Rng, mut slot: u32, count: usize) -> Ops {
    let mut line = |random: &mut fastrand::Rng| {
        slot += 1;
        let name = |random: &mut fastrand::Rng| {
            let directory = [0, 1, 1, 2, 2, 5][random.usize(..6)];
            format!("{directory}/{}", ["x", "y", "d", "a"][random.usize(..4)])
        };
        let (one, two) = (name(random), name(random));
        let file = random.u32(3..=4);
        match random.u8(..14) {
            0 => format!("mknod {one} 100644 0 0 {slot}"),
            1 => format!("mkdir {one} 755 0 {slot}"),
            2 => format!("link {file} {one} {slot}"),
            3 | 4 => format!("unlink {one}"),
            5 => format!("rmdir {one}"),
            6..=8 => {
                let how = ["replace", "no-replace", "exchange"][random.usize(..3)];
                format!("rename {one} {two} {how}")
            }
            9 => format!("write {file} {} {}*3000", random.u32(..6000), slot % 250),
            10 => format!("set {file} - - - {} - -", random.u32(..9000)),
            // Not a read, which stores when it was done by an operation of its own.
            11 => format!("copy {file} {} {} 0 9000", random.u32(..3000), 7 - file),
            12 => format!("lookup {one} {slot}"),
            _ => format!("list {} false 1000", [0, 1, 2, 5][random.usize(..4)]),
        }
    };
    let ops = (0..count).map(|_| line(random).parse().unwrap());
    Ops(ops.collect())
}

/// Runs a few operations on several threads, and looks for an order that explains what came of
/// them.
pub fn explained(place: Place, seed: u64) -> Checked<()> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut lockstep = Lockstep::new(place)?;
    for op in &SETUP.parse::<Ops>().unwrap().0 {
        lockstep.step(op)?;
    }
    // Time stands still, so that the order does not show in times.
    lockstep.world.tick();
    let threads = random.usize(2..=4);
    let clock = AtomicU64::new(0);
    let barrier = Barrier::new(threads);
    let tick = || clock.fetch_add(1, Ordering::SeqCst);
    let histories: Vec<Vec<Event>> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|thread| {
                let ops = few(&mut random, 100 * (thread as u32 + 1), 12 / threads);
                let mut world = lockstep.world.share();
                let (barrier, tick) = (&barrier, &tick);
                scope.spawn(move || {
                    barrier.wait();
                    let event = |step: Step| {
                        let began = tick();
                        let outcome = world.apply(&step).map(drop);
                        let ended = tick();
                        Event {
                            step,
                            began,
                            ended,
                            outcome,
                        }
                    };
                    ops.0.into_iter().map(event).collect()
                })
            })
            .collect();
        running
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    clean(&*lockstep.world.store.kv())?;
    let found = Contents::of_store(lockstep.world.store.kv()).context("reading everything")?;
    let now = lockstep.world.now();
    let mut done = vec![0; threads];
    if is_explained(&lockstep.model, &histories, &mut done, &found, now) {
        return Ok(());
    }
    let mut text = String::new();
    for (thread, history) in histories.iter().enumerate() {
        for Event {
            step,
            began,
            ended,
            outcome,
        } in history
        {
            text += &format!("\n{thread}: {began}..{ended} {step}: {outcome:?}");
        }
    }
    Err(Failure(format!(
        "no order explains{text}\n{}",
        found.lines.join("\n")
    )))
}

/// Whether what is not done yet can be done in some order.
fn is_explained(
    model: &Model,
    histories: &[Vec<Event>],
    done: &mut Vec<usize>,
    found: &Contents,
    now: tifs::schema::Time,
) -> bool {
    let next: Vec<_> = histories
        .iter()
        .zip(&*done)
        .map(|(all, done)| all.get(*done))
        .collect();
    let Some(first_end) = next.iter().flatten().map(|event| event.ended).min() else {
        return Contents::of_model(model).lines == found.lines;
    };
    for (thread, event) in next.iter().enumerate() {
        let Some(event) = event.filter(|event| event.began < first_end) else {
            continue;
        };
        let mut model = model.clone();
        if model.apply(&event.step, now).map(drop) != event.outcome {
            continue;
        }
        done[thread] += 1;
        if is_explained(&model, histories, done, found, now) {
            return true;
        }
        done[thread] -= 1;
    }
    false
}

/// Directories that all threads use, as slots. Nobody removes them; everybody moves them.
const DIRECTORIES: u32 = 5;

/// The work of one thread.
struct Worker {
    world: World,
    /// The names that only this thread uses, in directories that stay where they are.
    own: Model,
    numbers: HashMap<Id, InodeNumber>,
    random: fastrand::Rng,
    thread: usize,
    next_slot: u32,
    /// Common names that this thread has added, less those that it has removed.
    added: i64,
}

impl Worker {
    fn directory(&mut self) -> u32 {
        self.random.u32(1..=DIRECTORIES)
    }

    fn own_name(&mut self) -> String {
        let (directory, thread) = (self.directory(), self.thread);
        format!("{directory}/{thread}-{}", self.random.u8(..6))
    }

    fn common_name(&mut self) -> String {
        format!("{}/common-{}", self.directory(), self.random.u8(..5))
    }

    fn slot(&mut self) -> u32 {
        self.next_slot += 1;
        self.next_slot
    }

    /// Something with names that only this thread uses: what comes of it is known.
    fn own_step(&mut self) {
        let (name, new, slot) = (self.own_name(), self.own_name(), self.slot());
        let (byte, length) = (self.random.u8(1..), self.random.usize(1..40_000));
        let lines = match self.random.u8(..6) {
            0 | 1 => format!(
                "mknod {name} 100644 0 0 {slot}\nwrite {slot} 0 {byte}*{length}\nforget {slot}"
            ),
            2 => format!("unlink {name}"),
            3 | 4 => format!("rename {name} {new} replace"),
            _ => format!("lookup {name} {slot}\nread {slot} 0 1000000\nforget {slot}"),
        };
        self.check(&lines);
    }

    /// Does operations on own names. The same comes of them as in the model.
    fn check(&mut self, lines: &str) {
        let now = self.world.now();
        for step in &lines.parse::<Ops>().unwrap().0 {
            let expected = self.own.apply(step, now);
            if expected == Outcome::Skipped {
                continue;
            }
            let found = self.world.apply(step);
            for (id, number) in expected.identities().iter().zip(found.identities()) {
                let known = *self.numbers.entry(*id).or_insert(number);
                assert_eq!(
                    number, known,
                    "thread {}, {step}: another inode",
                    self.thread
                );
            }
            let same = expected.map(drop) == found.map(drop);
            assert!(same, "thread {}, {step}: another outcome", self.thread);
        }
    }

    fn does(&mut self, line: &str) -> Result<(), Errno> {
        match self.world.apply(&line.parse().unwrap()) {
            Outcome::Failed(errno) => Err(errno),
            _ => Ok(()),
        }
    }

    /// Something with names that all threads use.
    fn common_step(&mut self) -> Result<(), Errno> {
        let (directory, other) = (self.directory(), self.directory());
        let (name, new, slot) = (self.common_name(), self.common_name(), self.slot());
        let size = self.random.u64(..600_000);
        let (lines, adds) = match self.random.u8(..12) {
            0 | 1 => {
                self.does(&format!("mknod {name} 104755 0 0 {slot}"))?;
                self.added += 1;
                let written = self.does(&format!("as 1001 write {slot} 0 1*{}", size / 2));
                self.does(&format!("forget {slot}"))?;
                return written;
            }
            2 => (format!("mkdir {name} 755 0 -"), 1),
            3 | 4 => {
                self.does(&format!("lookup {name} {slot}"))?;
                let (what, adds) = match self.random.bool() {
                    true => (format!("link {slot} {new} -"), 1),
                    false => (format!("set {slot} - - - {size} - -"), 0),
                };
                let done = self.does(&what);
                self.added += if done.is_ok() { adds } else { 0 };
                self.does(&format!("forget {slot}"))?;
                return done;
            }
            5 | 6 => (format!("unlink {name}"), -1),
            7 => (format!("rmdir {name}"), -1),
            8 => {
                let how = ["no-replace", "exchange"][self.random.usize(..2)];
                (format!("rename {name} {new} {how}"), 0)
            }
            9 => {
                // The common directories change places, and into each other.
                let moved = self.directory();
                (
                    format!("rename {directory}/dir-{moved} {other}/dir-{moved} no-replace"),
                    0,
                )
            }
            10 => (format!("list {directory} true 1000"), 0),
            _ => ("sync".to_owned(), 0),
        };
        self.does(&lines)?;
        self.added += adds;
        Ok(())
    }

    /// Returns the number of own names, and of common ones that it added.
    fn work(mut self, steps: usize) -> (usize, i64) {
        for _ in 0..steps {
            if self.random.bool() {
                self.own_step();
                continue;
            }
            match self.common_step() {
                // Others use the same names.
                Ok(())
                | Err(
                    Errno::NOENT
                    | Errno::EXIST
                    | Errno::NOTDIR
                    | Errno::ISDIR
                    | Errno::NOTEMPTY
                    | Errno::INVAL
                    | Errno::PERM,
                ) => {}
                Err(errno) => panic!("thread {}: {errno:?}", self.thread),
            }
        }
        for directory in 1..=DIRECTORIES {
            for n in 0..6 {
                let (name, slot) = (format!("{directory}/{}-{n}", self.thread), self.slot());
                self.check(&format!(
                    "lookup {name} {slot}\nread {slot} 0 1000000\nforget {slot}"
                ));
            }
        }
        let listed = (1..=DIRECTORIES).filter_map(|slot| self.own.node(Slot(slot)));
        (listed.map(|node| node.entries.len()).sum(), self.added)
    }
}

/// Many operations on four threads, with the background beside them.
pub fn survives_threads(place: Place, seed: u64, steps: usize) -> Checked<()> {
    const THREADS: usize = 4;
    let mut lockstep = Lockstep::new(place)?;
    for n in 1..=DIRECTORIES {
        lockstep.step(
            &format!("mkdir 0/dir-{n} 755 0 {n}")
                .parse()
                .map_err(Failure)?,
        )?;
    }
    // Time stands still, so that reads of different threads store the same.
    lockstep.world.tick();
    let volume = Arc::clone(&lockstep.world.volume);
    let failed = |e: tifs::Error| panic!("in the background: {e}");
    let background = volume.start_background(failed).context("starting")?;
    let done: Vec<(usize, i64)> = std::thread::scope(|scope| {
        let start = |thread| {
            let worker = Worker {
                world: lockstep.world.share(),
                own: lockstep.model.clone(),
                numbers: HashMap::new(),
                random: fastrand::Rng::with_seed(mix(seed, thread as u64)),
                thread,
                next_slot: 1000,
                added: 0,
            };
            scope.spawn(move || worker.work(steps))
        };
        let running: Vec<_> = (0..THREADS).map(start).collect();
        running
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    drop(background);
    let kv = lockstep.world.store.kv();
    clean(&*kv).context("before reclaiming")?;
    for n in 1..=DIRECTORIES {
        let number = lockstep.world.number(Slot(n)).context("a directory")?;
        volume.forget(number, 1);
        let found = volume.attributes(number).context("a directory")?;
        if found.inode.links < 2 {
            return Err(Failure(format!("directory {n} is gone")));
        }
    }
    volume.reclaim_all().context("reclaiming")?;
    let report = clean(&*kv)?;
    let contents = Contents::of_store(kv).context("reading everything")?;
    let own: usize = done.iter().map(|(own, _)| own).sum();
    let added: i64 = done.iter().map(|(_, added)| added).sum();
    let names = |with: &str| {
        contents
            .lines
            .iter()
            .filter(|line| named(line, with))
            .count()
    };
    if names("common-") as i64 != added {
        return Err(Failure(format!(
            "{added} common names, but {}",
            names("common-")
        )));
    }
    let owned: usize = (0..THREADS)
        .map(|thread| names(&format!("{thread}-")))
        .sum();
    if (owned, names("dir-")) != (own, DIRECTORIES as usize) {
        return Err(Failure(format!("{own} own names, but {owned}")));
    }
    let usage = volume.usage();
    if (report.orphans, report.truncated) != (0, 0)
        || report.inodes != contents.inodes
        || (usage.inodes, usage.blocks) != (contents.inodes, contents.units)
    {
        return Err(Failure(format!(
            "left over: {report:?}, {usage:?}, {}",
            contents.inodes
        )));
    }
    Ok(())
}

/// Whether the line of a walk is that of a name that begins so.
fn named(line: &str, with: &str) -> bool {
    let path = line.split(" #").next().unwrap_or_default();
    path.rsplit('/')
        .next()
        .is_some_and(|name| name.starts_with(with))
}
