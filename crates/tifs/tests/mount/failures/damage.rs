//! Volumes that are damaged, of another version, or none.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use tifs::kv::{Commit, EngineKv, EngineOptions, Kv, Space};
use titan_testkit::setup::eventually;

use super::{errno, tifs};
use crate::places::Volume;

/// All files of a directory with an extension.
fn files(directory: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .collect()
}

/// Changes bytes in the middle of a file.
fn damage(path: &Path, at: usize) {
    let mut content = fs::read(path).unwrap();
    content[at..]
        .iter_mut()
        .take(16)
        .for_each(|byte| *byte ^= 0x55);
    fs::write(path, content).unwrap();
}

/// `mount` fails with a line that has all of `parts`; nothing is mounted.
#[track_caller]
fn refused(volume: &Volume, parts: &[&str]) {
    let (store, place) = (volume.store(), volume.path());
    let (store, place) = (store.to_str().unwrap(), place.to_str().unwrap());
    tifs(["mount", store, place]).failed_with(parts);
    assert!(!volume.is_mounted());
}

/// A volume with a large file and a small one, all of it in tables and blob files, not mounted.
fn filled(volume: &mut Volume) {
    fs::write(volume.join("large"), vec![7; 1 << 20]).unwrap();
    fs::write(volume.join("small"), "small").unwrap();
    volume.unmount();
    let store = EngineKv::open(&volume.store(), &EngineOptions::default()).unwrap();
    store.move_log().unwrap();
    store.close().unwrap();
}

#[test]
fn a_volume_of_a_later_version_is_refused() {
    Volume::with(|volume| {
        volume.unmount();
        let write = |change: fn(&mut Vec<u8>)| {
            let store = EngineKv::open(&volume.store(), &EngineOptions::default()).unwrap();
            let mut value = store.get(Space::Meta, b"S").unwrap().unwrap().to_vec();
            change(&mut value);
            let mut transaction = store.begin().unwrap();
            transaction.put(Space::Meta, b"S", &value).unwrap();
            assert_eq!(transaction.commit().unwrap(), Commit::Committed);
            store.close().unwrap();
        };
        write(|value| value[0] = 2);
        refused(volume, &["superblock", "version"]);
        assert_eq!(tifs(["fsck", volume.store().to_str().unwrap()]).status, 4);
        write(|value| {
            value[0] = 1;
            value[24] = 1;
        });
        refused(volume, &["features 0x1", "later version"]);
        write(|value| value[24] = 0);
        volume.mount();
    });
}

#[test]
fn a_volume_without_its_list_of_files_is_refused() {
    Volume::with(|volume| {
        filled(volume);
        let current = volume.store().join("CURRENT");
        let good = fs::read(&current).unwrap();
        fs::write(&current, "garbage").unwrap();
        refused(volume, &["corruption", "CURRENT"]);
        let checked = tifs(["fsck", volume.store().to_str().unwrap()]);
        checked.ended_with(4, &["corruption", "CURRENT"]);
        // Without it, nothing is made anew in its place.
        fs::remove_file(&current).unwrap();
        let (store, place) = (volume.store(), volume.path());
        let mounted = tifs(["mount", store.to_str().unwrap(), place.to_str().unwrap()]);
        mounted.failed_with(&["is damaged", "CURRENT", "titan repair"]);
        fs::write(&current, good).unwrap();
        volume.mount();
        assert_eq!(fs::read(volume.join("small")).unwrap(), b"small");
    });
}

#[test]
fn damaged_attributes_are_found_by_whoever_reads_them() {
    Volume::with(|volume| {
        filled(volume);
        for table in files(&volume.store(), "sst") {
            damage(&table, 40);
        }
        refused(volume, &["titan repair", "corruption", ".sst at offset"]);
        let checked = tifs(["fsck", volume.store().to_str().unwrap()]);
        assert_eq!(checked.status, 4, "{checked:?}");
    });
}

#[test]
fn damaged_content_is_an_error_and_other_files_remain() {
    Volume::with(|volume| {
        filled(volume);
        for blobs in files(&volume.store(), "blob") {
            damage(&blobs, 500_000);
        }
        let store = volume.store();
        let checked = tifs(["fsck", "--content", store.to_str().unwrap()]);
        assert_eq!(checked.status, 4, "{checked:?}");
        volume.mount();
        let large = volume.join("large");
        assert_eq!(errno(fs::read(&large)), Some(Errno::IO));
        let inode = fs::metadata(&large).unwrap().ino();
        let expected = format!("Z read of inode {inode} failed: corruption");
        assert!(volume.log().contains(&expected), "{}", volume.log());
        assert_eq!(fs::read(volume.join("small")).unwrap(), b"small");
        fs::write(volume.join("new"), "new").unwrap();
    });
}

#[test]
fn failures_about_names_and_attributes_name_an_inode() {
    Volume::with(|volume| {
        let names: Vec<_> = (0..3000).map(|i| format!("file-{i}")).collect();
        for name in &names {
            fs::write(volume.join(name), name.repeat(20)).unwrap();
        }
        filled(volume);
        let tables = files(&volume.store(), "sst").into_iter();
        let largest = tables.max_by_key(|table| fs::metadata(table).unwrap().len());
        let largest = largest.unwrap();
        let middle = fs::metadata(&largest).unwrap().len() / 2;
        damage(&largest, middle as usize);
        volume.mount();
        let failed = |name: &String| errno(fs::symlink_metadata(volume.join(name)));
        let errors: Vec<_> = names.iter().filter_map(failed).collect();
        assert!(!errors.is_empty());
        assert!(errors.iter().all(|errno| *errno == Errno::IO), "{errors:?}");
        let log = volume.log();
        let lines: Vec<_> = log
            .lines()
            .filter(|line| line.contains("failed: "))
            .collect();
        assert!(!lines.is_empty(), "{log}");
        assert!(
            lines.iter().all(|line| line.contains(" of inode ")),
            "{log}"
        );
    });
}

/// The only log of a volume that has records, and its content up to the last byte that is none of
/// the zeros by which it was extended.
fn log_of(volume: &Volume) -> (PathBuf, Vec<u8>) {
    let written = |path: PathBuf| {
        let mut content = fs::read(&path).unwrap();
        let end = content.iter().rposition(|byte| *byte != 0)?;
        content.truncate(end + 1);
        Some((path, content))
    };
    let mut logs = files(&volume.store(), "log")
        .into_iter()
        .filter_map(written);
    let log = logs.next().unwrap();
    assert!(logs.next().is_none());
    log
}

#[test]
fn a_mount_of_a_killed_volume_tells_of_damage_in_its_log_and_keeps_the_log() {
    Volume::with(|volume| {
        for n in 0..20 {
            let file = fs::File::create(volume.join(format!("synced {n}"))).unwrap();
            file.sync_all().unwrap();
        }
        let (_, synced) = log_of(volume);
        // Nothing is synced by itself within seconds after that.
        for n in 0..200 {
            fs::write(volume.join(format!("later {n}")), "").unwrap();
        }
        volume.kill();
        let (log, written) = log_of(volume);
        let whole = fs::read(&log).unwrap();
        let flip = |at: usize| {
            let mut content = whole.clone();
            content[at] ^= 1;
            fs::write(&log, &content).unwrap();
            content
        };
        let (name, lost) = (log.file_name().unwrap(), volume.store().join("lost"));

        // A mount that would lose what was synced is refused, and changes nothing.
        let damaged = flip(synced.len() / 2);
        refused(volume, &["had been synced", name.to_str().unwrap()]);
        assert!(fs::read(&log).unwrap() == damaged);
        assert!(!lost.exists());

        let damaged = flip(written.len() - (written.len() - synced.len()) / 4);
        volume.mount();
        let told = || {
            let log = volume.log();
            let line = log.lines().find(|line| line.contains("log of the volume"));
            line.map(str::to_owned)
        };
        // The mount is seen before the process tells of it.
        eventually("damage is told", || told().is_some());
        let line = told().unwrap();
        assert!(line.contains("were not replayed"), "{line}");
        assert!(line.contains(name.to_str().unwrap()), "{line}");
        assert!(fs::read(lost.join(name)).unwrap() == damaged);
        for n in 0..20 {
            assert!(volume.join(format!("synced {n}")).exists(), "{n}");
        }
        assert!(volume.join("later 0").exists());
        assert!(!volume.join("later 199").exists());
        volume.unmount();
        volume.check();
    });
}

#[test]
fn problems_that_a_check_finds_are_its_exit_status() {
    Volume::with(|volume| {
        volume.unmount();
        let store = volume.store();
        let status = || tifs(["fsck", "--json", store.to_str().unwrap()]).status;
        assert_eq!(status(), 0);
        let engine = EngineKv::open(&store, &EngineOptions::default()).unwrap();
        let mut transaction = engine.begin().unwrap();
        // A name in the root directory that leads to an inode that does not exist.
        let key = b"E\0\0\0\0\0\0\0\x01name";
        let value = b"\x01\0\0\0\0\0\0\0\x63\x08";
        transaction.put(Space::Meta, key, value).unwrap();
        assert_eq!(transaction.commit().unwrap(), Commit::Committed);
        engine.close().unwrap();
        assert_eq!(status(), 4);
    });
}

#[test]
fn a_directory_with_something_else_is_not_touched() {
    Volume::with(|volume| {
        let place = volume.home().join("place");
        let other = volume.home().join("other");
        fs::create_dir(&place).unwrap();
        fs::create_dir(&other).unwrap();
        fs::write(other.join("letter"), "dear").unwrap();
        let (place, dir) = (place.to_str().unwrap(), other.to_str().unwrap());
        for command in [["mount", dir, place].as_slice(), &["mkfs", dir]] {
            tifs(command).failed_with(&["not empty"]);
        }
        tifs(["fsck", dir]).failed_with(&["no volume"]);
        assert_eq!(fs::read_dir(&other).unwrap().count(), 1);
    });
}

#[test]
fn another_database_is_left_as_it_is() {
    Volume::with(|volume| {
        let (place, other) = (volume.home().join("place"), volume.home().join("other"));
        fs::create_dir(&place).unwrap();
        let mut options = titan::Options::default();
        options.db.create_if_missing = true;
        let db = titan::Db::open(&other, &options).unwrap();
        db.put(b"key", b"value").unwrap();
        db.close().unwrap();
        drop(db);
        let bytes = || {
            let entries = fs::read_dir(&other).unwrap().map(|entry| entry.unwrap());
            let mut files: Vec<_> = entries
                .map(|entry| (entry.file_name(), fs::read(entry.path()).unwrap()))
                .collect();
            files.sort();
            files
        };
        let before = bytes();
        let (place, dir) = (place.to_str().unwrap(), other.to_str().unwrap());
        tifs(["mount", dir, place]).failed_with(&["no volume"]);
        tifs(["mount", dir, place, "-o", "ro"]).failed_with(&["no volume"]);
        assert_eq!(bytes(), before);
    });
}
