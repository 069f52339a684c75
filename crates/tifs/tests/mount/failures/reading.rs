//! Mounts that only read.

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use rustix::fs::{StatVfsMountFlags, XattrFlags, setxattr};
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount_bind, mount_remount};

use super::{errno, tifs};
use crate::places::Volume;

/// All files of a directory: size, time of the last change, content.
fn everything(directory: &Path) -> BTreeMap<String, (u64, i64, i64, Vec<u8>)> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let stat = entry.metadata().unwrap();
        let times = (stat.mtime(), stat.mtime_nsec());
        let content = fs::read(entry.path()).unwrap();
        let name = entry.file_name().into_string().unwrap();
        all.insert(name, (stat.len(), times.0, times.1, content));
    }
    all
}

#[test]
fn a_mount_that_only_reads_changes_nothing() {
    Volume::with(|volume| {
        fs::write(volume.join("f"), "content").unwrap();
        fs::create_dir(volume.join("d")).unwrap();
        volume.unmount();
        let before = everything(&volume.store());
        volume.set_options("ro");
        volume.mount();
        let (file, directory) = (volume.join("f"), volume.join("d"));
        assert_eq!(fs::read(&file).unwrap(), b"content");
        let refused = [
            errno(fs::write(volume.join("g"), "")),
            errno(File::options().append(true).open(&file)),
            errno(fs::create_dir(directory.join("e"))),
            errno(symlink("f", volume.join("s"))),
            errno(fs::hard_link(&file, volume.join("h"))),
            errno(fs::rename(&file, volume.join("g"))),
            errno(fs::remove_file(&file)),
            errno(fs::remove_dir(&directory)),
            errno(fs::set_permissions(&file, Permissions::from_mode(0o600))),
            setxattr(&file, "user.a", b"1", XattrFlags::empty()).err(),
        ];
        assert!(
            refused.iter().all(|errno| *errno == Some(Errno::ROFS)),
            "{refused:?}"
        );
        File::open(&file).unwrap().sync_all().unwrap();
        let mut byte = [0];
        File::open(&file)
            .unwrap()
            .read_exact_at(&mut byte, 0)
            .unwrap();
        let capacity = rustix::fs::statvfs(volume.path()).unwrap();
        assert!(capacity.f_flag.contains(StatVfsMountFlags::RDONLY));
        volume.unmount();
        assert!(everything(&volume.store()) == before);
        volume.set_options("");
        volume.mount();
        fs::write(volume.join("g"), "again").unwrap();
    });
}

#[test]
fn a_volume_on_a_read_only_file_system_can_be_read() {
    Volume::with(|volume| {
        fs::write(volume.join("f"), "content").unwrap();
        volume.unmount();
        let store = volume.store();
        mount_bind(&store, &store).unwrap();
        mount_remount(&store, MountFlags::BIND | MountFlags::RDONLY, "").unwrap();
        let (store, place) = (store.to_str().unwrap(), volume.path());
        let place = place.to_str().unwrap();
        tifs(["mount", store, place]).failed_with(&["Read-only file system"]);
        // In the background: the log cannot be written, whether there is one or not.
        for with_log in [false, true] {
            if with_log {
                let bind = MountFlags::BIND;
                mount_remount(store, bind, "").unwrap();
                fs::write(volume.store().join("tifs.log"), "").unwrap();
                mount_remount(store, bind | MountFlags::RDONLY, "").unwrap();
            }
            let mounted = tifs(["mount", store, place, "-o", "ro"]);
            assert_eq!(mounted.status, 0, "{mounted:?}");
            assert_eq!(fs::read(volume.join("f")).unwrap(), b"content");
            let unmounted = tifs(["umount", place]);
            assert_eq!(unmounted.status, 0, "{unmounted:?}");
        }
    });
}

#[test]
fn several_mounts_may_read_a_volume() {
    Volume::with(|volume| {
        fs::write(volume.join("f"), "content").unwrap();
        volume.unmount();
        volume.set_options("ro");
        volume.mount();
        let other = volume.home().join("other");
        fs::create_dir(&other).unwrap();
        let (store, place) = (volume.store(), other.to_str().unwrap());
        let mounted = tifs(["mount", store.to_str().unwrap(), place, "-o", "ro"]);
        assert_eq!(mounted.status, 0, "{mounted:?}");
        assert_eq!(fs::read(other.join("f")).unwrap(), b"content");
        // Returns although the volume is still in use.
        let unmounted = tifs(["umount", place]);
        assert_eq!(unmounted.status, 0, "{unmounted:?}");
        assert_eq!(fs::read(volume.join("f")).unwrap(), b"content");
    });
}
