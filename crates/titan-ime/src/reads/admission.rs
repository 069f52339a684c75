//! Admission: whether a segment may answer a read.
//!
//! Owns the rule of admission. A read settles the pending writes and takes the root of a segment with one load. If the
//! root serves the timestamp of the read, it has all that the read can find: every version that was published before the
//! call, because it was pending, or put there, or the segment ended first; and every old one that the timestamp needs,
//! because the root says what it serves and was pruned by that. So a sequence number is not compared and readers do not announce
//! themselves. What comes later changes other roots.

use std::time::Duration;

use bytes::Bytes;
use titan_mvcc::{Found, Timestamp};

use crate::content::root::Root;
use crate::content::versions::Seen;
use crate::segments::shared::Shared;
use crate::stats::Read;

impl Shared {
    /// Settles, within bounds. An error says why segments cannot be looked at after all.
    pub(super) fn is_ready_within(&self, wait: Duration) -> Result<(), Read> {
        let is_settled = self.settle_within(wait);
        // ORDER: after that, because a panic while writes are applied turns the cache off.
        match (self.faults.is_off(), is_settled) {
            (true, _) => Err(Read::Off),
            (false, false) => Err(Read::NotApplied),
            (false, true) => Ok(()),
        }
    }
}

/// The root, if it serves the timestamp; else why not.
pub(super) fn admitted(root: Option<&Root>, at: Timestamp) -> Result<&Root, Read> {
    let root = root.ok_or(Read::NotReady)?;
    // MUTANT: a read is answered by a root that has been pruned past it.
    match root.served.has(at) || mutant!("old-reads-are-admitted", "-p titan-ime --test it model::")
    {
        true => Ok(root),
        false => Err(Read::TooOld),
    }
}

/// What the store gets of what memory has.
pub(super) fn found(seen: Seen<'_>) -> Found {
    match seen {
        Seen::Nothing => Found::Nothing,
        Seen::Value(value) => Found::Value(Bytes::copy_from_slice(value)),
        Seen::Stored(_) => Found::Stored,
    }
}
