//! A volume in use, mount points that cannot be used, what `mount` and `umount` are told.

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use rustix::mount::UnmountFlags;
use tifs::fuse::{Options, Session};
use tifs::kv::MemoryKv;
use tifs::volume::VolumeOptions;
use titan_testkit::setup::eventually;

use super::{ended, tifs};
use crate::places::{TIFS, Volume, run};

#[test]
fn a_volume_in_use_is_left_alone() {
    Volume::with(|volume| {
        let (store, other) = (volume.store(), volume.home().join("other"));
        let (store, place) = (store.to_str().unwrap(), volume.path());
        fs::create_dir(&other).unwrap();
        let other = other.to_str().unwrap();
        let is_refused = || {
            let in_use = ["in use", "tifs umount", place.to_str().unwrap()];
            tifs(["mount", store, other]).failed_with(&in_use);
            tifs(["mount", store, other, "-o", "ro"]).failed_with(&in_use);
            tifs(["mkfs", store]).failed_with(&["has a volume"]);
            fs::write(volume.join("f"), "still served").unwrap();
        };
        is_refused();
        // Somebody takes the file for a leftover.
        let lock = Path::new(store).join("LOCK");
        fs::remove_file(&lock).unwrap();
        is_refused();
        File::create(&lock).unwrap();
        is_refused();
        volume.unmount();
        volume.check();
    });
}

/// A script may hold a lock or read a pipe while it mounts: they end with the script.
#[test]
fn a_mount_in_the_background_keeps_nothing_of_its_caller_open() {
    Volume::with(|volume| {
        volume.unmount();
        let held = volume.home().join("held");
        let said = mount_by_script(volume, &held, "--json mount");
        let said: serde_json::Value = serde_json::from_slice(&said).unwrap();
        let _own = File::open(&held).unwrap();
        assert!(has_open("self", &held));
        assert!(!has_open(&said["pid"].to_string(), &held));
        let unmounted = tifs([OsStr::new("umount"), volume.path().as_os_str()]);
        assert_eq!(unmounted.status, 0, "{unmounted:?}");
        volume.check();
    });
}

/// Mounts a volume by a script that has `held` open as descriptor 9. Returns the output.
fn mount_by_script(volume: &Volume, held: &Path, mount: &str) -> Vec<u8> {
    let script = format!(r#"exec 9>"$1" && exec "$0" {mount} "$2" "$3""#);
    let mut shell = Command::new("sh");
    shell.args(["-c", &script, TIFS]);
    let mounted = run(shell.args([held, &volume.store(), &volume.path()]));
    assert!(mounted.status.success(), "{mounted:?}");
    mounted.stdout
}

/// Whether a process has a file open, by any path.
fn has_open(process: &str, file: &Path) -> bool {
    let identity = |file: &Path| fs::metadata(file).map(|it| (it.dev(), it.ino())).ok();
    let wanted = identity(file).unwrap();
    let mut open = fs::read_dir(format!("/proc/{process}/fd")).unwrap();
    open.any(|entry| identity(&entry.unwrap().path()) == Some(wanted))
}

#[test]
fn a_mount_in_the_background_writes_its_log_to_a_descriptor_of_its_caller() {
    Volume::with(|volume| {
        volume.unmount();
        let log = volume.home().join("log");
        // Every operation is slow, and the log says so.
        mount_by_script(volume, &log, "mount -o slow=1ns,log=/dev/fd/9");
        fs::write(volume.join("file"), "slow").unwrap();
        let unmounted = tifs([OsStr::new("umount"), volume.path().as_os_str()]);
        assert_eq!(unmounted.status, 0, "{unmounted:?}");
        assert!(!fs::read_to_string(&log).unwrap().is_empty());
        volume.check();
    });
}

/// As if the file system had no locks of directories, or the process was of another version.
#[test]
fn a_volume_that_the_table_of_mounts_shows_is_in_use_without_locks_too() {
    Volume::with(|volume| {
        volume.unmount();
        let (store, other) = (volume.store(), volume.home().join("other"));
        let place = volume.path();
        fs::create_dir(&other).unwrap();
        // Something that says that it is the volume in the directory, and has nothing locked there.
        let kv = Arc::new(MemoryKv::new());
        let options = VolumeOptions::default();
        tifs::volume::Volume::make(&*kv, &options).unwrap();
        let served = tifs::volume::Volume::open(kv, options).unwrap();
        let options = Options {
            source: store.clone().into(),
            ..Options::default()
        };
        let session = Session::mount(Arc::new(served), &other, &options).unwrap();
        let in_use = ["in use", "tifs umount", other.to_str().unwrap()];
        let mount = || tifs([OsStr::new("mount"), store.as_os_str(), place.as_os_str()]);
        mount().failed_with(&in_use);
        assert!(!volume.is_mounted());
        session.unmounter().unmount().unwrap();
        session.wait().unwrap();
        volume.mount();
        volume.unmount();
        volume.check();
    });
}

#[test]
fn a_mounted_volume_is_dumped_checked_and_described_as_of_now() {
    Volume::with(|volume| {
        let (home, place) = (volume.home().to_owned(), volume.path());
        let store = volume.store();
        let running = std::sync::atomic::AtomicBool::new(true);
        let of = |n: usize| format!("{n}").repeat(3000);
        for n in 0..20 {
            fs::write(volume.join(format!("before-{n}")), of(n)).unwrap();
        }
        std::thread::scope(|scope| {
            // A program that goes on meanwhile: each file is complete before the next one is begun.
            scope.spawn(|| {
                for n in 0.. {
                    if !running.load(std::sync::atomic::Ordering::Relaxed) {
                        break;
                    }
                    fs::write(place.join(format!("beside-{n}")), of(n)).unwrap();
                    let old = place.join(format!("beside-{}", n.max(10) - 10));
                    let _ = (n >= 10).then(|| fs::remove_file(old).unwrap());
                }
            });
            for (round, of) in [&store, &place].into_iter().enumerate() {
                let last = format!("last-{round}");
                // Not synced, and still in the kernel's cache.
                fs::write(place.join(&last), &last).unwrap();
                let dump = home.join(format!("dump-{round}"));
                let copy = home.join(format!("copy-{round}"));
                let arguments = [OsStr::new("dump"), of.as_os_str(), dump.as_os_str()];
                let dumped = tifs(arguments);
                assert_eq!(dumped.status, 0, "{dumped:?}");
                assert!(
                    dumped.said.contains("in use; this is as of 20"),
                    "{dumped:?}"
                );
                let arguments = [OsStr::new("load"), copy.as_os_str(), dump.as_os_str()];
                assert_eq!(tifs(arguments).status, 0);
                assert_eq!(tifs([OsStr::new("fsck"), copy.as_os_str()]).status, 0);
                check_copy(&copy, &home.join("other"), &last);
                let checked = tifs([OsStr::new("fsck"), of.as_os_str()]);
                assert_eq!(checked.status, 0, "{checked:?}");
                assert!(checked.said.contains("in use"), "{checked:?}");
                assert_eq!(tifs([OsStr::new("stats"), of.as_os_str()]).status, 0);
            }
            running.store(false, std::sync::atomic::Ordering::Relaxed);
        });
        volume.unmount();
        volume.check();
    });
}

/// The volume in `copy` has what was there when it was dumped: everything from before, and a run of
/// what was written beside.
fn check_copy(copy: &Path, place: &Path, last: &str) {
    fs::create_dir_all(place).unwrap();
    let mounted = tifs([OsStr::new("mount"), copy.as_os_str(), place.as_os_str()]);
    assert_eq!(mounted.status, 0, "{mounted:?}");
    let read = |name: &str| fs::read_to_string(place.join(name)).unwrap();
    for n in 0..20 {
        assert_eq!(read(&format!("before-{n}")), format!("{n}").repeat(3000));
    }
    assert_eq!(read(last), last);
    let names = fs::read_dir(place)
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    let number = |name: &OsStr| {
        name.to_str()?
            .strip_prefix("beside-")?
            .parse::<usize>()
            .ok()
    };
    let mut beside: Vec<usize> = names.filter_map(|name| number(&name)).collect();
    beside.sort_unstable();
    assert!(beside.len() <= 12, "{beside:?}");
    for pair in beside.windows(2) {
        assert_eq!(pair[0] + 1, pair[1], "{beside:?}");
    }
    // The last one may be as it was when it was created, or while it was written.
    for n in beside.iter().rev().skip(1) {
        assert_eq!(read(&format!("beside-{n}")), format!("{n}").repeat(3000));
    }
    assert_eq!(tifs([OsStr::new("umount"), place.as_os_str()]).status, 0);
}

#[test]
fn a_mount_point_is_a_directory_without_a_mount() {
    Volume::with(|volume| {
        let home = volume.home().to_owned();
        File::create(home.join("file")).unwrap();
        let new = home.join("new");
        let mount = |place: &str| {
            let place = home.join(place);
            tifs([OsStr::new("mount"), new.as_os_str(), place.as_os_str()])
        };
        mount("none").failed_with(&["mount point", "none", "No such file"]);
        mount("file").failed_with(&["mount point", "file", "no directory"]);
        mount("mount").failed_with(&["mount point", "busy", volume.store().to_str().unwrap()]);
        // No volume was made for a mount that cannot be.
        assert!(!new.exists());
    });
}

#[test]
fn a_mount_that_fails_late_leaves_nothing_mounted() {
    Volume::with(|volume| {
        volume.unmount();
        let (store, place) = (volume.store(), volume.path());
        let (store, place) = (store.to_str().unwrap(), place.to_str().unwrap());
        let log = ["mount", store, place, "-o", "log=/nowhere/log"];
        tifs(log).failed_with(&["/nowhere/log"]);
        assert!(!volume.is_mounted());
        let option = ["mount", store, place, "-o", "swift"];
        tifs(option).failed_with(&["no option swift", "there are"]);
        let remount = ["mount", store, place, "-o", "remount,ro"];
        tifs(remount).failed_with(&["remount", "tifs umount"]);
        volume.mount();
    });
}

#[test]
fn a_volume_can_be_mounted_again_as_soon_as_its_mount_is_gone() {
    Volume::with(|volume| {
        let (store, place) = (volume.store(), volume.path());
        let (store, place) = (store.to_str().unwrap(), place.to_str().unwrap());
        for round in 0..10 {
            fs::write(volume.join("file"), vec![round; 8 << 20]).unwrap();
            // As umount(8) does it, which does not wait for the process. A process that another
            // test is about to start has the open files of this one for a moment.
            while let Err(error) = rustix::mount::unmount(place, UnmountFlags::empty()) {
                assert_eq!(error, rustix::io::Errno::BUSY);
                std::thread::yield_now();
            }
            let mounted = tifs(["mount", store, place]);
            assert_eq!(mounted.status, 0, "{mounted:?}");
            assert_eq!(fs::read(volume.join("file")).unwrap()[0], round);
        }
        volume.unmount();
        volume.check();
    });
}

#[test]
fn a_mount_that_fails_leaves_nothing_new() {
    Volume::with(|volume| {
        volume.unmount();
        let (place, empty) = (volume.path(), volume.home().join("empty"));
        let new = volume.home().join("new");
        fs::create_dir(&empty).unwrap();
        fs::set_permissions(&empty, Permissions::from_mode(0o710)).unwrap();
        let entries = |directory: &Path| fs::read_dir(directory).unwrap().count();
        let mount = |dir: &Path, option| {
            let (dir, place) = (dir.to_str().unwrap(), place.to_str().unwrap());
            tifs(["mount", dir, place, "-o", option])
        };
        mount(&empty, "ro").failed_with(&["no volume"]);
        mount(&empty, "nocreate").failed_with(&["no volume"]);
        mount(&new, "nocreate").failed_with(&["no directory"]);
        for (option, said) in [("subdir=none", "none"), ("log=/nowhere/log", "/nowhere")] {
            mount(&new, option).failed_with(&[said]);
            mount(&empty, option).failed_with(&[said]);
        }
        let mut without_rights = Command::new("setpriv");
        without_rights.args(["--bounding-set", "-sys_admin", TIFS, "mount"]);
        ended(without_rights.args([&new, &place])).failed_with(&["only root"]);
        assert!(!new.exists() && !volume.is_mounted());
        assert_eq!(entries(&empty), 0);
        let mode = fs::metadata(&empty).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o710);
        // What was there stays, and no log is added.
        mount(&volume.store(), "subdir=none").failed_with(&["none"]);
        assert!(!volume.store().join("tifs.log").exists());
        volume.check();
    });
}

#[test]
fn a_new_volume_is_announced_and_made_in_a_directory_that_exists() {
    Volume::with(|volume| {
        let home = volume.home().to_owned();
        // Served in the foreground.
        volume.terminate();
        volume.wait();
        let said = volume.log();
        let lines: Vec<&str> = said.lines().collect();
        assert!(lines[0].starts_with("made a new volume in "), "{said}");
        assert!(lines[1].starts_with("mounted "), "{said}");

        let place = volume.path();
        let place = place.to_str().unwrap();
        let missing = home.join("disk");
        let inside = missing.join("volume");
        let mounted = tifs(["mount", inside.to_str().unwrap(), place]);
        mounted.failed_with(&["no directory", missing.to_str().unwrap()]);
        assert!(!missing.exists());

        let new = home.join("new");
        let announcement = format!("made a new volume in {}\n", new.display());
        for expected in [announcement.as_str(), ""] {
            let output = run(Command::new(TIFS).args(["mount", new.to_str().unwrap(), place]));
            assert!(output.status.success(), "{output:?}");
            assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
            assert_eq!(tifs(["umount", place]).status, 0);
        }
    });
}

#[test]
fn a_path_need_not_be_text() {
    Volume::with(|volume| {
        let home = volume.home().to_owned();
        let (dir, place) = (b"volume \xff".as_slice(), b"mount \xfe".as_slice());
        let dir = home.join(OsStr::from_bytes(dir));
        let place = home.join(OsStr::from_bytes(place));
        fs::create_dir(&place).unwrap();
        let mut mount = Command::new(TIFS);
        mount.args(["mount", "--json"]).args([&dir, &place]);
        let mounted = ended(&mut mount);
        assert_eq!(mounted.status, 0, "{mounted:?}");
        fs::write(place.join("f"), "content").unwrap();
        let unmounted = ended(Command::new(TIFS).arg("umount").arg(&place));
        assert_eq!(unmounted.status, 0, "{unmounted:?}");
        assert!(!place.join("f").exists());
        let checked = ended(Command::new(TIFS).arg("fsck").arg(&dir));
        assert_eq!(checked.status, 0, "{checked:?}");
    });
}

#[test]
fn only_a_volume_that_nobody_uses_is_unmounted() {
    Volume::with(|volume| {
        let file = File::create(volume.join("f")).unwrap();
        let (place, home) = (volume.path(), volume.home());
        let umount = |path: &std::path::Path| tifs(["umount", path.to_str().unwrap()]);
        umount(&place).failed_with(&["busy", "files are open"]);
        umount(home).failed_with(&["no volume is mounted"]);
        file.sync_all().unwrap();
        drop(file);
        volume.unmount();
        umount(&place).failed_with(&["no volume is mounted"]);
        volume.check();
    });
}

/// The command line that mount(8) has for helpers, and a process in the background.
#[test]
fn the_helper_of_mount_serves_in_the_background() {
    Volume::with(|volume| {
        fs::write(volume.join("f"), "content").unwrap();
        volume.unmount();
        let helper = volume.home().join("mount.tifs");
        symlink(TIFS, &helper).unwrap();
        let mut command = Command::new(&helper);
        command.args([volume.store(), volume.path()]);
        command.args(["-o", "rw,nosuid,noauto,x-systemd.automount"]);
        let mounted = ended(&mut command);
        assert_eq!(mounted.status, 0, "{mounted:?}");
        // It answers as soon as the helper has returned.
        assert_eq!(fs::read(volume.join("f")).unwrap(), b"content");
        fs::write(volume.join("g"), "more").unwrap();
        let unmounted = tifs(["umount", volume.path().to_str().unwrap()]);
        assert_eq!(unmounted.status, 0, "{unmounted:?}");
        volume.check();
        assert!(volume.store().join("tifs.log").exists());

        // As mount(8) calls it for the type that the table of mounts shows.
        let (store, place) = (volume.store(), volume.path());
        let (store, place) = (store.to_str().unwrap(), place.to_str().unwrap());
        tifs([store, place, "-o", "rw,remount,dev,suid"]).failed_with(&["remount", "tifs umount"]);
        let mounted = tifs([store, place, "-o", "rw,dev,suid"]);
        assert_eq!(mounted.status, 0, "{mounted:?}");
        assert_eq!(tifs(["umount", place]).status, 0);

        // With unknown options, and with those of fstab.
        let mut command = Command::new(&helper);
        command.args([volume.store(), volume.path()]);
        command.args(["-o", "ro,swift,size=1g,nodiratime,lazytime,owner"]);
        ended(&mut command).failed_with(&["no option swift"]);
        let mounted = ended(command.arg("-s"));
        assert_eq!(mounted.status, 0, "{mounted:?}");
        assert_eq!(fs::read(volume.join("g")).unwrap(), b"more");
        assert!(fs::write(volume.join("g"), "").is_err());
        let unmounted = tifs(["umount", volume.path().to_str().unwrap()]);
        assert_eq!(unmounted.status, 0, "{unmounted:?}");
    });
}

#[test]
fn a_volume_that_is_served_without_a_mount_is_in_use_by_its_process() {
    Volume::with(|volume| {
        let file = File::create(volume.join("f")).unwrap();
        rustix::mount::unmount(volume.path(), UnmountFlags::DETACH).unwrap();
        let store = volume.store();
        let process = format!("process {} (tifs)", volume.process());
        let other = volume.home().join("other");
        fs::create_dir(&other).unwrap();
        let mount = ["mount", store.to_str().unwrap(), other.to_str().unwrap()];
        tifs(mount).failed_with(&["in use by", &process]);
        drop(file);
        volume.wait();
    });
}

#[test]
fn commands_say_as_json_what_they_did() {
    Volume::with(|volume| {
        symlink("nowhere", volume.join("link")).unwrap();
        let told = |arguments: &[&str], path: &Path| -> serde_json::Value {
            let output = run(Command::new(TIFS).args(arguments).arg(path));
            serde_json::from_slice(&output.stdout).unwrap()
        };
        // The link, not what it leads to.
        let link = told(&["info", "--json"], &volume.join("link"));
        assert_eq!(
            (&link["kind"], &link["size"]),
            (&"symlink".into(), &7.into())
        );
        // And what it leads to.
        symlink(volume.path(), volume.home().join("to-mount")).unwrap();
        let stats = told(&["stats", "--json"], &volume.home().join("to-mount"));
        assert_eq!(stats["inodes"], 2);
        let unmounted = told(&["umount", "--json"], &volume.join("../mount"));
        volume.wait();
        let (store, place) = (volume.store(), volume.path());
        assert_eq!(unmounted["dir"].as_str(), store.to_str());
        assert_eq!(unmounted["mountpoint"].as_str(), place.to_str());
    });
}

#[test]
fn paths_of_any_bytes_are_taken_and_shown() {
    Volume::with(|volume| {
        volume.unmount();
        let path = |name: &[u8]| volume.home().join(OsStr::from_bytes(name));
        let (dir, place) = (path(b"v a,b\\c\nd\xff"), path(b"m x,y\\z\nq\xfe"));
        fs::create_dir(&place).unwrap();
        let told = |arguments: &[&OsStr]| {
            let output = run(Command::new(TIFS).arg("--json").args(arguments));
            assert!(output.status.success(), "{output:?}");
            serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()
        };
        let (dir, place) = (dir.as_os_str(), place.as_os_str());
        let made = told(&["mkfs".as_ref(), dir]);
        assert_eq!(made["dir"], dir.to_string_lossy().as_ref());
        told(&["mount".as_ref(), dir, place]);
        fs::write(Path::new(place).join("file"), "content").unwrap();
        told(&["stats".as_ref(), place]);
        let unmounted = told(&["umount".as_ref(), place]);
        assert_eq!(unmounted["dir"], dir.to_string_lossy().as_ref());
        assert_eq!(unmounted["mountpoint"], place.to_string_lossy().as_ref());
        assert_eq!(told(&["fsck".as_ref(), dir])["inodes"], 2);
    });
}

#[test]
fn a_volume_that_was_moved_while_mounted_goes_on() {
    Volume::with(|volume| {
        let (store, elsewhere) = (volume.store(), volume.home().join("elsewhere"));
        fs::write(volume.join("before"), "before").unwrap();
        rustix::fs::syncfs(File::open(volume.path()).unwrap()).unwrap();
        fs::rename(&store, &elsewhere).unwrap();
        // Another volume gets its place.
        assert_eq!(tifs([OsStr::new("mkfs"), store.as_os_str()]).status, 0);
        let names = |dir: &Path| {
            let names = fs::read_dir(dir)
                .unwrap()
                .map(|entry| entry.unwrap().file_name());
            names.collect::<std::collections::BTreeSet<_>>()
        };
        let before = names(&store);
        for n in 0..20 {
            fs::write(volume.join(format!("file-{n}")), vec![n; 200_000]).unwrap();
        }
        assert_eq!(names(&store), before);
        let moved = elsewhere.to_str().unwrap();
        let process = format!("process {}", volume.process());
        let mkdir = volume.home().join("other");
        fs::create_dir(&mkdir).unwrap();
        tifs(["mount", moved, mkdir.to_str().unwrap()]).failed_with(&["in use", &process]);
        // The other one is not in use.
        let (store, other) = (store.to_str().unwrap(), mkdir.to_str().unwrap());
        let mounted = tifs(["mount", store, other]);
        assert_eq!(mounted.status, 0, "{mounted:?}");
        assert_eq!(tifs(["umount", other]).status, 0);
        volume.unmount();
        eventually("the end of the other one's process", || {
            let _ = fs::remove_dir_all(store);
            !Path::new(store).exists()
        });
        fs::rename(&elsewhere, store).unwrap();
        volume.check();
        volume.mount();
        assert_eq!(fs::read(volume.join("before")).unwrap(), b"before");
        for n in 0..20 {
            let content = fs::read(volume.join(format!("file-{n}"))).unwrap();
            assert!(content == vec![n; 200_000]);
        }
    });
}

#[test]
fn what_umount_says_right_after_a_kill_is_true() {
    Volume::with(|volume| {
        for round in 0..10 {
            fs::write(volume.join("synced"), format!("{round}")).unwrap();
            File::open(volume.join("synced"))
                .unwrap()
                .sync_all()
                .unwrap();
            volume.kill_without_waiting();
            let place = volume.path();
            let unmounted = tifs([OsStr::new("umount"), place.as_os_str()]);
            assert_eq!(unmounted.status, 0, "{round}: {unmounted:?}");
            assert!(unmounted.said.contains("had ended before"), "{unmounted:?}");
            assert!(!volume.is_mounted());
            volume.check();
            volume.mount();
            let content = fs::read_to_string(volume.join("synced")).unwrap();
            assert_eq!(content, format!("{round}"));
        }
    });
}

#[test]
fn a_dead_mount_is_named_and_can_be_unmounted() {
    Volume::with(|volume| {
        volume.kill_and_leave_mounted();
        let (store, place) = (volume.store(), volume.path());
        let (store, place) = (store.to_str().unwrap(), place.to_str().unwrap());
        for command in [
            &["mount", store, place][..],
            &["stats", place],
            &["info", place],
        ] {
            tifs(command).failed_with(&["process has ended", "tifs umount", place]);
        }
        let unmounted = tifs(["umount", place]);
        assert_eq!(unmounted.status, 0, "{unmounted:?}");
        volume.mount();
    });
}
