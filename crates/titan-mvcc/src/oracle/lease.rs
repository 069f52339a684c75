//! The lease of timestamps: a bound on disk of all timestamps that the store has had.

use crate::error::Result;
use crate::meta::{LEASE, Meta};
use crate::timestamp::Timestamp;

/// How far ahead timestamps are leased: 3 s, so that an oracle in use writes once in 3 s.
const LEASED_AHEAD: u64 = 3_000 << 18;

/// See the module.
pub(super) struct Lease {
    meta: Meta,
    /// Timestamps before this one may be used.
    end: Timestamp,
}

impl Lease {
    /// That of the last opening.
    ///
    /// # Errors
    /// Those of the engine.
    pub(super) fn open(meta: Meta) -> Result<Self> {
        // The timestamp 0 is before all commits, so it is never handed out.
        let end = Timestamp(meta.get(LEASE)?.unwrap_or(1));
        Ok(Lease { meta, end })
    }

    /// No timestamp from this one on was used.
    pub(super) fn end(&self) -> Timestamp {
        self.end
    }

    /// A timestamp up to which some were taken for certain: that for which the lease was written. None if nothing was
    /// ever leased.
    pub(super) fn taken(&self) -> Option<Timestamp> {
        self.end.0.checked_sub(LEASED_AHEAD + 1).map(Timestamp)
    }

    /// Makes sure that the end of the lease is on disk, and after a timestamp. Cost: a synced write once in three
    /// seconds.
    ///
    /// # Errors
    /// Those of the engine. The timestamp must not be used then.
    pub(super) fn cover(&mut self, timestamp: Timestamp) -> Result<()> {
        if timestamp >= self.end {
            let end = timestamp.0.saturating_add(1 + LEASED_AHEAD);
            // ORDER: the lease is durable before a timestamp within it is handed out.
            self.meta.set(LEASE, end)?;
            self.end = Timestamp(end);
        }
        Ok(())
    }
}
