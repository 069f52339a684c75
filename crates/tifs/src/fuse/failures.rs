//! The log of errors that the volume causes, not the caller.
//!
//! A program that uses the mount gets an errno, mostly `EIO`. The text goes to standard error: once
//! a minute for each operation and errno, and for up to ten inodes each, so that a failing disk
//! does not fill another one.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::io::Errno;

use crate::error::Error;
use crate::log;
use crate::schema::InodeNumber;

/// The shortest time between two lines about the same operation and errno.
const INTERVAL: Duration = Duration::from_secs(60);

/// Inodes with lines of their own within that time.
const INODES: usize = 10;

/// The lines of the last interval. Cheap unless something fails.
#[derive(Debug, Default)]
pub(super) struct Failures {
    said: Mutex<HashMap<(&'static str, Errno), Said>>,
}

#[derive(Debug)]
struct Said {
    /// The first line of the interval.
    when: Instant,
    /// About which inodes.
    inodes: Vec<Option<InodeNumber>>,
    /// Failures since then without a line.
    untold: u64,
}

impl Failures {
    /// Logs an error of an operation, if the volume is its cause. The line names the inode, or the
    /// directory that has the name; an operation on the whole volume has none.
    pub(super) fn note(
        &self,
        operation: &'static str,
        inode: impl Into<Option<InodeNumber>>,
        error: &Error,
    ) {
        let inode = inode.into();
        if !error.is_failure() {
            return;
        }
        if let Some(untold) = self.turn(operation, error.errno(), inode, Instant::now()) {
            let of = inode.map_or(String::new(), |inode| format!(" of inode {inode}"));
            let more = match untold {
                0 => String::new(),
                n => format!(" ({n} more like it were not shown)"),
            };
            log::record(format_args!("{operation}{of} failed: {error}{more}"));
        }
    }

    /// Whether to log now; if so, how many failures were not logged in the interval before.
    fn turn(
        &self,
        operation: &'static str,
        errno: Errno,
        inode: Option<InodeNumber>,
        now: Instant,
    ) -> Option<u64> {
        let begin = || Said {
            when: now,
            inodes: vec![inode],
            untold: 0,
        };
        let mut all = self.said.lock();
        let Some(said) = all.get_mut(&(operation, errno)) else {
            all.insert((operation, errno), begin());
            return Some(0);
        };
        if now.duration_since(said.when) >= INTERVAL {
            let untold = said.untold;
            *said = begin();
            return Some(untold);
        }
        if said.inodes.len() < INODES && !said.inodes.contains(&inode) {
            said.inodes.push(inode);
            return Some(0);
        }
        said.untold += 1;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_failure_is_logged_once_in_an_interval_and_the_others_are_counted() {
        let failures = Failures::default();
        let turn = |operation, errno, now| failures.turn(operation, errno, None, now);
        let begin = Instant::now();
        assert_eq!(turn("read", Errno::IO, begin), Some(0));
        assert_eq!(turn("read", Errno::IO, begin), None);
        assert_eq!(turn("read", Errno::IO, begin), None);
        assert_eq!(turn("write", Errno::IO, begin), Some(0));
        assert_eq!(turn("read", Errno::NOSPC, begin), Some(0));
        let later = begin + INTERVAL;
        assert_eq!(turn("read", Errno::IO, later), Some(2));
        assert_eq!(turn("read", Errno::IO, later + INTERVAL), Some(0));
    }

    #[test]
    fn several_inodes_are_named_in_an_interval_but_not_all() {
        let failures = Failures::default();
        let now = Instant::now();
        let turn = |inode, now| failures.turn("read", Errno::IO, Some(InodeNumber(inode)), now);
        let named = (0..100).filter(|inode| turn(*inode, now).is_some()).count();
        assert_eq!(named, INODES);
        assert_eq!(turn(0, now), None);
        assert_eq!(turn(0, now + INTERVAL), Some(91));
    }
}
