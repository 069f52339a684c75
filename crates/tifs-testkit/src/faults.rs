//! Operations of the disk fail: the caller gets the right error, nothing that was acknowledged is
//! lost, and the volume goes on, after opening it again or once there is space.

use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use tifs::file_system::{Allocate, FileSystem};
use tifs::schema::{FileKind, InodeNumber};
use tifs::volume::Volume;
use titan_testkit::clock::SimClock;
use titan_testkit::sim::{Fault, Loss, OpKind, SimVfs};

use crate::calls::list;
use crate::contents::Contents;
use crate::crash::{goes_on, recover};
use crate::device::Device;
use crate::failure::{Checked, Context, Failure};
use crate::lockstep::{Lockstep, clean};
use crate::model::{Model, comparable};
use crate::ops::{Op, Ops, Renaming, Slot, Step};
use crate::place::{Place, Store};

/// The time after which the engine tries a full disk again.
pub const PAUSE: Duration = Duration::from_secs(2);

/// A volume and its disk, and what it had after each operation.
pub struct Life {
    pub vfs: SimVfs,
    pub clock: SimClock,
    pub lockstep: Lockstep,
    states: Vec<Contents>,
    synced: usize,
    /// The failures since the last success. A crash may show the effect of one of them: of the one
    /// that stopped writes, while the others were refused.
    in_doubt: Vec<Step>,
}

impl Life {
    pub fn new() -> Checked<Self> {
        let (vfs, clock) = (SimVfs::new(), SimClock::with_seed(7));
        let lockstep = Lockstep::new(Place::with_clock(&vfs, &clock))?;
        let states = vec![Contents::of_model(&lockstep.model)];
        Ok(Life {
            vfs,
            clock,
            lockstep,
            states,
            synced: 0,
            in_doubt: Vec::new(),
        })
    }

    /// Does an operation, which may fail because of the disk.
    pub fn attempt(&mut self, step: &Step) -> Checked<Option<Errno>> {
        let before = self.lockstep.model.clone();
        let failed = self.lockstep.attempt(step).context(step)?;
        if let (Op::Read { file, .. }, None) = (&step.op, failed) {
            self.may_have_kept_access_time(*file, before)?;
        }
        if failed.is_some() {
            self.in_doubt.push(step.clone());
            return Ok(failed);
        }
        let state = Contents::of_model(&self.lockstep.model);
        let last = self.states.last();
        if step.op == (Op::Sync {}) || last.is_some_and(|last| last.lines != state.lines) {
            self.in_doubt.clear();
        }
        self.states.push(state);
        if step.op == (Op::Sync {}) {
            self.synced = self.states.len() - 1;
        }
        Ok(None)
    }

    /// The cause of failures is gone: waits until nothing runs that met it, and lets time pass.
    pub fn settle(&self) {
        if let Store::Engine(kv) = &self.lockstep.world.store {
            // It fails if writes are stopped. Then nothing runs either.
            let _: titan::Result<()> = kv.db().wait_idle();
        }
        self.clock.advance(PAUSE);
    }

    /// A read succeeds even if the time of the access cannot be stored.
    fn may_have_kept_access_time(&mut self, file: Slot, before: Model) -> Checked<()> {
        let Some(number) = self.lockstep.world.number(file) else {
            return Ok(());
        };
        let volume = &self.lockstep.world.volume;
        let found = volume.attributes(number).or_else(|_| {
            // The fault has come to this look. It is no operation of the test.
            self.vfs.clear_faults();
            volume.attributes(number)
        });
        let found = comparable(found.context("attributes after a read")?.inode);
        if before
            .node(file)
            .is_some_and(|node| node.attributes() == found)
        {
            self.lockstep.model = before;
        }
        Ok(())
    }

    /// Does operations until one fails because of the disk. Returns how many were done, and the
    /// errno.
    pub fn until_failure(&mut self, ops: &[Step]) -> Checked<(usize, Option<Errno>)> {
        for (index, step) in ops.iter().enumerate() {
            let failed = self.attempt(step)?;
            if failed.is_some() {
                return Ok((index, failed));
            }
        }
        Ok((ops.len(), None))
    }

    /// The model as it is if an operation in doubt had its effect.
    fn with(&self, step: &Step) -> Model {
        let mut model = self.lockstep.model.clone();
        model.apply(step, self.lockstep.world.now());
        model
    }

    /// The state after the process or the machine stops now is the promised one.
    pub fn survives(&self) -> Checked<()> {
        let mut states = self.states.clone();
        let last = states.len() - 1;
        for op in &self.in_doubt {
            states.push(Contents::of_model(&self.with(op)));
        }
        let journal = self.vfs.journal();
        for loss in [Loss::None, Loss::All, Loss::Random(1), Loss::Random(2)] {
            let least = if loss == Loss::None {
                last
            } else {
                self.synced
            };
            let image = journal.crash_at(journal.len(), &loss);
            recover(&image, &states, least..=states.len() - 1).context(format!("{loss:?}"))?;
            goes_on(&image).context(format!("{loss:?}"))?;
        }
        Ok(())
    }

    /// Opens the volume again. An operation in doubt has had its effect, or not; the model is told.
    /// If it fails, it can be tried again.
    fn open_again(&mut self) -> Checked<()> {
        let before = self.lockstep.model.clone();
        let mut models = vec![before.clone()];
        models.extend(self.in_doubt.iter().map(|op| self.with(op)));
        let mut failure = None;
        for model in models {
            self.lockstep.model = model;
            match self.open_as_in_the_model() {
                Ok(()) => {
                    self.in_doubt.clear();
                    return Ok(());
                }
                Err(e) => failure = failure.or(Some(e)),
            }
        }
        self.lockstep.model = before;
        Err(failure.unwrap_or_else(|| Failure("no model".to_owned())))
    }

    fn open_as_in_the_model(&mut self) -> Checked<()> {
        self.lockstep.attempt(&Op::Crash {}.into())?;
        let kv = self.lockstep.world.store.kv();
        let found = Contents::of_store(kv).context("reading everything")?;
        let difference = found.difference(&Contents::of_model(&self.lockstep.model));
        difference.map_or(Ok(()), |difference| Err(Failure(difference)))
    }
}

/// An operation that needs the disk, different for each number.
pub fn change(n: usize) -> Step {
    let op = format!("symlink 0/{n:0200} target {}", 1_000_000 + n);
    op.parse().unwrap()
}

/// A fault strikes after a third of the operations. Returns whether an operation failed.
pub fn survives_fault(ops: &Ops, fault: Fault, errno: Errno, reopens: bool) -> Checked<bool> {
    let (before, after) = ops.0.split_at(ops.0.len() / 3);
    let mut life = Life::new()?;
    life.until_failure(before)?;
    life.vfs.inject(fault);
    let (done, failed) = life.until_failure(after)?;
    life.vfs.clear_faults();
    let after = &after[done..];
    match failed {
        Some(found) if found != errno => {
            return Err(Failure(format!("{}: {found:?}, not {errno:?}", after[0])));
        }
        Some(_) => {
            life.lockstep.compare().context("after the failure")?;
            life.survives().context("crashed after the failure")?;
            if reopens {
                life.open_again().context("opening again")?;
            }
            life.settle();
            for op in &after[1..] {
                let goes_on = life.lockstep.step(op);
                goes_on.context(format!("after the failure, {op}"))?;
            }
        }
        None => life.settle(),
    }
    life.lockstep.finish().context("at the end")?;
    Ok(failed.is_some())
}

/// The disk becomes full again and again, and gets a little more space each time.
pub fn survives_full_disk(seed: u64, ops: &Ops) -> Checked<usize> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut life = Life::new()?;
    let mut capacity = 200_000;
    life.vfs.set_capacity(Some(capacity));
    let mut rest = &ops.0[..];
    let mut full = 0;
    while !rest.is_empty() {
        let (done, failed) = life.until_failure(rest)?;
        rest = &rest[done..];
        let Some(errno) = failed else { break };
        if errno != Errno::NOSPC {
            return Err(Failure(format!("{}: {errno:?}", rest[0])));
        }
        full += 1;
        // It stays full for a while.
        for round in 0..random.u32(..4) {
            life.clock.advance(PAUSE * (round % 2));
            let errno = life.attempt(&change(full * 10 + round as usize))?;
            if errno.is_some_and(|errno| errno != Errno::NOSPC) {
                return Err(Failure(format!("while the disk is full: {errno:?}")));
            }
        }
        life.lockstep.compare().context("the disk is full")?;
        if random.u8(..3) == 0 {
            life.survives().context("crashed while the disk is full")?;
        }
        if random.u8(..6) == 0 && life.open_again().is_err() {
            // Opening needs some space, too.
            life.vfs.set_capacity(None);
            life.open_again().context("opening again")?;
        }
        capacity += random.u64(5_000..150_000);
        life.vfs.set_capacity(Some(capacity));
        life.clock.advance(PAUSE);
        rest = &rest[1..];
    }
    life.vfs.set_capacity(None);
    life.settle();
    let end = life.lockstep.step(&change(0));
    end.context("with space again")?;
    clean(&*life.lockstep.world.store.kv())?;
    life.lockstep.finish().context("at the end")?;
    Ok(full)
}

/// The same fault, as operations may fail: once or until it is mended, half done, or done all the
/// same.
pub fn variant(fault: Fault, n: usize) -> Fault {
    match n % 5 {
        0 => fault,
        1 => fault.forever(),
        2 => fault.after_writing(10),
        3 => fault.losing_pages(),
        _ => fault.after_the_fact(),
    }
}

/// The operations of the disk that change it.
pub const WRITING: [OpKind; 5] = [
    OpKind::Create,
    OpKind::Append,
    OpKind::Sync,
    OpKind::SyncDir,
    OpKind::Rename,
];

/// Operations on a device of so many MiB. What needs more room than there is is refused and changes
/// nothing, nothing else is, and the device never fills. In the end everything is removed, and the
/// room is there again. Returns how many operations were refused.
pub fn survives_small_device(ops: &Ops, mib: u64) -> Checked<u64> {
    let device = Device::default();
    let total = mib << 20;
    {
        let mut state = device.0.lock();
        (state.total, state.available) = (total, total);
    }
    let place = Place::Device(Arc::new(device.store()), device.clone());
    let mut lockstep = Lockstep::new(place)?;
    let mut refused = 0;
    for (index, step) in ops.0.iter().enumerate() {
        let what = || format!("operation {index}, {step}");
        match lockstep.attempt(step).context(what())? {
            None => {}
            Some(Errno::NOSPC) if needs_room(&step.op) => refused += 1,
            Some(errno) => return Err(Failure(format!("{}: {errno:?}", what()))),
        }
        let state = device.0.lock();
        if state.available == 0 || state.stuck {
            return Err(Failure(format!("{}: the device is full", what())));
        }
    }
    lockstep.compare()?;
    let slots: Vec<Slot> = lockstep.model.slots().map(|(slot, _)| slot).collect();
    for slot in slots {
        lockstep.step(&Op::Forget { slot }.into())?;
    }
    let (volume, store) = (&lockstep.world.volume, &lockstep.world.store);
    remove_all(volume, InodeNumber::ROOT).context("removing everything")?;
    let names = volume
        .extended_attributes(InodeNumber::ROOT)
        .context("the root")?;
    for name in names
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty())
    {
        let removed = volume.remove_extended_attribute(InodeNumber::ROOT, name);
        removed.context("removing an attribute of the root")?;
    }
    volume.reclaim_all().context("reclaiming")?;
    clean(&*store.kv())?;
    let usage = volume.usage();
    if (usage.inodes, usage.blocks) != (1, 0) {
        return Err(Failure(format!("after removing everything: {usage:?}")));
    }
    let kv = store.kv();
    kv.move_log().context("moving the log")?;
    kv.free_garbage(0).context("freeing")?;
    let left = device.0.lock().available;
    // The superblock and the root stay.
    if left < total - 4096 {
        return Err(Failure(format!("{left} of {total} bytes are free again")));
    }
    Ok(refused)
}

fn needs_room(op: &Op) -> bool {
    match op {
        Op::MakeNode { .. }
        | Op::MakeDirectory { .. }
        | Op::MakeSymlink { .. }
        | Op::Link { .. }
        | Op::Write { .. }
        | Op::Copy { .. }
        | Op::SetExtended { .. } => true,
        Op::Rename { how, .. } => *how == Renaming::Whiteout,
        Op::Allocate { what, .. } => matches!(what, Allocate::Extend | Allocate::KeepSize),
        _ => false,
    }
}

fn remove_all(volume: &Volume, directory: InodeNumber) -> tifs::Result<()> {
    for entry in list(volume, directory, false, u32::MAX)?
        .into_iter()
        .skip(2)
    {
        if entry.kind == FileKind::Directory {
            remove_all(volume, entry.inode)?;
            volume.remove_directory(directory, &entry.name)?;
        } else {
            volume.unlink(directory, &entry.name)?;
        }
    }
    Ok(())
}
