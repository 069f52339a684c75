//! Values of a scan that the engine has and that were not looked up yet.
//!
//! Owns how they are found, and the count of those that were. A value keeps the snapshot of its scan, so the safe point
//! does not pass its version.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use titan::{FindValue, LazyValue};

use super::snapshot::Snapshot;
use crate::error::Error;
use crate::format::VERSIONS;
use crate::lookup::{ReadStats, value_at_encoded};

/// How many values of a scan were deferred, and how many of them were looked up.
#[derive(Default)]
pub(super) struct Deferrals {
    deferred: u64,
    fetched: Arc<AtomicU64>,
}

impl Deferrals {
    /// The value that an encoded key has at the timestamp of the snapshot: there is one.
    pub(super) fn defer(&mut self, snapshot: &Snapshot, encoded: Vec<u8>) -> LazyValue {
        self.deferred += 1;
        LazyValue::deferred(Arc::new(Deferred {
            snapshot: snapshot.clone(),
            encoded,
            fetched: Arc::clone(&self.fetched),
        }))
    }

    /// Whether the scan fetches half or more of the values that were deferred.
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
        // The row was counted by the scan.
        read.processed = 0;
        snapshot.core().reads.totals.add(read);
        let missing = || {
            let what = "a copy of its range has a value, and the store has none";
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
