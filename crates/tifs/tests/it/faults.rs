//! Operations of the disk fail: the caller gets the right error, nothing that was acknowledged is
//! lost, and the volume goes on, after opening it again or once there is space.

use std::time::Duration;

use rustix::io::Errno;
use tifs::file_system::FileSystem;
use titan_testkit::clock::SimClock;
use titan_testkit::sim::{self, Fault, Loss, OpKind, SimVfs};

use crate::contents::Contents;
use crate::crash::{goes_on, recover};
use crate::failure::{Checked, Context, Failure, seeds};
use crate::lockstep::{Lockstep, clean};
use crate::model::{Model, comparable};
use crate::ops::{Generator, Op, Ops, Shape, Slot};
use crate::place::{Place, Store};

/// The time after which the engine tries a full disk again.
const PAUSE: Duration = Duration::from_secs(2);

/// A volume and its disk, and what it had after each operation.
struct Life {
    vfs: SimVfs,
    clock: SimClock,
    lockstep: Lockstep,
    states: Vec<Contents>,
    synced: usize,
    /// The failures since the last success. A crash may show the effect of one of them: of the one
    /// that stopped writes, while the others were refused.
    in_doubt: Vec<Op>,
}

impl Life {
    fn new() -> Checked<Self> {
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
    fn attempt(&mut self, op: &Op) -> Checked<Option<Errno>> {
        let before = self.lockstep.model.clone();
        let failed = self.lockstep.attempt(op).context(op)?;
        if let (Op::Read { file, .. }, None) = (op, failed) {
            self.may_have_kept_access_time(*file, before)?;
        }
        if failed.is_some() {
            self.in_doubt.push(op.clone());
            return Ok(failed);
        }
        let state = Contents::of_model(&self.lockstep.model);
        let last = self.states.last();
        if *op == (Op::Sync {}) || last.is_some_and(|last| last.lines != state.lines) {
            self.in_doubt.clear();
        }
        self.states.push(state);
        if *op == (Op::Sync {}) {
            self.synced = self.states.len() - 1;
        }
        Ok(None)
    }

    /// The cause of failures is gone: waits until nothing runs that met it, and lets time pass.
    fn settle(&self) {
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
    fn until_failure(&mut self, ops: &[Op]) -> Checked<(usize, Option<Errno>)> {
        for (index, op) in ops.iter().enumerate() {
            let failed = self.attempt(op)?;
            if failed.is_some() {
                return Ok((index, failed));
            }
        }
        Ok((ops.len(), None))
    }

    /// The model as it is if an operation in doubt had its effect.
    fn with(&self, op: &Op) -> Model {
        let mut model = self.lockstep.model.clone();
        model.apply(op, self.lockstep.world.now());
        model
    }

    /// The state after the process or the machine stops now is the promised one.
    fn survives(&self) -> Checked<()> {
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
        self.lockstep.attempt(&Op::Reopen { clean: false })?;
        let kv = self.lockstep.world.store.kv();
        let found = Contents::of_store(kv).context("reading everything")?;
        let difference = found.difference(&Contents::of_model(&self.lockstep.model));
        difference.map_or(Ok(()), |difference| Err(Failure(difference)))
    }
}

/// An operation that needs the disk, different for each number.
fn change(n: usize) -> Op {
    let op = format!("symlink 0/{n:0200} target 0 {}", 1_000_000 + n);
    op.parse().unwrap()
}

/// A fault strikes after some operations. Returns whether an operation failed.
fn survives_fault(seed: u64, fault: Fault, errno: Errno, reopens: bool) -> Checked<bool> {
    let ops = Generator::with_seed(seed, Shape::small()).ops(150);
    let (before, after) = ops.0.split_at(50);
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

/// The same fault, as operations may fail: once or until it is mended, half done, or done all the
/// same.
fn variant(fault: Fault, n: usize) -> Fault {
    match n % 5 {
        0 => fault,
        1 => fault.forever(),
        2 => fault.after_writing(10),
        3 => fault.losing_pages(),
        _ => fault.after_the_fact(),
    }
}

/// Faults of one errno, for each kind of operation and file. At least `least` must reach a caller.
fn survives_faults(errno: Errno, injected: sim::Errno, kinds: &[OpKind], least: usize) {
    let mut reached = 0;
    let mut total = 0;
    for (n, kind) in kinds.iter().enumerate() {
        for pattern in ["*.log", "*.sst", "*.blob", "MANIFEST-*", "*"] {
            for seed in seeds(6000, 8) {
                let skip = [0, 1, 5, 20][seed as usize % 4];
                let fault = Fault::on([*kind]).path(pattern).skip(skip).error(injected);
                let fault = variant(fault, total + n);
                let what = fault.to_string();
                let failed = survives_fault(seed, fault, errno, seed % 2 == 1)
                    .unwrap_or_else(|e| panic!("seed {seed}, {what}: {e}"));
                reached += usize::from(failed);
                total += 1;
            }
        }
    }
    println!("{reached} of {total} faults reached a caller");
    assert!(
        reached >= least,
        "only {reached} of {total} faults reached a caller"
    );
}

const WRITING: [OpKind; 5] = [
    OpKind::Create,
    OpKind::Append,
    OpKind::Sync,
    OpKind::SyncDir,
    OpKind::Rename,
];

#[test]
fn failures_of_the_device_reach_the_caller() {
    let kinds = [&WRITING[..], &[OpKind::Read, OpKind::Open, OpKind::Remove]].concat();
    survives_faults(Errno::IO, sim::Errno::IO, &kinds, 40);
}

#[test]
fn a_lack_of_space_reaches_the_caller_and_ends() {
    // A flush that lacked room is tried once more, so what strikes once seldom does.
    survives_faults(Errno::NOSPC, sim::Errno::NO_SPACE, &WRITING, 25);
}

/// A flush that failed stopped the engine. Another one, such as that before a full volume takes a
/// write, comes before any change that would resume it.
#[test]
fn moving_the_log_resumes_a_store_whose_flush_failed() {
    let mut life = Life::new().unwrap();
    let make = "mknod 0/file 100644 0 0 0 1".parse().unwrap();
    assert_eq!(life.attempt(&make).unwrap(), None);
    let fault = Fault::on([OpKind::Append]).path("*.sst");
    life.vfs.inject(fault.error(sim::Errno::IO));
    assert_eq!(life.attempt(&Op::Flush {}).unwrap(), Some(Errno::IO));
    life.vfs.clear_faults();
    life.settle();
    assert_eq!(life.attempt(&Op::Flush {}).unwrap(), None);
    life.lockstep.finish().unwrap();
}

/// The disk becomes full again and again, and gets a little more space each time.
fn survives_full_disk(seed: u64, ops: &Ops) -> Checked<usize> {
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

/// A disk that stays full is not tried at every change, and once there is space nobody has to do
/// anything.
#[test]
fn once_there_is_space_the_volume_goes_on_by_itself() {
    let mut life = Life::new().unwrap();
    let setup = [
        "mknod 0/file 100644 0 0 0 1",
        "write 1 0 7*100 false",
        "sync",
    ];
    life.until_failure(&setup.map(|op| op.parse().unwrap()))
        .unwrap();
    let file = life.lockstep.world.number(Slot(1)).unwrap();
    life.vfs.set_capacity(Some(200_000));
    let ops: Vec<Op> = (0..3000).map(change).collect();
    let (done, failed) = life.until_failure(&ops).unwrap();
    assert_eq!(failed, Some(Errno::NOSPC));
    // The first change afterwards tries, the others need not.
    assert_eq!(life.attempt(&ops[done]).unwrap(), Some(Errno::NOSPC));
    let before = life.vfs.journal().len();
    for op in &ops[done + 1..done + 50] {
        assert_eq!(life.attempt(op).unwrap(), Some(Errno::NOSPC));
    }
    assert_eq!(life.attempt(&Op::Sync {}).unwrap(), Some(Errno::NOSPC));
    assert_eq!(life.vfs.journal().len(), before, "nothing was tried");
    life.lockstep.compare().unwrap();
    let content = life.lockstep.world.volume.read(file, 0, 100);
    assert_eq!(content.unwrap(), &[7; 100][..], "what is there can be read");
    let error = life.lockstep.world.error.take().unwrap().to_string();
    assert!(error.contains("goes on once there is space"), "{error}");

    life.vfs.set_capacity(None);
    life.clock.advance(PAUSE);
    for op in &ops[done..done + 50] {
        assert_eq!(life.attempt(op).unwrap(), None);
    }
    assert_eq!(life.attempt(&Op::Sync {}).unwrap(), None);
    life.survives().unwrap();
    life.lockstep.finish().unwrap();
}

/// Closing tries at once: there may be no other occasion.
#[test]
fn a_volume_is_closed_once_there_is_space() {
    let mut life = Life::new().unwrap();
    life.vfs.set_capacity(Some(200_000));
    let ops: Vec<Op> = (0..3000).map(change).collect();
    let (done, _) = life.until_failure(&ops).unwrap();
    assert_eq!(life.attempt(&ops[done]).unwrap(), Some(Errno::NOSPC));
    life.vfs.set_capacity(None);
    life.lockstep.finish().unwrap();
}

#[test]
fn a_full_disk_loses_nothing_and_ends() {
    let mut full = 0;
    for seed in seeds(7000, 10) {
        let ops = Generator::with_seed(seed, Shape::small()).ops(300);
        full += survives_full_disk(seed, &ops).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    }
    println!("the disk was full {full} times");
    assert!(full > 20, "the disk was full {full} times");
}
