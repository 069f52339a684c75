//! The log of errors that are the volume's fault, not the caller's.
//!
//! A program that uses the mount gets an errno, mostly `EIO`. What happened goes to standard error,
//! once a minute for each operation and errno, so that a failing disk does not fill another one.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::io::Errno;

use crate::error::Error;

/// The shortest time between two lines about the same operation and errno.
const INTERVAL: Duration = Duration::from_secs(60);

/// What was said when. Cheap unless something fails.
#[derive(Debug, Default)]
pub(super) struct Failures {
    said: Mutex<HashMap<(&'static str, Errno), Said>>,
}

#[derive(Debug)]
struct Said {
    when: Instant,
    /// Failures since then that were not said.
    untold: u64,
}

impl Failures {
    /// Logs an error of an operation, if the volume is its cause.
    pub(super) fn note(&self, operation: &'static str, error: &Error) {
        if !error.is_failure() {
            return;
        }
        if let Some(untold) = self.turn(operation, error.errno(), Instant::now()) {
            let more = match untold {
                0 => String::new(),
                n => format!(" ({n} more like it were not shown)"),
            };
            eprintln!("tifs: {operation} failed: {error}{more}");
        }
    }

    /// Whether to log now; if so, how many failures were not logged since the last time.
    fn turn(&self, operation: &'static str, errno: Errno, now: Instant) -> Option<u64> {
        let mut said = self.said.lock();
        match said.get_mut(&(operation, errno)) {
            Some(last) if now.duration_since(last.when) < INTERVAL => {
                last.untold += 1;
                None
            }
            Some(last) => {
                last.when = now;
                Some(std::mem::take(&mut last.untold))
            }
            None => {
                let when = now;
                said.insert((operation, errno), Said { when, untold: 0 });
                Some(0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_failure_is_logged_once_in_an_interval_and_the_others_are_counted() {
        let failures = Failures::default();
        let begin = Instant::now();
        assert_eq!(failures.turn("read", Errno::IO, begin), Some(0));
        assert_eq!(failures.turn("read", Errno::IO, begin), None);
        assert_eq!(failures.turn("read", Errno::IO, begin), None);
        assert_eq!(failures.turn("write", Errno::IO, begin), Some(0));
        assert_eq!(failures.turn("read", Errno::NOSPC, begin), Some(0));
        let later = begin + INTERVAL;
        assert_eq!(failures.turn("read", Errno::IO, later), Some(2));
        assert_eq!(failures.turn("read", Errno::IO, later + INTERVAL), Some(0));
    }
}
