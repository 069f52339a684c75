//! Permissions, times, extended attributes, the accounts.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown};
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, Timespec, Timestamps, XattrFlags, getxattr, listxattr, mkdir,
    mknodat, removexattr, setxattr, utimensat,
};
use rustix::io::Errno;

use super::{allocated, create};
use crate::places::Volume;

/// A time of a file, in nanoseconds.
fn modified(path: &Path) -> i128 {
    let stat = fs::metadata(path).unwrap();
    i128::from(stat.mtime()) * 1_000_000_000 + i128::from(stat.mtime_nsec())
}

fn changed(path: &Path) -> i128 {
    let stat = fs::metadata(path).unwrap();
    i128::from(stat.ctime()) * 1_000_000_000 + i128::from(stat.ctime_nsec())
}

#[test]
fn extended_attributes_are_kept() {
    Volume::with(|volume| {
        let path = volume.join("f");
        create(&path);
        setxattr(&path, "user.a", b"value", XattrFlags::empty()).unwrap();
        let again = setxattr(&path, "user.a", b"other", XattrFlags::CREATE);
        assert_eq!(again, Err(Errno::EXIST));
        volume.unmount();
        volume.mount();
        let mut value = [0; 64];
        assert_eq!(getxattr(&path, "user.a", &mut value), Ok(5));
        assert!(value.starts_with(b"value"));
        assert_eq!(listxattr(&path, &mut value), Ok(7));
        removexattr(&path, "user.a").unwrap();
        assert_eq!(getxattr(&path, "user.a", &mut value), Err(Errno::NODATA));
    });
}

#[test]
fn permissions_and_owners_do_not_change_the_time_of_the_content() {
    Volume::with(|volume| {
        let path = volume.join("f");
        create(&path);
        let before = (modified(&path), changed(&path));
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        let between = changed(&path);
        chown(&path, Some(7), Some(8)).unwrap();
        assert_eq!(modified(&path), before.0);
        assert!(before.1 <= between && between <= changed(&path));
    });
}

/// The volume and the kernel stamp in turns.
#[test]
fn times_never_go_back() {
    Volume::with(|volume| {
        let mut last = 0;
        for i in 0..200 {
            let path = volume.join(format!("f{i}"));
            let file = create(&path);
            let created = changed(&path);
            file.write_all_at(b"content", 0).unwrap();
            let written = changed(&path);
            fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
            let set = changed(&path);
            let order = [last, created, written, set];
            assert!(order.is_sorted(), "{i}: {order:?}");
            last = modified(&volume.path()).max(set);
        }
    });
}

#[test]
fn a_new_file_keeps_the_bits_it_was_created_with() {
    Volume::with(|volume| {
        let path = volume.join("f");
        let mode = Mode::from_raw_mode(0o6755);
        mknodat(CWD, &path, FileType::RegularFile, mode, 0).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o6755);
        let sticky = volume.join("d");
        mkdir(&sticky, Mode::from_raw_mode(0o1777)).unwrap();
        assert_eq!(fs::metadata(&sticky).unwrap().mode() & 0o7777, 0o1777);
    });
}

#[test]
fn a_directory_with_set_group_id_gives_its_group() {
    Volume::with(|volume| {
        let directory = volume.join("d");
        fs::create_dir(&directory).unwrap();
        chown(&directory, None, Some(77)).unwrap();
        fs::set_permissions(&directory, Permissions::from_mode(0o2755)).unwrap();
        create(directory.join("f"));
        fs::create_dir(directory.join("inner")).unwrap();
        let file = fs::metadata(directory.join("f")).unwrap();
        let inner = fs::metadata(directory.join("inner")).unwrap();
        assert_eq!((file.gid(), file.mode() & 0o2000), (77, 0));
        assert_eq!((inner.gid(), inner.mode() & 0o2000), (77, 0o2000));
    });
}

#[test]
fn a_write_takes_privileges_away() {
    Volume::with(|volume| {
        let path = volume.join("f");
        let file = create(&path);
        fs::set_permissions(&path, Permissions::from_mode(0o6777)).unwrap();
        tifs_testkit::users::ALICE.does(|| {
            let file = File::options().write(true).open(&path).unwrap();
            file.write_all_at(b"new", 0).unwrap();
        });
        file.sync_all().unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o777);
    });
}

#[test]
fn times_stay_as_they_are_when_the_kernel_writes_its_cache() {
    Volume::with(|volume| {
        let paths: Vec<_> = (0..60).map(|i| volume.join(format!("f{i}"))).collect();
        let files: Vec<_> = paths.iter().map(create).collect();
        for file in &files {
            file.write_all_at(&[1; 6000], 0).unwrap();
        }
        let times = || -> Vec<_> {
            let times = paths.iter().map(|path| (modified(path), changed(path)));
            times.collect()
        };
        let before = times();
        // The kernel writes all files at once, and tells their times without waiting for that.
        rustix::fs::syncfs(&files[0]).unwrap();
        fs::write(volume.join("later"), "later").unwrap();
        drop(files);
        volume.unmount();
        volume.mount();
        let after = times();
        let moved = after
            .iter()
            .zip(&before)
            .filter(|(after, before)| after != before);
        assert_eq!(moved.count(), 0);
        assert!(modified(&volume.join("later")) > before[0].0);
    });
}

#[test]
fn times_have_nanoseconds() {
    Volume::with(|volume| {
        let path = volume.join("f");
        let file = create(&path);
        let time = |tv_sec, tv_nsec| Timespec { tv_sec, tv_nsec };
        let times = Timestamps {
            last_access: time(-5, 123_456_789),
            last_modification: time(1 << 40, 987_654_321),
        };
        rustix::fs::futimens(&file, &times).unwrap();
        drop(file);
        volume.unmount();
        volume.mount();
        let stat = fs::metadata(&path).unwrap();
        assert_eq!((stat.atime(), stat.atime_nsec()), (-5, 123_456_789));
        assert_eq!((stat.mtime(), stat.mtime_nsec()), (1 << 40, 987_654_321));
    });
}

#[test]
fn each_change_of_a_directory_changes_its_times() {
    Volume::with(|volume| {
        let directory = volume.join("d");
        fs::create_dir(&directory).unwrap();
        let past = Timespec {
            tv_sec: 1000,
            tv_nsec: 0,
        };
        let settle = || {
            let times = Timestamps {
                last_access: past,
                last_modification: past,
            };
            let settled = utimensat(CWD, &directory, &times, AtFlags::empty());
            settled.unwrap();
            changed(&directory)
        };
        let mut before = settle();
        let mut step = |what: &str, result: std::io::Result<()>| {
            result.unwrap();
            let now = changed(&directory);
            assert!(modified(&directory) == now && now >= before, "{what}");
            before = settle();
        };
        let path = |name: &str| directory.join(name);
        step("create", File::create(path("f")).map(drop));
        step("link", fs::hard_link(path("f"), path("g")));
        step("rename", fs::rename(path("g"), path("h")));
        step("unlink", fs::remove_file(path("h")));
        step("mkdir", fs::create_dir(path("e")));
        step("rmdir", fs::remove_dir(path("e")));
    });
}

/// Another program may have asked for them just before the change, and the answer may have come
/// after it. So the kernel is told to ask once more, although it has forgotten them after the
/// change.
#[test]
fn the_kernel_asks_again_for_the_attributes_of_a_directory_that_changed() {
    Volume::with(|volume| {
        let directory = volume.join("d");
        fs::create_dir(&directory).unwrap();
        volume.unmount();
        volume.mount();
        let asked = || {
            fs::metadata(&directory).unwrap();
            volume.count_of("attributes")
        };
        let steps: [fn(&Path) -> std::io::Result<()>; 4] = [
            |path| fs::create_dir(path.join("e")),
            |path| File::create(path.join("f")).map(drop),
            |path| fs::rename(path.join("f"), path.join("g")),
            |path| fs::remove_file(path.join("g")),
        ];
        for step in steps {
            step(&directory).unwrap();
            // The kernel asks because of the change.
            let known = asked();
            while asked() == known {
                std::thread::yield_now();
            }
        }
    });
}

#[test]
fn a_deleted_file_takes_nothing() {
    Volume::with(|volume| {
        const BYTES: u64 = 32 << 20;
        let path = volume.join("f");
        let (before, _) = volume.accounts();
        let file = create(&path);
        file.write_all_at(&vec![1; BYTES as usize], 0).unwrap();
        assert_eq!(allocated(&file), BYTES);
        assert_eq!(volume.accounts().0, before + BYTES);
        let capacity = rustix::fs::statvfs(volume.path()).unwrap();
        let used = (capacity.f_blocks - capacity.f_bfree) * capacity.f_frsize;
        assert_eq!(used, before + BYTES);
        drop(file);
        fs::remove_file(&path).unwrap();
        volume.unmount();
        volume.mount();
        // The rest is deleted in the background.
        while volume.accounts() != (before, 0) {
            std::thread::yield_now();
        }
        volume.unmount();
        volume.check();
    });
}
