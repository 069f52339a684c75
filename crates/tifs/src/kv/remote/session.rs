//! Records of sessions and words on them, of all kinds of clusters: the process that has one, and
//! how it ends.

use std::time::{Duration, SystemTime};

use rustix::io::Errno;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::holder::Holder;
use super::process::Process;
use crate::error::{Error, Result};

/// The format of the records that this version writes.
const FORMAT: u32 = 1;

/// The process that has a session: all of its record, or the part that stores have in common.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(in crate::kv) struct Owner {
    format: u32,
    pub(in crate::kv) id: u64,
    #[serde(flatten)]
    pub(in crate::kv) process: Process,
    /// Seconds of Unix time, by the clock of the machine: for people.
    since: u64,
}

impl Owner {
    /// This process, with a new random number.
    pub(in crate::kv) fn current() -> Owner {
        Owner {
            format: FORMAT,
            id: fastrand::u64(1..),
            process: Process::current(),
            since: unix_time(),
        }
    }

    pub(in crate::kv) fn holder(&self) -> Holder {
        Holder::new(&self.process, self.since)
    }
}

/// Encodes a record as JSON.
pub(in crate::kv) fn encode(record: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(record).map_err(|e| Error::corrupt(e.to_string()))
}

/// Decodes a record, which has an owner.
///
/// # Errors
/// Corruption, also if a later version has written it.
pub(in crate::kv) fn decode<R: DeserializeOwned + AsRef<Owner>>(value: &[u8]) -> Result<R> {
    let record: R = serde_json::from_slice(value).map_err(|e| {
        Error::corrupt(format!(
            "the record of the volume's owner cannot be read: {e}"
        ))
    })?;
    match record.as_ref().format {
        FORMAT => Ok(record),
        format => Err(Error::corrupt(format!(
            "the record of the volume's owner has format {format}; this version knows format {FORMAT}"
        ))),
    }
}

impl AsRef<Owner> for Owner {
    fn as_ref(&self) -> &Owner {
        self
    }
}

impl Holder {
    /// A process that has a volume since a time, in seconds of Unix time.
    fn new(process: &Process, since: u64) -> Holder {
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
fn unix_time() -> u64 {
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
