//! Options of a manual collection.

use std::fmt;
use std::sync::Arc;

use super::range::GarbageCollectionProgress;
use crate::error::{Result, require};

/// Options of [`collect_garbage`](crate::ColumnFamily::collect_garbage).
#[derive(Clone)]
pub struct CollectGarbageOptions {
    /// The share of a blob file, from 0 to 1, that may be garbage without the file being collected.
    /// Default: 0, so that no garbage stays.
    pub threshold: f64,
    /// Flush and compact the range first: values that were overwritten or deleted are known to be
    /// garbage only once a compaction has dropped the entries that point to them. Rewrites keys, no
    /// values. Default: true.
    pub compact: bool,
    /// Called now and then with the progress of copying, on the caller's thread. Must not call the
    /// database. Default: none.
    pub progress: Option<Arc<dyn Fn(GarbageCollectionProgress) + Send + Sync>>,
}

impl Default for CollectGarbageOptions {
    fn default() -> Self {
        CollectGarbageOptions {
            threshold: 0.0,
            compact: true,
            progress: None,
        }
    }
}

impl CollectGarbageOptions {
    /// Checks every range, as a collection does before it begins.
    ///
    /// # Errors
    /// `InvalidOption` naming the option, the rule and the value.
    pub fn validate(&self) -> Result<()> {
        let share = (0.0..=1.0).contains(&self.threshold);
        require(share, "threshold", "from 0 to 1", self.threshold)
    }

    pub(crate) fn report(&self, progress: GarbageCollectionProgress) {
        if let Some(tell) = &self.progress {
            tell(progress);
        }
    }
}

impl fmt::Debug for CollectGarbageOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CollectGarbageOptions")
            .field("threshold", &self.threshold)
            .field("compact", &self.compact)
            .finish_non_exhaustive()
    }
}
