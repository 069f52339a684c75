//! Locks.

use std::fs::{File, TryLockError};
use std::sync::atomic::{AtomicBool, Ordering};

use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;

use super::create;
use crate::places::Volume;

/// A lock of a range for writing.
fn range(start: i64, length: i64) -> libc::flock {
    libc::flock {
        l_type: libc::F_WRLCK as i16,
        l_whence: libc::SEEK_SET as i16,
        l_start: start,
        l_len: length,
        l_pid: 0,
    }
}

#[test]
fn a_lock_of_a_file_excludes_others() {
    Volume::with(|volume| {
        let one = create(volume.join("f"));
        let two = File::open(volume.join("f")).unwrap();
        one.lock().unwrap();
        assert!(matches!(two.try_lock(), Err(TryLockError::WouldBlock)));
        assert!(matches!(
            two.try_lock_shared(),
            Err(TryLockError::WouldBlock)
        ));
        one.unlock().unwrap();
        two.try_lock_shared().unwrap();
        one.try_lock_shared().unwrap();
    });
}

#[test]
fn whoever_waits_for_a_lock_gets_it() {
    Volume::with(|volume| {
        let one = create(volume.join("f"));
        let two = File::open(volume.join("f")).unwrap();
        let released = AtomicBool::new(false);
        one.lock().unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                two.lock().unwrap();
                released.load(Ordering::SeqCst)
            });
            released.store(true, Ordering::SeqCst);
            // Closing it releases the lock.
            drop(one);
            assert!(waiting.join().unwrap());
        });
    });
}

#[test]
fn locks_of_ranges_exclude_where_they_overlap() {
    Volume::with(|volume| {
        let one = create(volume.join("f"));
        let mut options = File::options();
        let two = options
            .read(true)
            .write(true)
            .open(volume.join("f"))
            .unwrap();
        // One belongs to the process, the other to the open file, so they exclude each other.
        fcntl(&one, FcntlArg::F_SETLK(&range(100, 50))).unwrap();
        let overlapping = fcntl(&two, FcntlArg::F_OFD_SETLK(&range(149, 10)));
        assert_eq!(overlapping, Err(nix::Error::EAGAIN));
        fcntl(&two, FcntlArg::F_OFD_SETLK(&range(150, 10))).unwrap();
        let mut asked = range(0, 0);
        fcntl(&two, FcntlArg::F_OFD_GETLK(&mut asked)).unwrap();
        assert_eq!((asked.l_start, asked.l_len), (100, 50));
        assert_eq!(asked.l_pid, std::process::id() as i32);
    });
}

#[test]
fn locks_of_files_and_of_ranges_do_not_exclude_each_other() {
    Volume::with(|volume| {
        let one = create(volume.join("f"));
        let two = File::options().write(true).open(volume.join("f")).unwrap();
        one.lock().unwrap();
        fcntl(&two, FcntlArg::F_OFD_SETLK(&range(0, 0))).unwrap();
    });
}

#[test]
fn locks_of_open_files_exclude_each_other() {
    Volume::with(|volume| {
        let one = create(volume.join("f"));
        let two = File::options().write(true).open(volume.join("f")).unwrap();
        fcntl(&one, FcntlArg::F_OFD_SETLK(&range(0, 10))).unwrap();
        let overlapping = fcntl(&two, FcntlArg::F_OFD_SETLK(&range(5, 10)));
        assert_eq!(overlapping, Err(nix::Error::EAGAIN));
        drop(one);
        fcntl(&two, FcntlArg::F_OFD_SETLK(&range(5, 10))).unwrap();
    });
}
