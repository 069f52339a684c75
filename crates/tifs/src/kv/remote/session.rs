//! Words on sessions, of all kinds of clusters: who has one, and how it ends.

use std::time::{Duration, SystemTime};

use rustix::io::Errno;

use super::holder::Holder;
use super::process::Process;
use crate::error::Error;

impl Holder {
    /// A process that has a volume since a time, in seconds of Unix time.
    pub(in crate::kv) fn new(process: &Process, since: u64) -> Holder {
        let since = SystemTime::UNIX_EPOCH + Duration::from_secs(since);
        Holder {
            said: format!(
                "process {} of {}, since {}",
                process.pid,
                process.host,
                humantime::format_rfc3339_seconds(since)
            ),
            is_here: process.is_here(),
        }
    }

    /// The error of another process that wants the volume before the end of the lease.
    pub(in crate::kv) fn in_use(&self, seconds: u64) -> Error {
        let what = format!(
            "the volume is in use by {self}: unmount it there. If that has ended, the volume is free in \
             {seconds} s"
        );
        Error::new(Errno::BUSY, what)
    }
}

/// The seconds of Unix time by the clock of the machine.
pub(in crate::kv) fn unix_time() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs())
}

/// The error of a mount whose volume another process has.
pub(in crate::kv) fn taken_over(by: Option<&Holder>) -> Error {
    let by = by.map(Holder::to_string);
    let by = by.unwrap_or_else(|| "another process, which has ended".to_owned());
    let what = format!(
        "this mount had no contact with the cluster for too long, and the volume was taken over by {by}: \
         unmount it here"
    );
    Error::new(Errno::IO, what)
}
