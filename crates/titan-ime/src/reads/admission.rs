//! Admission: whether a segment may answer a read.
//!
//! A read applies the pending writes and takes the root of a segment with one load. If the root has
//! the timestamp of the read in its set, it has every version that the read can find:
//!
//! - new versions: each write published before the call was pending and is applied now, or was
//!   applied before, or the segment has ended;
//! - old versions: the root was pruned by its own set.
//!
//! So sequence numbers need not be compared, and readers do not announce themselves. Later changes
//! make other roots.

use std::time::Duration;

use bytes::Bytes;
use titan_mvcc::{Found, Timestamp};

use crate::content::root::Root;
use crate::content::versions::Seen;
use crate::segments::shared::Shared;
use crate::stats::Read;

impl Shared {
    /// Applies pending writes within bounds. An error is the reason why segments may not answer.
    pub(super) fn is_ready_within(&self, wait: Duration) -> Result<(), Read> {
        let is_applied = self.apply_pending_within(wait);
        // ORDER: after that, because a panic while writes are applied turns the cache off.
        match (self.faults.is_off(), is_applied) {
            (true, _) => Err(Read::Off),
            (false, false) => Err(Read::NotApplied),
            (false, true) => Ok(()),
        }
    }
}

/// The root, if its set has the timestamp; else the reason for reading the engine.
pub(super) fn admitted(root: Option<&Root>, at: Timestamp) -> Result<&Root, Read> {
    let root = root.ok_or(Read::NotReady)?;
    match root.served.has(at) || mutant!(old_reads_are_admitted) {
        true => Ok(root),
        false => Err(Read::TooOld),
    }
}

/// The store's form of an answer.
pub(super) fn found(seen: Seen<'_>) -> Found {
    match seen {
        Seen::Nothing => Found::Nothing,
        Seen::Value(value) => Found::Value(Bytes::copy_from_slice(value)),
        Seen::Stored(_) => Found::Stored,
    }
}
