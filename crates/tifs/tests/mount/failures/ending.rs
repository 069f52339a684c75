//! The process is told to end while files are open.

use std::fs::{self, File};
use std::io::Write;
use std::sync::mpsc::channel;

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::places::Volume;
use tifs_testkit::system::Mapping;

#[test]
fn what_was_written_is_durable_when_the_process_is_told_to_end() {
    Volume::with(|volume| {
        fs::write(volume.join("closed"), "closed").unwrap();
        fs::create_dir(volume.join("directory")).unwrap();
        volume.terminate();
        volume.wait();
        assert!(!volume.is_mounted());
        volume.check();
        volume.mount();
        assert_eq!(fs::read(volume.join("closed")).unwrap(), b"closed");
        assert!(volume.join("directory").is_dir());
    });
}

#[test]
fn a_process_that_is_told_to_end_while_it_mounts_leaves_no_mount() {
    Volume::with(|volume| {
        volume.unmount();
        for round in 0..20 {
            let status = volume.mount_and_terminate();
            assert!(
                status.success(),
                "round {round}: {status}: {}",
                volume.log()
            );
            assert!(!volume.is_mounted());
        }
        volume.check();
    });
}

#[test]
fn another_mount_at_the_same_place_is_left_alone() {
    Volume::with(|volume| {
        let file = File::create(volume.join("open")).unwrap();
        unmount(volume.path(), UnmountFlags::DETACH).unwrap();
        mount(c"other", volume.path(), c"tmpfs", MountFlags::empty(), None).unwrap();
        let other = volume.join("other");
        File::create(&other).unwrap();
        volume.terminate();
        while other.exists() && !volume.log().contains("cannot unmount") {
            std::thread::yield_now();
        }
        assert!(other.exists());
        drop(file);
        volume.wait();
        unmount(volume.path(), UnmountFlags::empty()).unwrap();
        volume.check();
        volume.mount();
        assert!(volume.join("open").exists());
    });
}

#[test]
fn open_files_are_served_until_they_are_closed() {
    Volume::with(|volume| {
        let mut file = File::create(volume.join("open")).unwrap();
        file.write_all(&[1; 100_000]).unwrap();
        let mut options = File::options();
        let mapped = options
            .read(true)
            .write(true)
            .create(true)
            .open(volume.join("mapped"));
        let mapped = mapped.unwrap();
        mapped.set_len(10_000).unwrap();
        let mut mapping = Mapping::new(&mapped, 10_000).unwrap();
        drop(mapped);
        mapping.write(0, b"before");
        volume.terminate();
        // The mount point is free while the files are still served.
        volume.wait_until_unmounted();
        file.write_all(&[2; 100_000]).unwrap();
        file.sync_all().unwrap();
        file.write_all(&[3; 100_000]).unwrap();
        mapping.write(5000, b"after");
        drop((file, mapping));
        volume.wait();
        volume.check();
        volume.mount();
        let content = fs::read(volume.join("open")).unwrap();
        let expected = [1, 2, 3].map(|byte| vec![byte; 100_000]).concat();
        assert!(content == expected);
        let mapped = fs::read(volume.join("mapped")).unwrap();
        assert!(mapped.starts_with(b"before") && mapped[5000..].starts_with(b"after"));
    });
}

#[test]
fn a_second_signal_ends_the_process_at_once() {
    Volume::with(|volume| {
        let mut file = File::create(volume.join("open")).unwrap();
        file.write_all(&[1; 100_000]).unwrap();
        file.sync_all().unwrap();
        volume.terminate();
        volume.wait_until_unmounted();
        file.write_all(&[2; 100_000]).unwrap();
        volume.terminate();
        assert_eq!(volume.wait_for_any_end().code(), Some(1));
        // No hang.
        assert!(file.sync_all().is_err());
        drop(file);
        volume.check();
        volume.mount();
        let content = fs::read(volume.join("open")).unwrap();
        assert!(content.starts_with(&[1; 100_000]));
        assert!(content[100_000..].iter().all(|&byte| byte == 2));
    });
}

/// Users of the mount may change it until the process is gone.
#[test]
fn a_second_signal_while_files_are_written_leaves_a_clean_volume() {
    Volume::with(|volume| {
        for round in 0..5 {
            let files: Vec<File> = (0..4)
                .map(|i| File::create(volume.join(format!("{round}-{i}"))).unwrap())
                .collect();
            volume.terminate();
            volume.wait_until_unmounted();
            let (written, writes) = channel();
            let writers: Vec<_> = files
                .into_iter()
                .map(|mut file| {
                    let written = written.clone();
                    std::thread::spawn(move || {
                        while file.write_all(&[1; 50_000]).is_ok() && file.sync_data().is_ok() {
                            // Nobody counts those after the signal.
                            let _ = written.send(());
                        }
                    })
                })
                .collect();
            assert_eq!(writes.iter().take(40).count(), 40);
            volume.terminate();
            assert_eq!(volume.wait_for_any_end().code(), Some(1));
            for writer in writers {
                writer.join().unwrap();
            }
            volume.check();
            volume.mount();
        }
    });
}
