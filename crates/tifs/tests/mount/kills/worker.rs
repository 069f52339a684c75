//! Random operations of a thread in its directory.

use std::collections::HashMap;
use std::fs::{self, File, Permissions};
use std::io::{self, Error};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fastrand::Rng;
use rustix::fs::{
    CWD, FallocateFlags, RenameFlags, XattrFlags, fallocate, renameat_with, setxattr,
};

use super::known::{Content, Id, Known};
use super::verify;

/// Names in each directory.
const NAMES: usize = 6;
/// Directories in which files are.
const HOMES: [&str; 2] = ["x", "y"];
/// The name of the extended attribute.
pub const ATTRIBUTE: &str = "user.known";

/// A thread's part of the test.
pub struct Worker {
    root: PathBuf,
    random: Rng,
    known: Known,
    open: HashMap<Id, File>,
    next: Id,
}

/// The end of a thread's work.
pub struct Ended {
    /// The known state, if the interrupted operation had no effect, and if it had all of it.
    possible: [Known; 2],
    /// The interrupted operation.
    interrupted: Op,
    /// Operations that returned.
    pub done: u64,
}

/// An operation. It always succeeds if nobody is killed.
#[derive(Clone, Debug)]
enum Op {
    Create(String, u32),
    Write(Id, usize, usize, u8),
    Sync(Id),
    Close(Id),
    Resize(Id, usize),
    Punch(Id, usize, usize),
    Rename(String, String),
    Exchange(String, String),
    Link(String, String),
    Unlink(String),
    MakeDirectory(String),
    RemoveDirectory(String),
    RenameDirectory(String, String),
    SetPermissions(String, u32),
    SetAttribute(String, Vec<u8>),
}

impl Worker {
    /// Makes its directory, which must not exist.
    pub fn new(root: PathBuf, random: Rng) -> Worker {
        let mut known = Known::default();
        fs::create_dir(&root).unwrap();
        for home in HOMES {
            fs::create_dir(root.join(home)).unwrap();
            known.directories.insert(home.to_owned());
        }
        Worker {
            root,
            random,
            known,
            open: HashMap::new(),
            next: 0,
        }
    }

    /// Works until an operation fails because the process was killed. Calls `after` with the number
    /// of operations after each of them.
    pub fn work(&mut self, killed: &AtomicBool, mut after: impl FnMut(u64)) -> Ended {
        let mut done = 0;
        loop {
            let op = self.draw();
            let before = self.known.clone();
            self.note(&op);
            if let Err(error) = self.perform(&op) {
                assert!(killed.load(Ordering::SeqCst), "{op:?}: {error}");
                return Ended {
                    possible: [before, self.known.clone()],
                    interrupted: op,
                    done,
                };
            }
            done += 1;
            after(done);
        }
    }

    /// Compares the directory with what is known, and begins again with what was found.
    pub fn settle(&mut self, ended: Ended) -> Result<(), String> {
        self.open.clear();
        let found = verify::read(&self.root);
        let [nothing, all] = ended.possible;
        self.known = match (verify::judge(nothing, &found), verify::judge(all, &found)) {
            (Ok(known), _) | (_, Ok(known)) => known,
            (Err(without), Err(with)) => {
                return Err(format!(
                    "{}: after {:?} had no effect: {without}; after it had its effect: {with}",
                    self.root.display(),
                    ended.interrupted
                ));
            }
        };
        Ok(())
    }

    /// Draws an operation that can be done.
    fn draw(&mut self) -> Op {
        loop {
            if let Some(op) = self.try_draw() {
                return op;
            }
        }
    }

    fn try_draw(&mut self) -> Option<Op> {
        let random = &mut self.random;
        let known = &self.known;
        let free = |name: &String| !known.names.contains_key(name);
        let name = |random: &mut Rng| {
            let home = HOMES[random.usize(..HOMES.len())];
            format!("{home}/{}", random.usize(..NAMES))
        };
        let directory = |random: &mut Rng| format!("d{}", random.usize(..3));
        let existing = |random: &mut Rng| {
            let names: Vec<&String> = known.names.keys().collect();
            random.choice(names).cloned()
        };
        // Prefers files that are open.
        let file = |random: &mut Rng| {
            let open: Vec<Id> = self.open.keys().copied().collect();
            match random.choice(open) {
                Some(id) if random.u8(..4) > 0 => Some(id),
                _ => existing(random).map(|name| known.names[&name]),
            }
        };
        let length = |random: &mut Rng| match random.u8(..4) {
            0 => random.usize(1..100),
            1 => random.usize(1..5000),
            2 => random.usize(1..70_000),
            _ => random.usize(1..300_000),
        };
        Some(match random.u32(..100) {
            0..14 => Op::Create(
                Some(name(random)).filter(free)?,
                random.u32(..8) << 6 | 0o600,
            ),
            14..40 => {
                let id = file(random)?;
                let at = match random.u8(..3) {
                    0 => known.files[&id].len().min(500_000),
                    1 => 0,
                    _ => length(random),
                };
                Op::Write(id, at, length(random), random.u8(1..))
            }
            40..52 => Op::Sync(file(random)?),
            52..56 => {
                let open: Vec<Id> = self.open.keys().copied().collect();
                Op::Close(random.choice(open)?)
            }
            56..60 => Op::Resize(file(random)?, length(random)),
            60..63 => Op::Punch(file(random)?, length(random), length(random)),
            63..72 => Op::Rename(existing(random)?, name(random)),
            72..75 => Op::Exchange(existing(random)?, existing(random)?),
            75..79 => Op::Link(existing(random)?, Some(name(random)).filter(free)?),
            79..86 => Op::Unlink(existing(random)?),
            86..89 => {
                let new = directory(random);
                Op::MakeDirectory(Some(new).filter(|new| !known.directories.contains(new))?)
            }
            89..91 => {
                let old = directory(random);
                Op::RemoveDirectory(Some(old).filter(|old| known.directories.contains(old))?)
            }
            91..93 => {
                let (from, to) = (directory(random), directory(random));
                let from = Some(from).filter(|from| known.directories.contains(from))?;
                Op::RenameDirectory(from, to)
            }
            93..96 => Op::SetPermissions(existing(random)?, random.u32(..8) << 3 | 0o600),
            _ => {
                let length = random.usize(1..300);
                let value = vec![random.u8(..); length];
                Op::SetAttribute(existing(random)?, value)
            }
        })
    }

    /// Notes the effect of an operation.
    fn note(&mut self, op: &Op) {
        let known = &mut self.known;
        let at = |known: &Known, name: &String| known.names[name];
        fn change(known: &mut Known, id: Id) -> &mut Content {
            Arc::make_mut(known.files.get_mut(&id).unwrap())
        }
        match op {
            Op::Create(name, mode) => {
                self.next += 1;
                known.names.insert(name.clone(), self.next);
                known.files.insert(self.next, Arc::new(Content::new(*mode)));
            }
            Op::Write(id, offset, length, byte) => {
                change(known, *id).write(*offset..offset + length, *byte);
            }
            // What it promises counts once it returned: see `perform`.
            Op::Sync(_) | Op::Close(_) => {}
            Op::Resize(id, length) => change(known, *id).resize(*length),
            Op::Punch(id, offset, length) => change(known, *id).punch(*offset..offset + length),
            Op::Rename(from, to) => {
                // Two names of one file: nothing happens.
                if known.names.get(to) != Some(&at(known, from)) {
                    let id = known.names.remove(from).unwrap();
                    known.names.insert(to.clone(), id);
                }
            }
            Op::Exchange(one, two) => {
                let ids = (at(known, one), at(known, two));
                known.names.insert(one.clone(), ids.1);
                known.names.insert(two.clone(), ids.0);
            }
            Op::Link(from, to) => {
                known.names.insert(to.clone(), at(known, from));
            }
            Op::Unlink(name) => {
                known.names.remove(name);
            }
            Op::MakeDirectory(path) => {
                known.directories.insert(path.clone());
            }
            Op::RemoveDirectory(path) => {
                known.directories.remove(path);
            }
            Op::RenameDirectory(from, to) => {
                known.directories.remove(from);
                known.directories.insert(to.clone());
            }
            Op::SetPermissions(name, mode) => change(known, at(known, name)).mode = *mode,
            Op::SetAttribute(name, value) => {
                change(known, at(known, name)).attribute.clone_from(value);
            }
        }
    }

    fn perform(&mut self, op: &Op) -> io::Result<()> {
        let path = |name: &String| self.root.join(name);
        match op {
            Op::Create(name, mode) => {
                let mut options = File::options();
                options.read(true).write(true).create_new(true).mode(*mode);
                let file = options.open(path(name))?;
                self.open.insert(self.next, file);
            }
            Op::Write(id, offset, length, byte) => {
                let data = vec![*byte; *length];
                self.file(*id)?.write_all_at(&data, *offset as u64)?;
            }
            Op::Sync(id) => {
                self.file(*id)?.sync_all()?;
                self.is_durable(*id);
            }
            Op::Close(id) => {
                let file = OwnedFd::from(self.open.remove(id).unwrap());
                nix::unistd::close(file)?;
                self.is_durable(*id);
            }
            Op::Resize(id, length) => self.file(*id)?.set_len(*length as u64)?,
            Op::Punch(id, offset, length) => {
                let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                fallocate(self.file(*id)?, punch, *offset as u64, *length as u64)?;
            }
            Op::Rename(from, to) | Op::RenameDirectory(from, to) => {
                fs::rename(path(from), path(to))?;
            }
            Op::Exchange(one, two) => {
                renameat_with(CWD, path(one), CWD, path(two), RenameFlags::EXCHANGE)?;
            }
            Op::Link(from, to) => fs::hard_link(path(from), path(to))?,
            Op::Unlink(name) => fs::remove_file(path(name))?,
            Op::MakeDirectory(name) => fs::create_dir(path(name))?,
            Op::RemoveDirectory(name) => fs::remove_dir(path(name))?,
            Op::SetPermissions(name, mode) => {
                fs::set_permissions(path(name), Permissions::from_mode(*mode))?;
            }
            Op::SetAttribute(name, value) => {
                setxattr(path(name), ATTRIBUTE, value, XattrFlags::empty())?;
            }
        }
        self.forget_unreachable();
        Ok(())
    }

    /// The file, opened if it is not open.
    fn file(&mut self, id: Id) -> io::Result<&File> {
        if !self.open.contains_key(&id) {
            let mut names = self.known.names.iter();
            let (name, _) = names.find(|(_, named)| **named == id).unwrap();
            let mut options = File::options();
            let file = options.read(true).write(true).open(self.root.join(name))?;
            self.open.insert(id, file);
        }
        self.open.get(&id).ok_or_else(|| Error::other("closed"))
    }

    fn is_durable(&mut self, id: Id) {
        if let Some(content) = self.known.files.get_mut(&id) {
            Arc::make_mut(content).sync();
        }
    }

    /// Files that have no name and are not open are gone.
    fn forget_unreachable(&mut self) {
        let Known { names, files, .. } = &mut self.known;
        let open = &self.open;
        files.retain(|id, _| open.contains_key(id) || names.values().any(|named| named == id));
    }
}
