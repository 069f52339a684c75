//! The clock by which the kernel stamps files.
//!
//! The kernel stamps changes in its cache: the time of a write, of a change of permissions. Its
//! clock for that is some milliseconds behind. With stamps of an exact clock, time would run
//! backwards: a file's permissions would change before it was created, and `make` would take a
//! later file for the older one.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::fs::{MemfdFlags, Timespec, Timestamps, UTIME_NOW, fstat, futimens, memfd_create};
use titan::{StdClock, SystemClock};

/// A clock that lets the kernel stamp a file in memory. So times follow each other as in all file
/// systems of the kernel. Where the kernel stamps exactly once somebody looks (since Linux 6.13),
/// two calls return different times, and later stamps of the kernel are not before them.
///
/// Cost: two system calls for each time of day.
#[derive(Debug)]
pub struct FileClock {
    stamped: OwnedFd,
}

impl FileClock {
    /// # Errors
    /// Those of making a file in memory.
    pub fn new() -> std::io::Result<FileClock> {
        let stamped = memfd_create("tifs-clock", MemfdFlags::CLOEXEC)?;
        Ok(FileClock { stamped })
    }

    fn stamp(&self) -> rustix::io::Result<Duration> {
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_NOW,
        };
        let times = Timestamps {
            last_access: now,
            last_modification: now,
        };
        futimens(&self.stamped, &times)?;
        let stat = fstat(&self.stamped)?;
        // A clock set before 1970 is read as 1970.
        let seconds = u64::try_from(stat.st_ctime).unwrap_or_default();
        Ok(Duration::new(seconds, stat.st_ctime_nsec as u32))
    }
}

impl SystemClock for FileClock {
    fn monotonic(&self) -> Duration {
        StdClock.monotonic()
    }

    fn unix_time(&self) -> Duration {
        // Nothing makes it fail; if something did, the exact time would do.
        self.stamp().unwrap_or_else(|_| StdClock.unix_time())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "these are tests")]

    use super::*;

    #[test]
    fn times_follow_those_of_files() {
        let clock = FileClock::new().unwrap();
        let other = FileClock::new().unwrap();
        let mut last = clock.unix_time();
        for _ in 0..1000 {
            let now = other.unix_time();
            assert!(now >= last);
            last = clock.unix_time();
            assert!(last >= now);
        }
        assert!(StdClock.unix_time().abs_diff(last) < Duration::from_secs(60));
    }
}
