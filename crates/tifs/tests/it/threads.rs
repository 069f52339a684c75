//! Several threads on one volume.
//!
//! Short histories are explained: there must be an order of the operations, which keeps that of
//! each thread and that of time, in which the model returns the same results and ends with the same
//! contents. Long ones are checked by what must hold whatever the order is: each thread finds under
//! its own names what it left there; names are conserved; the tree is one.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};

use rustix::io::Errno;
use tifs::file_system::{Changes, FileSystem, Rename, WriteContext};
use tifs::schema::InodeNumber;
use tifs::volume::Volume;
use titan_testkit::mix;
use titan_testkit::sim::SimVfs;

use crate::contents::Contents;
use crate::failure::{Checked, Context, Failure, seeds};
use crate::fickle::Shared;
use crate::lockstep::{Lockstep, clean};
use crate::model::{Model, Outcome};
use crate::ops::{Op, Ops};
use crate::place::Place;
use crate::world::caller;

/// An operation of a thread, when it began and ended, and what came of it.
struct Event {
    op: Op,
    began: u64,
    ended: u64,
    outcome: Outcome<()>,
}

/// Slots 1 and 2 are directories, 3 and 4 are files, of which 4 has no name in slot 1.
const SETUP: &str = "mkdir 0/a 755 0 0 1\nmkdir 0/b 755 0 0 2\n\
    mknod 1/x 100644 0 0 0 3\nwrite 3 0 1*5000 false\nmknod 2/y 100644 0 0 0 4\nmkdir 1/d 755 0 0 5";

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
            0 => format!("mknod {one} 100644 0 0 0 {slot}"),
            1 => format!("mkdir {one} 755 0 0 {slot}"),
            2 => format!("link {file} {one} {slot}"),
            3 | 4 => format!("unlink {one}"),
            5 => format!("rmdir {one}"),
            6..=8 => {
                let how = ["replace", "no-replace", "exchange"][random.usize(..3)];
                format!("rename {one} {two} {how} 0")
            }
            9 => format!(
                "write {file} {} {}*3000 false",
                random.u32(..6000),
                slot % 250
            ),
            10 => format!("set {file} 0 - - - {} - -", random.u32(..9000)),
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
fn explained(place: Place, seed: u64) -> Checked<()> {
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
                    let event = |op: Op| {
                        let began = tick();
                        let outcome = world.apply(&op).map(drop);
                        let ended = tick();
                        Event {
                            op,
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
            op,
            began,
            ended,
            outcome,
        } in history
        {
            text += &format!("\n{thread}: {began}..{ended} {op}: {outcome:?}");
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
        if model.apply(&event.op, now).map(drop) != event.outcome {
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

#[test]
fn what_threads_do_together_is_as_in_some_order() {
    for seed in seeds(9000, 1500) {
        let kv = Shared::default();
        kv.0.yield_now_and_then();
        if seed % 3 == 0 {
            kv.0.conflict_one_in(4);
        }
        explained(Place::Fickle(kv), seed).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    }
}

#[test]
fn what_threads_do_together_in_the_engine_is_as_in_some_order() {
    for seed in seeds(9900, 60) {
        let place = Place::simulated(&SimVfs::new());
        explained(place, seed).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    }
}

/// Directories that all threads use. Nobody removes them; everybody moves them.
struct Tree {
    directories: Vec<InodeNumber>,
}

/// The expected inode and content of a thread's own names.
type Own = BTreeMap<(usize, Vec<u8>), (InodeNumber, Vec<u8>)>;

/// The work of one thread.
struct Worker<'a> {
    volume: &'a Volume,
    tree: &'a Tree,
    random: fastrand::Rng,
    thread: usize,
    own: Own,
    /// Common names that this thread has added, less those that it has removed.
    added: i64,
}

impl Worker<'_> {
    fn directory(&mut self) -> (usize, InodeNumber) {
        let index = self.random.usize(..self.tree.directories.len());
        (index, self.tree.directories[index])
    }

    fn own_name(&mut self) -> Vec<u8> {
        format!("{}-{}", self.thread, self.random.u8(..6)).into_bytes()
    }

    fn common_name(&mut self) -> Vec<u8> {
        format!("common-{}", self.random.u8(..5)).into_bytes()
    }

    /// Something with names that only this thread uses: what comes of it is known.
    fn own_step(&mut self) {
        let (at, directory) = self.directory();
        let (to, other) = self.directory();
        let (name, new) = (self.own_name(), self.own_name());
        let key = (at, name.clone());
        let known = self.own.get(&key).cloned();
        let volume = self.volume;
        match self.random.u8(..6) {
            0 | 1 => {
                let made = volume.make_node(&caller(0), directory, &name, 0o100_644, 0, 0);
                match known {
                    Some(_) => assert_eq!(made.unwrap_err().errno(), Errno::EXIST),
                    None => {
                        let number = made.unwrap().number;
                        let length = self.random.usize(..40_000);
                        let content = vec![self.random.u8(1..); length];
                        volume
                            .write(number, 0, &content, WriteContext::default())
                            .unwrap();
                        volume.forget(number, 1);
                        self.own.insert(key, (number, content));
                    }
                }
            }
            2 => {
                let removed = volume.unlink(directory, &name);
                match self.own.remove(&key) {
                    Some(_) => removed.unwrap(),
                    None => assert_eq!(removed.unwrap_err().errno(), Errno::NOENT),
                }
            }
            3 | 4 => {
                let from = (directory, &name[..]);
                let moved = volume.rename(&caller(0), from, (other, &new), Rename::Replace);
                match self.own.remove(&key) {
                    Some(value) => {
                        moved.unwrap();
                        self.own.insert((to, new), value);
                    }
                    None => assert_eq!(moved.unwrap_err().errno(), Errno::NOENT),
                }
            }
            _ => self.verify(&key, known),
        }
    }

    /// A name has what this thread left there.
    fn verify(&self, (at, name): &(usize, Vec<u8>), expected: Option<(InodeNumber, Vec<u8>)>) {
        let found = self.volume.lookup(self.tree.directories[*at], name);
        let Some((number, content)) = expected else {
            assert_eq!(found.unwrap_err().errno(), Errno::NOENT);
            return;
        };
        let found = found.unwrap();
        assert_eq!((found.number, found.inode.links), (number, 1));
        let read = self.volume.read(number, 0, 1 << 20).unwrap();
        assert!(read[..] == content, "other content");
        self.volume.forget(number, 1);
    }

    /// Something with names that all threads use.
    fn common_step(&mut self) -> Result<(), Errno> {
        let (_, directory) = self.directory();
        let (_, other) = self.directory();
        let (name, new) = (self.common_name(), self.common_name());
        let volume = self.volume;
        let errno = |e: tifs::Error| e.errno();
        match self.random.u8(..12) {
            0 | 1 => {
                let made = volume.make_node(&caller(0), directory, &name, 0o104_755, 0, 0);
                let number = made.map_err(errno)?.number;
                self.added += 1;
                let context = WriteContext {
                    drop_privileges: true,
                    ..WriteContext::default()
                };
                let length = self.random.usize(..300_000);
                let written = volume.write(number, 0, &vec![1; length], context);
                volume.forget(number, 1);
                written.map_err(errno)?;
            }
            2 => {
                let made = volume.make_directory(&caller(0), directory, &name, 0o755, 0);
                volume.forget(made.map_err(errno)?.number, 1);
                self.added += 1;
            }
            3 => {
                let found = volume.lookup(directory, &name).map_err(errno)?.number;
                let linked = volume.link(found, other, &new);
                let references = 1 + u64::from(linked.is_ok());
                self.added += i64::from(linked.is_ok());
                volume.forget(found, references);
                linked.map_err(errno)?;
            }
            4 | 5 => {
                volume.unlink(directory, &name).map_err(errno)?;
                self.added -= 1;
            }
            6 => {
                volume.remove_directory(directory, &name).map_err(errno)?;
                self.added -= 1;
            }
            7 => {
                let how = [Rename::NoReplace, Rename::Exchange][self.random.usize(..2)];
                let (from, to) = ((directory, &name[..]), (other, &new[..]));
                volume.rename(&caller(0), from, to, how).map_err(errno)?;
            }
            8 => {
                // The common directories change places, and into each other.
                let (place, _) = self.directory();
                let (from, to) = (format!("dir-{place}"), format!("dir-{place}"));
                let (from, to) = ((directory, from.as_bytes()), (other, to.as_bytes()));
                volume
                    .rename(&caller(0), from, to, Rename::NoReplace)
                    .map_err(errno)?;
            }
            9 => {
                let found = volume.lookup(directory, &name).map_err(errno)?.number;
                let size = self.random.u64(..600_000);
                let cut = Changes {
                    size: Some(size),
                    ..Changes::default()
                };
                let changed = volume.set_attributes(&caller(0), found, &cut);
                volume.forget(found, 1);
                changed.map_err(errno)?;
            }
            10 => {
                let mut met = Vec::new();
                let listed = volume.list_with_attributes(directory, 0, &mut |entry, _| {
                    met.push((entry.name.clone(), entry.inode));
                    true
                });
                for (name, inode) in met {
                    if &name[..] != b"." && &name[..] != b".." {
                        volume.forget(inode, 1);
                    }
                }
                listed.map_err(errno)?;
            }
            _ => volume.sync().map_err(errno)?,
        }
        Ok(())
    }

    fn work(mut self, steps: usize) -> (Own, i64) {
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
        for (key, value) in &self.own {
            self.verify(key, Some(value.clone()));
        }
        (self.own, self.added)
    }
}

/// Many operations on four threads, with the background beside them.
fn survives_threads(place: Place, seed: u64, steps: usize) -> Checked<()> {
    const THREADS: usize = 4;
    let lockstep = Lockstep::new(place)?;
    let volume = Arc::clone(&lockstep.world.volume);
    let root = InodeNumber::ROOT;
    let make = |n| volume.make_directory(&caller(0), root, format!("dir-{n}").as_bytes(), 0o755, 0);
    let directories = (0..5)
        .map(|n| Ok(make(n)?.number))
        .collect::<tifs::Result<_>>();
    let tree = Tree {
        directories: directories.context("making directories")?,
    };
    let failed = |e: tifs::Error| panic!("in the background: {e}");
    let background = volume.start_background(failed).context("starting")?;
    let done: Vec<(Own, i64)> = std::thread::scope(|scope| {
        let start = |thread| {
            let worker = Worker {
                volume: &volume,
                tree: &tree,
                random: fastrand::Rng::with_seed(mix(seed, thread as u64)),
                thread,
                own: Own::new(),
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
    for (n, directory) in tree.directories.iter().enumerate() {
        volume.forget(*directory, 1);
        let inode = volume
            .attributes(*directory)
            .context(format!("directory {n}"))?;
        if inode.inode.links < 2 {
            return Err(Failure(format!("directory {n} is gone")));
        }
    }
    volume.reclaim_all().context("reclaiming")?;
    let report = clean(&*kv)?;
    let contents = Contents::of_store(kv).context("reading everything")?;
    let own: usize = done.iter().map(|(own, _)| own.len()).sum();
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
    if (owned, names("dir-")) != (own, tree.directories.len()) {
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

#[test]
fn threads_find_what_they_left_and_the_tree_stays_one() {
    for seed in seeds(9500, 12) {
        let kv = Shared::default();
        kv.0.yield_now_and_then();
        kv.0.conflict_one_in(if seed % 2 == 0 { 10 } else { 0 });
        let survived = survives_threads(Place::Fickle(kv), seed, 400);
        survived.unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    }
}

#[test]
fn threads_in_the_engine_find_what_they_left_and_the_tree_stays_one() {
    for seed in seeds(9600, 6) {
        let place = Place::simulated(&SimVfs::new());
        let survived = survives_threads(place, seed, 1500);
        survived.unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    }
}

/// Two directories move into each other's subdirectories at the same time. The locks of the two
/// moves have nothing in common, and yet one must see the other.
#[test]
fn two_moves_never_make_a_circle() {
    let kv = Shared::default();
    kv.0.yield_now_and_then();
    let lockstep = Lockstep::new(Place::Fickle(kv)).unwrap();
    let volume = &*lockstep.world.volume;
    let make = |directory, name: &[u8]| {
        let made = volume.make_directory(&caller(0), directory, name, 0o755, 0);
        made.unwrap().number
    };
    for round in 0..300 {
        let top = make(InodeNumber::ROOT, format!("{round}").as_bytes());
        let sides = [b"a", b"b"].map(|name| {
            let parent = make(top, name);
            let moved = make(parent, b"moved");
            (parent, make(moved, b"inner"))
        });
        let barrier = Barrier::new(2);
        let results = std::thread::scope(|scope| {
            let running = [(0, 1), (1, 0)].map(|(from, to): (usize, usize)| {
                let (barrier, sides) = (&barrier, &sides);
                scope.spawn(move || {
                    barrier.wait();
                    let (from, to) = ((sides[from].0, &b"moved"[..]), (sides[to].1, &b"new"[..]));
                    volume.rename(&caller(0), from, to, Rename::Replace)
                })
            });
            running.map(|thread| thread.join().unwrap())
        });
        match results {
            [Ok(()), Err(e)] | [Err(e), Ok(())] => assert_eq!(e.errno(), Errno::INVAL),
            other => panic!("round {round}: {other:?}"),
        }
    }
    clean(&*lockstep.world.store.kv()).unwrap();
}
