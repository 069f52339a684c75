//! Operations as calls of a [`FileSystem`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tifs::file_system::{Caller, Changes, FileSystem, ListedEntry, NewTime, WriteContext};
use tifs::schema::{InodeNumber, Time};
use tifs::volume::Volume;
use tifs::{Error, Result};
use titan::SystemClock;
use titan_testkit::clock::SimClock;

use crate::model::{Listed, Outcome, comparable};
use crate::ops::{Name, Op, Raw, Slot, Step, Target, When};
use crate::place::{Place, Store};

/// An open volume, and the references that operations have to its inodes.
pub struct World {
    pub place: Place,
    pub store: Store,
    pub volume: Arc<Volume>,
    clock: SimClock,
    slots: BTreeMap<Slot, InodeNumber>,
    /// Why the last operation failed that did.
    pub error: Option<Error>,
}

type Found = Result<Outcome<InodeNumber>>;

impl World {
    /// Makes a volume.
    pub fn new(place: Place) -> Result<Self> {
        World::with_clock(place, SimClock::with_seed(1))
    }

    /// Makes a volume, or opens the one that is there.
    pub fn with_clock(place: Place, clock: SimClock) -> Result<Self> {
        let store = place.open()?;
        let options = place.options(&clock);
        match Volume::make(&*store.kv(), &options) {
            Err(e) if e.errno() != rustix::io::Errno::EXIST => return Err(e),
            _ => {}
        }
        Ok(World {
            volume: Arc::new(Volume::open(store.kv(), options)?),
            place,
            store,
            clock,
            slots: [(Slot::ROOT, InodeNumber::ROOT)].into(),
            error: None,
        })
    }

    /// The same volume with the same slots, for another thread.
    pub fn share(&self) -> World {
        World {
            place: self.place.clone(),
            store: self.store.clone(),
            volume: Arc::clone(&self.volume),
            clock: self.clock.clone(),
            slots: self.slots.clone(),
            error: None,
        }
    }

    /// The time of the next operation.
    pub fn tick(&self) -> Time {
        self.clock.advance(Duration::new(1, 7));
        self.now()
    }

    pub fn now(&self) -> Time {
        self.clock.unix_time().into()
    }

    pub fn number(&self, slot: Slot) -> Option<InodeNumber> {
        self.slots.get(&slot).copied()
    }

    /// Does an operation that the model finds meaningful, but for [`Op::Remount`] and
    /// [`Op::Crash`].
    pub fn apply(&mut self, step: &Step) -> Outcome<InodeNumber> {
        self.outcome(step).unwrap_or_else(|e| {
            let errno = e.errno();
            self.error = Some(e);
            Outcome::Failed(errno)
        })
    }

    fn outcome(&mut self, step: &Step) -> Found {
        let volume = Arc::clone(&self.volume);
        let by = &caller(step.by);
        match &step.op {
            Op::Lookup { at, to } => {
                let (directory, name) = self.name(at);
                self.bind(Some(*to), volume.lookup(directory, name))
            }
            Op::Forget { slot } => {
                let number = self.slots.remove(slot).unwrap();
                volume.forget(number, 1);
                Ok(Outcome::Done)
            }
            Op::MakeNode {
                at,
                mode,
                umask,
                device,
                to,
            } => {
                let (directory, name) = self.name(at);
                let made = volume.make_node(by, directory, name, mode.0, umask.0, *device);
                self.bind(*to, made)
            }
            Op::MakeDirectory {
                at,
                mode,
                umask,
                to,
            } => {
                let (directory, name) = self.name(at);
                let made = volume.make_directory(by, directory, name, mode.0, umask.0);
                self.bind(*to, made)
            }
            Op::MakeSymlink { at, target, to } => {
                let (directory, name) = self.name(at);
                let made = volume.make_symlink(by, directory, name, &target.0);
                self.bind(*to, made)
            }
            Op::Link { of, at, to } => {
                let (directory, name) = self.name(at);
                self.bind(*to, volume.link(self.target(of), directory, name))
            }
            Op::Unlink { at } => {
                let (directory, name) = self.name(at);
                done(volume.unlink(directory, name))
            }
            Op::RemoveDirectory { at } => {
                let (directory, name) = self.name(at);
                done(volume.remove_directory(directory, name))
            }
            Op::Rename { from, to, how } => {
                let how = how.rule().unwrap();
                done(volume.rename(by, self.name(from), self.name(to), how))
            }
            Op::Fsync { .. } | Op::Sync {} => done(FileSystem::sync(&*volume)),
            Op::Reclaim {} => done(volume.reclaim_all()),
            Op::Flush {} => done(self.store.flush()),
            Op::List {
                directory,
                attributes,
                page,
            } => list(&volume, self.slots[directory], *attributes, *page).map(Outcome::Listing),
            other => self.outcome_on_inode(by, other),
        }
    }

    fn outcome_on_inode(&self, by: &Caller, op: &Op) -> Found {
        let volume = &*self.volume;
        let slots = &self.slots;
        match op {
            Op::Write { file, offset, data } => {
                let context = WriteContext {
                    from_cache: false,
                    drop_privileges: by.uid != 0,
                };
                let offset = offset.unwrap();
                let written = volume.write(slots[file], offset, &data.bytes(), context);
                done(written.map(drop))
            }
            Op::Read {
                file,
                offset,
                length,
            } => {
                let data = volume.read(slots[file], offset.unwrap(), *length as usize)?;
                Ok(Outcome::Bytes(data.to_vec()))
            }
            Op::Stat { of } => {
                let found = volume.attributes(self.target(of))?;
                Ok(Outcome::Attributes(comparable(found.inode)))
            }
            Op::Set {
                of,
                permissions,
                uid,
                gid,
                size,
                accessed,
                modified,
            } => {
                let changes = Changes {
                    permissions: permissions.map(|mode| mode.0),
                    uid: *uid,
                    gid: *gid,
                    size: *size,
                    accessed: accessed.and_then(new_time),
                    modified: modified.and_then(new_time),
                    changed: None,
                };
                let changed = volume.set_attributes(by, self.target(of), &changes)?;
                Ok(Outcome::Attributes(comparable(changed.inode)))
            }
            Op::ReadLink { of } => {
                let target = volume.read_link(self.target(of))?;
                Ok(Outcome::Bytes(target.to_vec()))
            }
            Op::Allocate {
                file,
                offset,
                length,
                what,
            } => done(volume.allocate(slots[file], *offset, *length, *what)),
            Op::Copy {
                from,
                offset,
                to,
                at,
                length,
            } => {
                let (from, to) = ((slots[from], *offset), (slots[to], *at));
                Ok(Outcome::Count(volume.copy_range(from, to, *length)?))
            }
            Op::Seek { file, offset, what } => {
                Ok(Outcome::Count(volume.seek(slots[file], *offset, *what)?))
            }
            Op::SetExtended {
                of,
                name,
                value,
                existing,
            } => {
                let (of, value) = (self.target(of), value.bytes());
                done(volume.set_extended_attribute(of, &name.0, &value, *existing))
            }
            Op::GetExtended { of, name } => {
                let value = volume.extended_attribute(self.target(of), &name.0)?;
                Ok(Outcome::Bytes(value.to_vec()))
            }
            Op::ListExtended { of } => {
                let names = volume.extended_attributes(self.target(of))?;
                Ok(Outcome::Bytes(names))
            }
            Op::RemoveExtended { of, name } => {
                done(volume.remove_extended_attribute(self.target(of), &name.0))
            }
            _ => Ok(Outcome::Skipped),
        }
    }

    fn name<'a>(&self, at: &'a Name) -> (InodeNumber, &'a [u8]) {
        (self.slots[&at.directory], &at.name.0)
    }

    fn target(&self, of: &Target) -> InodeNumber {
        self.slots[&of.slot().unwrap()]
    }

    fn bind(&mut self, slot: Option<Slot>, found: Result<tifs::file_system::Attributes>) -> Found {
        let found = found?;
        match slot {
            Some(slot) => drop(self.slots.insert(slot, found.number)),
            None => self.volume.forget(found.number, 1),
        }
        Ok(Outcome::Found(found.number, comparable(found.inode)))
    }

    /// Ends the volume and opens it again. If that fails, it can be tried again. The slots of
    /// `kept` are bound to what their paths lead to.
    pub fn reopen(&mut self, clean: bool, kept: &[(Slot, Vec<Raw>)]) -> Result<()> {
        if clean {
            self.volume.close()?;
        }
        let place = self.place.clone();
        let clock = self.clock.clone();
        // The old volume must be gone: its store has a lock.
        let mut nothing = World::new(Place::in_memory())?;
        (nothing.place, nothing.clock) = (place.clone(), clock.clone());
        drop(std::mem::replace(self, nothing));
        let mut world = World::with_clock(place, clock)?;
        world.bind_paths(kept)?;
        *self = world;
        Ok(())
    }

    /// Binds slots to what their paths lead to.
    pub fn bind_paths(&mut self, slots: &[(Slot, Vec<Raw>)]) -> Result<()> {
        for (slot, path) in slots {
            let mut number = InodeNumber::ROOT;
            for name in path {
                let found = self.volume.lookup(number, &name.0)?;
                self.forget_unless_root(number);
                number = found.number;
            }
            self.slots.insert(*slot, number);
        }
        Ok(())
    }

    fn forget_unless_root(&self, number: InodeNumber) {
        if number != InodeNumber::ROOT {
            self.volume.forget(number, 1);
        }
    }
}

pub fn caller(uid: u32) -> Caller {
    Caller { uid, gid: uid }
}

fn done(result: Result<()>) -> Found {
    result.map(|()| Outcome::Done)
}

fn new_time(when: When) -> Option<NewTime> {
    match when {
        When::Now => Some(NewTime::Now),
        When::Omit => None,
        When::At(seconds, nanoseconds) => Some(NewTime::At(Time {
            seconds,
            nanoseconds,
        })),
    }
}

/// All entries of a directory, `page` at a time. The references of the listing are given back.
pub fn list(
    volume: &Volume,
    directory: InodeNumber,
    attributes: bool,
    page: u32,
) -> Result<Vec<Listed<InodeNumber>>> {
    let mut listed: Vec<Listed<InodeNumber>> = Vec::new();
    let mut next = 0;
    let result = loop {
        let (before, from) = (listed.len(), next);
        let mut add = |entry: &ListedEntry, inode: Option<tifs::schema::Inode>| {
            if listed.len() - before == page as usize {
                return false;
            }
            next = entry.next;
            listed.push(Listed {
                name: entry.name.to_vec(),
                inode: entry.inode,
                kind: entry.kind,
                attributes: inode.map(comparable),
            });
            true
        };
        let read = if attributes {
            volume.list_with_attributes(directory, from, &mut |entry, attributes| {
                add(entry, Some(attributes.inode))
            })
        } else {
            volume.list(directory, from, &mut |entry| add(entry, None))
        };
        // A call that gave less than it may came to the end, and another one could show what has
        // been added since. With attributes, a failure may have ended it, which only the next call
        // says.
        let is_end = match attributes {
            true => listed.len() == before,
            false => listed.len() - before < page as usize,
        };
        if read.is_err() || is_end {
            break read;
        }
    };
    for entry in listed.iter().filter(|_| attributes) {
        if entry.name != b"." && entry.name != b".." {
            volume.forget(entry.inode, 1);
        }
    }
    result.map(|()| listed)
}
