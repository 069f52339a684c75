//! Values of a scan whose lookup in the engine is deferred.
//!
//! Owns the lookup, and counts it. A deferred value keeps the snapshot of its scan, so the safe
//! point does not pass its version.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use titan::{FindValue, LazyValue};

use super::snapshot::Snapshot;
use crate::error::Error;
use crate::format::VERSIONS;
use crate::lookup::{ReadStats, value_at_encoded};

/// Counts the deferred values of a scan, and their lookups.
#[derive(Default)]
pub(super) struct Deferrals {
    deferred: u64,
    fetched: Arc<AtomicU64>,
}

impl Deferrals {
    /// Defers the lookup of an encoded key, which has a value at the timestamp of the snapshot.
    pub(super) fn defer(&mut self, snapshot: &Snapshot, encoded: Vec<u8>) -> LazyValue {
        self.deferred += 1;
        LazyValue::deferred(Arc::new(Deferred {
            snapshot: snapshot.clone(),
            encoded,
            fetched: Arc::clone(&self.fetched),
        }))
    }

    /// Returns true if the scan fetches at least half of its deferred values.
    pub(super) fn are_fetched(&self) -> bool {
        self.deferred > 0 && self.fetched.load(Ordering::Relaxed) >= self.deferred.div_ceil(2)
    }
}

struct Deferred {
    snapshot: Snapshot,
    encoded: Vec<u8>,
    fetched: Arc<AtomicU64>,
}

impl FindValue for Deferred {
    fn find(&self) -> titan::Result<LazyValue> {
        self.fetched.fetch_add(1, Ordering::Relaxed);
        let (snapshot, at) = (&self.snapshot, self.snapshot.timestamp());
        let mut read = ReadStats::default();
        let found = value_at_encoded(snapshot.versions(), &self.encoded, at, &mut read);
        // The scan has counted the row.
        read.processed = 0;
        snapshot.core().reads.totals.add(read);
        let missing = || {
            let what = "the range source has a value, but the store has none";
            Error::corrupt_entry(VERSIONS, &self.encoded, what)
        };
        found
            .and_then(|found| found.ok_or_else(missing))
            .map_err(|error| match error {
                Error::Engine(error) => error,
                other => titan::Error::corruption(other.to_string()),
            })
    }
}
