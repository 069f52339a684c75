//! A device without room.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use rustix::fs::{Advice, XattrFlags, fadvise, setxattr};
use rustix::io::Errno;
use tifs_testkit::system::Mapping;
use titan_testkit::setup::eventually;

use super::{errno, tifs};
use crate::places::{Tmpfs, Volume};

const MIB: usize = 1 << 20;

/// Writes a file and makes it durable.
fn write(path: &Path, byte: u8) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(&vec![byte; MIB])?;
    file.sync_all()
}

/// Writes files until there is no room. Returns how many are durable.
fn fill(volume: &Volume) -> u8 {
    for i in 0..u8::MAX {
        match write(&volume.join(format!("file-{i}")), i) {
            Ok(()) => {}
            Err(error) => {
                assert_eq!(errno(Err::<(), _>(error)), Some(Errno::NOSPC));
                return i;
            }
        }
    }
    panic!("the device takes everything");
}

fn all_are_there(volume: &Volume, durable: impl IntoIterator<Item = u8>) {
    for i in durable {
        let file = File::open(volume.join(format!("file-{i}"))).unwrap();
        // Not from the kernel's cache.
        fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        let mut content = vec![0; MIB];
        file.read_exact_at(&mut content, 0).unwrap();
        assert!(content == vec![i; MIB], "file {i}");
    }
}

/// A volume on a small device, if this machine can.
fn on_a_device_of(options: &str, test: impl FnOnce(&Tmpfs, &mut Volume)) {
    Volume::with(|_| {
        let device = Tmpfs::with_options(options);
        let mut volume = Volume::on(device.path(), "");
        test(&device, &mut volume);
    });
}

#[test]
fn a_full_volume_can_be_emptied_and_filled_again() {
    on_a_device_of("size=64m,mode=755", |_, volume| {
        let durable = fill(volume);
        assert!(durable >= 20, "{durable}");
        let capacity = rustix::fs::statvfs(volume.path()).unwrap();
        assert!(capacity.f_bavail * capacity.f_frsize < 4 * MIB as u64);
        all_are_there(volume, 0..durable);
        // Deleting needs no room. The store deletes in the background.
        for i in 0..10 {
            fs::remove_file(volume.join(format!("file-{i}"))).unwrap();
        }
        let _ = fs::remove_file(volume.join(format!("file-{durable}")));
        all_are_there(volume, 10..durable);
        volume.unmount();
        volume.check();
        volume.mount();
        all_are_there(volume, 10..durable);
        for i in 10..durable {
            fs::remove_file(volume.join(format!("file-{i}"))).unwrap();
        }
        let again = (0..1_000_000).find(|_| write(&volume.join("file-0"), 0).is_ok());
        assert!(again.is_some());
        all_are_there(volume, 0..1);
        volume.unmount();
        volume.check();
    });
}

#[test]
fn a_killed_full_volume_can_be_mounted() {
    on_a_device_of("size=64m,mode=755", |_, volume| {
        let durable = fill(volume);
        volume.kill();
        volume.check();
        volume.mount();
        all_are_there(volume, 0..durable);
    });
}

/// Writes a file in small pieces until a write fails, and returns what was written. Nothing is
/// synced.
fn write_until_refused(mut file: File, seed: u8) -> Vec<u8> {
    let mut written = Vec::new();
    loop {
        let piece: Vec<u8> = (0..10_000).map(|i| (i % 251) as u8 ^ seed).collect();
        match file.write(&piece) {
            Ok(n) => written.extend_from_slice(&piece[..n]),
            Err(error) => {
                assert_eq!(errno(Err::<(), _>(error)), Some(Errno::NOSPC));
                return written;
            }
        }
        assert!(written.len() < 1 << 30, "the device takes everything");
    }
}

#[test]
fn what_a_write_accepted_on_a_full_volume_is_there() {
    on_a_device_of("size=160m,mode=755", |_, volume| {
        let others: Vec<u8> = (0..3)
            .map(|i| {
                write(&volume.join(format!("file-{i}")), i)
                    .map(|()| i)
                    .unwrap()
            })
            .collect();
        // Both names before the volume is full: then it may refuse further ones.
        let files = [0, 1].map(|i| File::create(volume.join(format!("big-{i}"))).unwrap());
        let written: Vec<_> = (0..2)
            .zip(files)
            .map(|(seed, file)| write_until_refused(file, seed))
            .collect();
        for i in 0..2 {
            let inode = fs::metadata(volume.join(format!("big-{i}"))).unwrap().ino();
            let expected = format!("Z write of inode {inode} failed: the volume is full");
            assert!(volume.log().contains(&expected), "{}", volume.log());
        }
        // Only the first finds room.
        assert!(written[0].len() > 32 * MIB, "{}", written[0].len());
        let remounted = |volume: &mut Volume| {
            volume.unmount();
            volume.check();
            volume.mount();
            all_are_there(volume, others.iter().copied());
            for (i, expected) in written.iter().enumerate() {
                let found = fs::read(volume.join(format!("big-{i}"))).unwrap();
                assert_eq!(found.len(), expected.len());
                assert!(found == *expected, "big-{i}");
            }
        };
        remounted(volume);
        // It is still full, and a program that writes to a file that exists hears that.
        let mut again = File::options()
            .append(true)
            .open(volume.join("big-1"))
            .unwrap();
        let refused = (0..1 << 20).find_map(|_| again.write(&[0; 10_000]).err());
        assert_eq!(errno(Err::<(), _>(refused.unwrap())), Some(Errno::NOSPC));
        again.set_len(written[1].len() as u64).unwrap();
        drop(again);
        remounted(volume);
    });
}

#[test]
fn who_reads_on_a_full_volume_does_not_hear_that_there_is_no_room() {
    on_a_device_of("size=160m,mode=755", |_, volume| {
        let paths: Vec<_> = (0..20).map(|i| volume.join(format!("small-{i}"))).collect();
        let files: Vec<_> = paths
            .iter()
            .map(|path| File::create(path).unwrap())
            .collect();
        write_until_refused(File::create(volume.join("big")).unwrap(), 0);
        // These take of the room that is kept for the kernel's cache.
        let small = |mut file: &File| file.write_all(&[7; 3000]).and_then(|()| file.sync_all());
        let good: Vec<bool> = files.iter().map(|file| small(file).is_ok()).collect();
        assert!(good.contains(&true));
        drop(files);
        for (path, _) in paths.iter().zip(good).filter(|(_, good)| *good) {
            assert_eq!(fs::metadata(path).unwrap().len(), 3000);
            // Reads beyond the end.
            assert!(fs::read(path).unwrap() == [7; 3000], "{}", path.display());
        }
        // Who writes does.
        let mut file = File::options().append(true).open(&paths[0]).unwrap();
        let refused = (0..1 << 20).find_map(|_| file.write(&[0; 10_000]).err());
        assert_eq!(errno(Err::<(), _>(refused.unwrap())), Some(Errno::NOSPC));
    });
}

/// The kernel accepts what is stored through a mapping without asking for room. The volume gives
/// its cache what is kept for it, and no more.
#[test]
fn a_mapped_store_into_a_hole_of_a_full_volume_stays_within_the_reserve() {
    on_a_device_of("size=160m,mode=755", |device, volume| {
        const SIZE: usize = 48 * MIB;
        let path = volume.join("hole");
        let mut options = File::options();
        let file = options.read(true).write(true).create(true).open(&path);
        let file = file.unwrap();
        file.set_len(SIZE as u64).unwrap();
        write(&volume.join("file-1"), 1).unwrap();
        let big = volume.join("big");
        write_until_refused(File::create(&big).unwrap(), 0);
        let free = || {
            let device = rustix::fs::statvfs(device.path()).unwrap();
            device.f_bavail * device.f_frsize
        };
        let mut mapping = Mapping::new(&file, SIZE).unwrap();
        let (mut refused, mut least) = (None, u64::MAX);
        // Bytes that a sync has said to be durable.
        let mut durable = 0;
        for at in (0..SIZE).step_by(MIB) {
            mapping.write(at, &incompressible(at, MIB));
            match mapping.sync() {
                Ok(()) if refused.is_none() => durable = at + MIB,
                Ok(()) => {}
                Err(e) => refused = refused.or(Some(e)),
            }
            least = least.min(free());
        }
        assert_eq!(refused, Some(Errno::NOSPC), "{least} bytes were left");
        // A sixteenth of the device is kept for deletions and the store's own work.
        assert!(least >= 160 * MIB as u64 / 32, "{least} bytes were left");
        drop((mapping, file));
        // The kernel forgets all of it.
        volume.kill();
        volume.check();
        volume.mount();
        let stored = fs::read(&path).unwrap();
        assert_eq!(stored.len(), SIZE);
        for at in (0..durable).step_by(MIB) {
            assert!(stored[at..at + MIB] == incompressible(at, MIB), "{at}");
        }
        for path in [&path, &big] {
            fs::remove_file(path).unwrap();
        }
        let again = (0..1_000_000).find(|_| write(&volume.join("file-2"), 2).is_ok());
        assert!(again.is_some());
        all_are_there(volume, [1, 2]);
        volume.unmount();
        volume.check();
    });
}

#[test]
fn a_sync_fails_for_as_long_as_the_file_lacks_what_was_refused() {
    on_a_device_of("size=64m,mode=755", |device, volume| {
        write(&volume.join("file-1"), 1).unwrap();
        let file = File::create(volume.join("file-2")).unwrap();
        let mut others = File::create(device.path().join("others")).unwrap();
        while others.write_all(&[0; 4096]).is_ok() {}
        let fill = || file.write_all_at(&vec![2; MIB], 0);
        let sync = || errno(file.sync_all());
        // The kernel accepts it.
        let refused = (0..100).find_map(|_| errno(fill()).or_else(sync));
        assert_eq!(refused, Some(Errno::NOSPC));
        others.set_len(0).unwrap();
        while fs::create_dir(volume.join("directory")).is_err() {
            std::thread::yield_now();
        }
        assert_eq!(sync(), Some(Errno::NOSPC));
        assert_eq!(sync(), Some(Errno::NOSPC));
        // Other files have all of their data.
        write(&volume.join("file-3"), 3).unwrap();
        fill().unwrap();
        assert_eq!(sync(), None);
        drop(file);
        all_are_there(volume, 1..4);
        volume.unmount();
        volume.check();
        volume.mount();
        all_are_there(volume, 1..4);
    });
}

#[test]
fn umount_fails_if_a_file_lacks_what_was_refused() {
    on_a_device_of("size=64m,mode=755", |device, volume| {
        let mut others = File::create(device.path().join("others")).unwrap();
        let file = File::create(volume.join("file-1")).unwrap();
        while others.write_all(&[0; 4096]).is_ok() {}
        let fill = || file.write_all_at(&vec![2; MIB], 0);
        let refused = (0..100).find_map(|_| errno(fill().and_then(|()| file.sync_all())));
        assert_eq!(refused, Some(Errno::NOSPC));
        drop(file);
        others.set_len(0).unwrap();
        while fs::create_dir(volume.join("directory")).is_err() {
            std::thread::yield_now();
        }
        let unmounted = tifs(["umount", volume.path().to_str().unwrap()]);
        unmounted.failed_with(&["unmounted", "may be lost", "No space"]);
        assert!(volume.wait_for_any_end().success());
        volume.check();
    });
}

#[test]
fn a_device_that_others_fill_is_used_again_when_there_is_room() {
    on_a_device_of("size=64m,mode=755", |device, volume| {
        write(&volume.join("file-1"), 1).unwrap();
        let mut others = File::create(device.path().join("others")).unwrap();
        while others.write_all(&[0; 4096]).is_ok() {}
        let refused = (0..100).find_map(|_| errno(write(&volume.join("file-2"), 2)));
        assert_eq!(refused, Some(Errno::NOSPC));
        all_are_there(volume, 1..2);
        // Without a sync, too. What a failed flush had written is removed, so a few names may fit.
        let full = (0..100_000).find_map(|n| errno(fs::create_dir(volume.join(format!("{n}")))));
        assert_eq!(full, Some(Errno::NOSPC));
        others.set_len(0).unwrap();
        // The background sees it.
        while fs::create_dir(volume.join("directory")).is_err() {
            std::thread::yield_now();
        }
        let again = (0..1_000_000).find(|_| write(&volume.join("file-3"), 3).is_ok());
        assert!(again.is_some());
        volume.kill();
        volume.check();
        volume.mount();
        all_are_there(volume, [1, 3]);
    });
}

#[test]
fn umount_fails_if_the_last_changes_are_not_durable() {
    on_a_device_of("size=64m,mode=755", |device, volume| {
        write(&volume.join("file-1"), 1).unwrap();
        let mut others = File::create(device.path().join("others")).unwrap();
        while others.write_all(&[0; 4096]).is_ok() {}
        (0..100).find_map(|_| errno(write(&volume.join("file-2"), 2)));
        let unmounted = tifs(["umount", volume.path().to_str().unwrap()]);
        unmounted.failed_with(&["unmounted", "may be lost", "No space"]);
        assert!(!volume.is_mounted());
        // Closing may have found room: then nothing is lost after all.
        if volume.wait_for_any_end().success() {
            others.set_len(0).unwrap();
            volume.check();
            volume.mount();
            all_are_there(volume, 1..2);
        }
    });
}

#[test]
fn a_volume_that_was_killed_on_a_full_device_can_be_read_and_later_written() {
    on_a_device_of("size=64m,mode=755", |device, volume| {
        for i in 1..12 {
            write(&volume.join(format!("file-{i}")), i).unwrap();
        }
        let mut others = File::create(device.path().join("others")).unwrap();
        while others.write_all(&[0; 4096]).is_ok() {}
        volume.kill();
        let (store, place) = (volume.store(), volume.path());
        let (store, place) = (store.to_str().unwrap(), place.to_str().unwrap());
        // Not a byte is left.
        tifs(["mount", store, place]).failed_with(&["no space", store, "-o ro"]);
        assert!(!volume.is_mounted());
        volume.check();
        volume.set_options("ro");
        volume.mount();
        all_are_there(volume, 1..12);
        volume.unmount();
        // Not enough for what the log has.
        let taken = others.metadata().unwrap().len();
        others.set_len(taken - (256 << 10)).unwrap();
        volume.set_options("");
        volume.mount();
        all_are_there(volume, 1..12);
        fs::remove_file(volume.join("file-11")).unwrap();
        volume.unmount();
        others.set_len(0).unwrap();
        volume.mount();
        all_are_there(volume, 1..11);
        write(&volume.join("file-12"), 12).unwrap();
    });
}

/// Bytes that a volume says users may still store.
fn available(volume: &Volume) -> u64 {
    let capacity = rustix::fs::statvfs(volume.path()).unwrap();
    capacity.f_bavail * capacity.f_frsize
}

/// Makes small files of all kinds until there is no room. Returns how many.
fn fill_with_small_files(top: &Path) -> io::Result<usize> {
    fs::create_dir_all(top)?;
    for n in 0.. {
        let directory = top.join((n / 500).to_string());
        if n % 500 == 0 && fs::create_dir(&directory).is_err() {
            return Ok(n);
        }
        let path = directory.join(n.to_string());
        let made = match n % 7 {
            0 => fs::create_dir(&path),
            1 => fs::hard_link(top.with_file_name("linked"), &path),
            2 => File::create(&path).and_then(|_| {
                let value = incompressible(n, 3000);
                let flags = XattrFlags::empty();
                Ok(setxattr(&path, "user.attribute", &value, flags)?)
            }),
            kind => {
                let length = [0, 100, 4000, 20_000][kind - 3];
                fs::write(&path, incompressible(n, length))
            }
        };
        if let Err(error) = made {
            assert_eq!(errno(Err::<(), _>(error)), Some(Errno::NOSPC));
            return Ok(n);
        }
    }
    Ok(0)
}

fn incompressible(seed: usize, length: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed as u64);
    std::iter::repeat_with(|| random.u8(..))
        .take(length)
        .collect()
}

#[test]
fn a_volume_full_of_small_files_can_be_emptied_and_gives_all_space_back() {
    on_a_device_of("size=100m,mode=755", |_, volume| {
        File::create(volume.join("linked")).unwrap();
        let at_first = available(volume);
        for round in 0..3 {
            let top = volume.join("all");
            let made = fill_with_small_files(&top).unwrap();
            assert!(made > 5000, "{made}");
            fs::remove_dir_all(&top).unwrap_or_else(|e| panic!("round {round}, {made}: {e}"));
            eventually(&format!("round {round}: the space comes back"), || {
                available(volume) >= at_first / 100 * 95
            });
        }
        volume.unmount();
        volume.check();
    });
}

#[test]
fn a_file_is_overwritten_on_a_volume_that_is_full_of_small_files() {
    overwrite_on_a_full_volume(|volume| {
        let all = volume.join("all");
        File::create(volume.join("linked")).unwrap();
        fs::create_dir(&all).unwrap();
        let refused = fill(volume);
        fill_with_small_files(&all).unwrap();
        refused
    });
}

/// Their last blocks are in tables. To compact all of these needs more room than there is.
#[test]
fn a_file_is_overwritten_on_a_volume_that_is_full_of_files_of_20000_bytes() {
    overwrite_on_a_full_volume(|volume| {
        let all = volume.join("all");
        fs::create_dir(&all).unwrap();
        let write = |n: &usize| fs::write(all.join(n.to_string()), incompressible(*n, 20_000));
        let error = (0..).find_map(|n| write(&n).err()).unwrap();
        assert_eq!(errno(Err::<(), _>(error)), Some(Errno::NOSPC));
        fill(volume)
    });
}

/// Overwrites a file at random, ten times its size, on a volume that `fill` fills, with the file of
/// the number that it returns last.
fn overwrite_on_a_full_volume(fill: impl FnOnce(&Volume) -> u8) {
    on_a_device_of("size=100m,mode=755", |_, volume| {
        const SIZE: usize = 4 * MIB;
        let path = volume.join("overwritten");
        let mut expected = incompressible(0, SIZE);
        fs::write(&path, &expected).unwrap();
        let refused = fill(volume);
        let file = File::options().write(true).open(&path).unwrap();
        let mut random = fastrand::Rng::with_seed(1);
        for n in 0..80 {
            let data = incompressible(n, SIZE / 8);
            let at = random.usize(..SIZE - data.len());
            let written = file.write_all_at(&data, at as u64);
            written.unwrap_or_else(|e| panic!("write {n}: {e}"));
            expected[at..at + data.len()].copy_from_slice(&data);
        }
        file.sync_all().unwrap();
        drop(file);
        // The last of those that filled it lack data.
        fs::remove_dir_all(volume.join("all")).unwrap();
        let _ = fs::remove_file(volume.join(format!("file-{refused}")));
        volume.unmount();
        volume.check();
        volume.mount();
        assert!(fs::read(volume.join("overwritten")).unwrap() == expected);
    });
}
