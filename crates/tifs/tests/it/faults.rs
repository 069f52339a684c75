//! Operations of the disk fail: the caller gets the right error, nothing that was acknowledged is
//! lost, and the volume goes on, after opening it again or once there is space.

use rustix::io::Errno;
use tifs::file_system::FileSystem;
use tifs_testkit::failure::seeds;
use tifs_testkit::faults::{
    Life, PAUSE, WRITING, change, survives_fault, survives_full_disk, survives_small_device,
    variant,
};
use tifs_testkit::ops::{Generator, Op, Shape, Slot, Step};
use titan_testkit::sim::{self, Fault, OpKind};

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
                let ops = Generator::with_seed(seed, Shape::small()).ops(150);
                let failed = survives_fault(&ops, fault, errno, seed % 2 == 1)
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
    let make = "mknod 0/file 100644 0 0 1".parse().unwrap();
    assert_eq!(life.attempt(&make).unwrap(), None);
    let fault = Fault::on([OpKind::Append]).path("*.sst");
    life.vfs.inject(fault.error(sim::Errno::IO));
    assert_eq!(life.attempt(&Op::Flush {}.into()).unwrap(), Some(Errno::IO));
    life.vfs.clear_faults();
    life.settle();
    assert_eq!(life.attempt(&Op::Flush {}.into()).unwrap(), None);
    life.lockstep.finish().unwrap();
}

/// A disk that stays full is not tried at every change, and once there is space nobody has to do
/// anything.
#[test]
fn once_there_is_space_the_volume_goes_on_by_itself() {
    let mut life = Life::new().unwrap();
    let setup = ["mknod 0/file 100644 0 0 1", "write 1 0 7*100", "sync"];
    life.until_failure(&setup.map(|op| op.parse().unwrap()))
        .unwrap();
    let file = life.lockstep.world.number(Slot(1)).unwrap();
    life.vfs.set_capacity(Some(200_000));
    let ops: Vec<Step> = (0..3000).map(change).collect();
    let (done, failed) = life.until_failure(&ops).unwrap();
    assert_eq!(failed, Some(Errno::NOSPC));
    // The first change afterwards tries, the others need not.
    assert_eq!(life.attempt(&ops[done]).unwrap(), Some(Errno::NOSPC));
    let mut is_tried = || {
        let before = life.vfs.journal().len();
        let sync = Op::Sync {}.into();
        for op in ops[done + 1..done + 50].iter().chain([&sync]) {
            assert_eq!(life.attempt(op).unwrap(), Some(Errno::NOSPC));
        }
        life.vfs.journal().len() > before
    };
    // A job that failed may still be ending at first.
    assert!(
        (0..3).any(|_| !is_tried()),
        "the disk is tried again and again"
    );
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
    assert_eq!(life.attempt(&Op::Sync {}.into()).unwrap(), None);
    life.survives().unwrap();
    life.lockstep.finish().unwrap();
}

/// Closing tries at once: there may be no other occasion.
#[test]
fn a_volume_is_closed_once_there_is_space() {
    let mut life = Life::new().unwrap();
    life.vfs.set_capacity(Some(200_000));
    let ops: Vec<Step> = (0..3000).map(change).collect();
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

/// A store whose log takes room of the device until it is moved, with little room beneath it.
#[test]
fn a_small_device_never_fills_and_gets_its_room_back() {
    let mut refused = 0;
    for seed in seeds(7500, 12) {
        let ops = Generator::with_seed(seed, Shape::filling()).ops(300);
        let survived = survives_small_device(&ops, seed % 3 + 1);
        refused += survived.unwrap_or_else(|e| panic!("seed {seed}: {e}\n{ops}"));
    }
    println!("{refused} operations were refused");
    assert!(refused > 100, "{refused} operations were refused");
}
