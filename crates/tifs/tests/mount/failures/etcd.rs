//! Mounts of a volume on etcd with three members, of which some are killed or stopped.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::fs::{XattrFlags, fsetxattr};
use rustix::process::{Pid, Signal, kill_process};
use tifs::kv::{RemoteUrl, connect_to_ask};
use tifs_testkit::etcd::Etcd;
use titan_testkit::requirement;
use titan_testkit::setup::eventually;

use super::tifs;
use crate::places::{Volume, enter};

/// The number of rounds in which something dies.
const ROUNDS: &str = "TIFS_TEST_ROUNDS";

/// A new volume on a new cluster, mounted in a namespace of the test. Where this machine cannot,
/// the test says so and passes.
fn with(parameters: &str, test: impl FnOnce(&mut Etcd, &mut Volume)) {
    on(3, &[], parameters, test);
}

/// The same with so many members, and options of theirs.
fn on(
    members: usize,
    options: &[&str],
    parameters: &str,
    test: impl FnOnce(&mut Etcd, &mut Volume),
) {
    let device = File::options().read(true).write(true).open("/dev/fuse");
    if !enter() || requirement::met("mounts: /dev/fuse", device).is_none() {
        return;
    }
    let Some(mut etcd) = Etcd::start(members, options) else {
        return;
    };
    let url = etcd.url("files", parameters);
    let made = tifs(["mkfs", &url]);
    assert_eq!(made.status, 0, "{made:?}");
    let mut volume = Volume::of(&url);
    test(&mut etcd, &mut volume);
}

fn write_durably(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(content)?;
    file.sync_all()
}

#[test]
fn a_mount_that_was_stopped_past_its_lease_never_writes_again() {
    with("lease=2s", |etcd, first| {
        write_durably(&first.join("f"), b"first").unwrap();
        let (url, other) = (etcd.url("files", "lease=1h"), first.home().join("other"));
        fs::create_dir(&other).unwrap();
        let log = format!("log={}/other.log", first.home().display());
        let mount = ["mount", &url, other.to_str().unwrap(), "-o", &log];
        signal(first, Signal::STOP);
        eventually("the lease ends", || tifs(mount).status == 0);
        write_durably(&other.join("f"), b"second").unwrap();
        signal(first, Signal::CONT);
        let refused = write_durably(&first.join("f"), b"too late").unwrap_err();
        assert_ne!(refused.kind(), ErrorKind::NotFound, "{refused}");
        eventually("the log says why", || first.log().contains("taken over by"));
        assert_eq!(fs::read(other.join("f")).unwrap(), b"second");
        let unmounted = tifs(["umount", other.to_str().unwrap()]);
        assert_eq!(unmounted.status, 0, "{unmounted:?}");
        first.kill();
        first.check();
    });
}

#[test]
fn commands_end_in_time_and_leave_a_stopped_mount_its_volume() {
    with("lease=2s&timeout=3s", |etcd, volume| {
        write_durably(&volume.join("f"), b"first").unwrap();
        let url = etcd.url("files", "timeout=3s");
        let ask = connect_to_ask(&RemoteUrl::parse(&url).unwrap()).unwrap();
        signal(volume, Signal::STOP);
        eventually("the lease ends", || ask().unwrap().is_none());
        let dump = volume.home().join("dump");
        for arguments in [
            vec!["fsck", &url],
            vec!["dump", &url, dump.to_str().unwrap()],
        ] {
            let done = tifs(&arguments);
            let says = "does not answer: the last writes of its programs";
            assert!(done.status == 0 && done.said.contains(says), "{done:?}");
        }
        tifs(["mkfs", &url]).failed_with(&["has a volume files already"]);
        tifs(["load", &url, dump.to_str().unwrap()]).failed_with(&["has a volume files already"]);
        signal(volume, Signal::CONT);
        write_durably(&volume.join("g"), &vec![7; 1 << 20]).unwrap();
        volume.unmount();
        volume.check();
    });
}

#[test]
fn files_can_be_deleted_when_etcd_is_full() {
    let quota = (32 << 20).to_string();
    on(
        1,
        &["--quota-backend-bytes", &quota],
        "room=32MiB",
        |_, volume| {
            let path = |number: u32| volume.join(format!("f{number}"));
            let make = |number: u32| {
                let file = File::create(path(number))?;
                let value = vec![number as u8; 60_000];
                fsetxattr(&file, "user.v", &value, XattrFlags::empty())?;
                std::io::Result::Ok(())
            };
            let (number, full) = (0..)
                .find_map(|number| Some((number, make(number).err()?)))
                .unwrap();
            assert_eq!(full.kind(), ErrorKind::StorageFull, "{full}");
            for number in 0..number {
                fs::remove_file(path(number)).unwrap();
            }
            eventually("there is room again", || make(number + 1).is_ok());
            volume.unmount();
            volume.check();
        },
    );
}

#[test]
fn blocks_within_the_mount_point_are_refused() {
    let device = File::options().read(true).write(true).open("/dev/fuse");
    if !enter() || requirement::met("mounts: /dev/fuse", device).is_none() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mountpoint = dir.path().join("mount");
    fs::create_dir(&mountpoint).unwrap();
    for blocks in [mountpoint.join("blocks/of"), dir.path().to_owned()] {
        let url = format!("etcd://127.0.0.1:1/v?blocks=file://{}", blocks.display());
        let refused = tifs(["mount", &url, mountpoint.to_str().unwrap()]);
        refused.failed_with(&["the blocks ", "must not be inside one another"]);
    }
}

#[test]
fn an_object_store_that_is_gone_is_an_error_and_the_mount_goes_on() {
    with("timeout=2s", |etcd, volume| {
        let large = vec![7; 1 << 20];
        write_durably(&volume.join("before"), &large).unwrap();
        let (blocks, moved) = (etcd.blocks(), etcd.blocks().with_extension("moved"));
        fs::rename(&blocks, &moved).unwrap();
        // So that it is no directory.
        fs::write(&blocks, b"").unwrap();
        assert!(write_durably(&volume.join("during"), &large).is_err());
        fs::remove_file(&blocks).unwrap();
        fs::rename(&moved, &blocks).unwrap();
        // An unmount would say that it lacks data.
        fs::remove_file(volume.join("during")).unwrap();
        write_durably(&volume.join("after"), &large).unwrap();
        for name in ["before", "after"] {
            assert_eq!(fs::read(volume.join(name)).unwrap(), large);
        }
        // Its place is enough, with the members in any order.
        let members = etcd.endpoints();
        let other: Vec<&str> = members.rsplit(',').collect();
        let unmounted = tifs(["umount", &format!("etcd://{}/files", other.join(","))]);
        assert_eq!(unmounted.status, 0, "{unmounted:?}");
        volume.wait();
        volume.check();
    });
}

/// Nothing that was acknowledged is lost when a leader, a follower, a majority or the mount dies,
/// while files are written, replaced and renamed.
#[test]
fn what_was_synced_survives_the_death_of_members_and_of_the_mount() {
    let rounds = std::env::var(ROUNDS).map_or(8, |rounds| rounds.parse().unwrap());
    let seed = std::env::var("TITAN_TEST_SEED")
        .map_or_else(|_| fastrand::u64(..), |seed| seed.parse().unwrap());
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    with("timeout=20s&lease=10s", |etcd, volume| {
        let mut known = BTreeMap::new();
        for round in 0..rounds {
            let what = Death::ALL[usize::from(random.u8(..)) % Death::ALL.len()];
            println!("round {round}: {what:?}");
            let ends = AtomicBool::new(false);
            // A path that leads to the mount alone, also when it is gone.
            let held = File::open(volume.path()).unwrap();
            let root = PathBuf::from(format!("/proc/self/fd/{}", held.as_raw_fd()));
            let ahead = Duration::from_millis(random.u64(50..600));
            let written = std::thread::scope(|scope| {
                let writer = scope.spawn(|| write_until(&root, round, &ends));
                std::thread::sleep(ahead);
                what.strike(etcd, volume, &mut random);
                ends.store(true, Ordering::Relaxed);
                writer.join().unwrap()
            });
            drop(held);
            what.heal(etcd, volume);
            let root = volume.path();
            eventually("the mount goes on", || fs::read_dir(&root).is_ok());
            known.extend(written);
            remove_unfinished(&root);
            for (path, content) in &known {
                assert_eq!(&fs::read(volume.join(path)).unwrap(), content, "{path:?}");
            }
        }
        volume.unmount();
        volume.check();
    });
}

/// Writes files until told to end, or until an error. Returns those whose sync succeeded.
fn write_until(root: &Path, round: u32, ends: &AtomicBool) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut written = BTreeMap::new();
    for number in 0u32.. {
        let content = vec![number as u8; 1 + (number as usize * 7919) % 100_000];
        let name = PathBuf::from(format!("r{round}-{number}"));
        let temporary = root.join(format!("t{round}-{number}"));
        let done = write_durably(&temporary, &content)
            .and_then(|()| fs::rename(&temporary, root.join(&name)));
        if done.is_err() || ends.load(Ordering::Relaxed) {
            break;
        }
        written.insert(name, content);
    }
    written
}

/// Sends a signal to the process of a mount.
fn signal(volume: &Volume, signal: Signal) {
    let process = Pid::from_raw(volume.process().cast_signed()).unwrap();
    kill_process(process, signal).unwrap();
}

/// Removes files that lack data: an unmount would say so.
fn remove_unfinished(root: &Path) {
    for entry in fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        if path
            .file_name()
            .unwrap()
            .as_encoded_bytes()
            .starts_with(b"t")
        {
            fs::remove_file(path).unwrap();
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Death {
    OfTheLeader,
    OfAFollower,
    OfAMajority,
    OfTheMount,
    SleepOfTheLeader,
    SleepOfAFollower,
    SleepOfAMajority,
    SleepOfTheMount,
}

impl Death {
    const ALL: [Death; 8] = [
        Death::OfTheLeader,
        Death::OfAFollower,
        Death::OfAMajority,
        Death::OfTheMount,
        Death::SleepOfTheLeader,
        Death::SleepOfAFollower,
        Death::SleepOfAMajority,
        Death::SleepOfTheMount,
    ];

    /// Kills or stops, and lets the writer meet that.
    fn strike(self, etcd: &mut Etcd, volume: &mut Volume, random: &mut fastrand::Rng) {
        let leader = etcd.leader().unwrap_or(0);
        let follower = (leader + 1 + random.usize(..2)) % 3;
        match self {
            Death::OfTheLeader => etcd.kill(leader),
            Death::OfAFollower => etcd.kill(follower),
            Death::OfAMajority => {
                etcd.kill(leader);
                etcd.kill(follower);
            }
            Death::OfTheMount => volume.kill(),
            Death::SleepOfTheLeader => etcd.stop(leader),
            Death::SleepOfAFollower => etcd.stop(follower),
            Death::SleepOfAMajority => {
                etcd.stop(leader);
                etcd.stop(follower);
            }
            Death::SleepOfTheMount => signal(volume, Signal::STOP),
        }
        std::thread::sleep(Duration::from_millis(random.u64(100..3000)));
        // Or the writer would wait until its deadline, or for ever.
        match self {
            Death::OfAMajority => etcd.restart(leader),
            Death::SleepOfAMajority => etcd.go_on(leader),
            Death::SleepOfTheMount => signal(volume, Signal::CONT),
            _ => {}
        }
    }

    /// Brings back what died.
    fn heal(self, etcd: &mut Etcd, volume: &mut Volume) {
        for member in 0..etcd.len() {
            etcd.go_on(member);
            etcd.restart(member);
        }
        etcd.wait_for_leader();
        if let Death::OfTheMount = self {
            eventually("the volume is free", || {
                let holder = tifs(["fsck", volume.store().to_str().unwrap()]);
                holder.status == 0
            });
            volume.mount();
        }
    }
}
