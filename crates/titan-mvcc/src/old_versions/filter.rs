//! The compaction filter that drops old versions.
//!
//! Owns the rule for what no legal read can see. Reads are legal from the safe point on, so of the versions
//! of a key that were committed up to the safe point only the newest put or deletion is ever found. Everything
//! older goes, and so do locks up to the safe point: a transaction that could conflict with them began
//! before it, and there is none. So do the records of transactions that were rolled back: calls of a transaction
//! that began up to the safe point are refused.
//!
//! A lock after the safe point goes if a newer write of the key is there, with which every transaction conflicts that
//! would conflict with the lock, and if nobody asks how its transaction ended.
//!
//! # Locks stay until they leave no trace
//!
//! A read that finds a lock is led from there to the value, however many locks are between. In a job that is not at the bottom
//! a removal is a deletion of the engine, which a read steps over. So locks that no newer version hides are removed at the
//! bottom alone.
//!
//! # What one job may conclude
//!
//! A job sees some of the versions of a key, in order, the newest first. If it sees a put or a deletion up to
//! the safe point, it drops what is older *in this job*, whatever lies elsewhere: the version that it saw stays
//! until something newer replaces it.
//!
//! A deletion hides older versions, so it goes only when there are none, *anywhere*. That nothing lies below
//! the job is not enough. Versions are different keys to the engine: an older one may be in a table beside
//! those of the job, or above them, where a compaction has moved the newer one down alone. It would come
//! back. So the filter looks in the database itself. There it also finds what this very job drops, so a deletion
//! goes one compaction after what it hid.
//!
//! No older version can be written after that look, because commits are after the safe point. No other job can
//! drop the deletion first, because it is in the tables of this one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;
use titan::{
    ColumnFamily, CompactionFilter, CompactionFilterFactory, Decision, ErrorKind, FilterContext,
    FilterEntry,
};

use crate::format::version::{newest_at, split};
use crate::format::{Kind, LockValue, Version};
use crate::timestamp::Timestamp;

/// Where filters look for older versions: the family, while the store is open.
///
/// The options of the family own the factory of its filters. A handle that a filter owned would keep the
/// database open for ever, or close it in one of its own threads.
#[derive(Default)]
pub(crate) struct FilterFamily(RwLock<Option<ColumnFamily>>);

impl FilterFamily {
    /// The store is open.
    pub(crate) fn set(&self, family: ColumnFamily) {
        *self.0.write() = Some(family);
    }

    /// The store is about to close. Waits for looks of filters that are under way.
    pub(crate) fn clear(&self) {
        let family = self.0.write().take();
        drop(family);
    }

    /// Whether it is certain that no version of the key is older than this one.
    fn is_oldest(&self, encoded: &[u8], than: Timestamp) -> titan::Result<bool> {
        let guard = self.0.read();
        let Some(family) = &*guard else {
            return Ok(false);
        };
        if than == Timestamp::ZERO {
            return Ok(true);
        }
        // MUTANT: a deletion is dropped over an older version, which comes back.
        if mutant!(
            "deletion-dropped-over-an-older-version",
            "-p titan-mvcc --test it old_versions::"
        ) {
            return Ok(true);
        }
        let from = newest_at(encoded, than.previous());
        match family.first_in_prefix(&from, encoded) {
            Ok(found) => Ok(found.is_none()),
            Err(e) if e.kind() == ErrorKind::Closed => Ok(false),
            Err(e) => Err(e),
        }
    }
}

/// Makes the filters.
pub(crate) struct FilterFactory {
    /// Versions are dropped by this safe point.
    pub(crate) droppable: Arc<AtomicU64>,
    /// The family.
    pub(crate) versions: Arc<FilterFamily>,
}

impl CompactionFilterFactory for FilterFactory {
    fn name(&self) -> &str {
        "titan.mvcc.OldVersions"
    }

    fn create(&self, job: &FilterContext<'_>) -> Option<Box<dyn CompactionFilter>> {
        let safe_point = Timestamp(self.droppable.load(Ordering::Acquire));
        (safe_point > Timestamp::ZERO).then(|| {
            Box::new(Filter {
                safe_point,
                is_bottommost: job.is_bottommost,
                versions: Arc::clone(&self.versions),
                key: Vec::new(),
                has_newer: false,
                is_hidden: false,
            }) as Box<dyn CompactionFilter>
        })
    }
}

struct Filter {
    safe_point: Timestamp,
    /// Whether what is removed leaves no trace.
    is_bottommost: bool,
    versions: Arc<FilterFamily>,
    /// The encoded key of the last entry.
    key: Vec<u8>,
    /// Whether it has a put, a deletion or a lock that is newer.
    has_newer: bool,
    /// Whether the rest of its versions is hidden by one that reads at the safe point find.
    is_hidden: bool,
}

impl CompactionFilter for Filter {
    fn filter(&mut self, entry: &FilterEntry<'_>) -> titan::Result<Decision> {
        let (encoded, version) = split(entry.key())
            .map_err(|e| titan::Error::new(ErrorKind::Corruption, e.to_string()))?;
        if self.key != encoded {
            self.key.clear();
            self.key.extend_from_slice(encoded);
            (self.has_newer, self.is_hidden) = (false, false);
        }
        if version.commit > self.safe_point {
            // MUTANT: what is newer than the safe point hides the version that reads at the safe point find.
            self.is_hidden |= mutant!(
                "hidden-by-newer-than-the-safe-point",
                "-p titan-mvcc --test it old_versions::"
            );
            let is_replaced = self.is_replaced(version, entry)?;
            self.has_newer |= version.kind != Kind::Rollback;
            return Ok(decision(!is_replaced));
        }
        if self.is_hidden {
            return Ok(Decision::Remove);
        }
        match version.kind {
            Kind::Lock => return Ok(decision(!self.is_bottommost)),
            Kind::Rollback => return Ok(Decision::Remove),
            Kind::Put | Kind::Delete => {}
        }
        self.is_hidden = true;
        let is_needed =
            version.kind == Kind::Put || !self.versions.is_oldest(encoded, version.commit)?;
        Ok(decision(is_needed))
    }
}

impl Filter {
    /// Whether a newer version of the key says all that a version after the safe point says.
    fn is_replaced(&self, version: Version, entry: &FilterEntry<'_>) -> titan::Result<bool> {
        // MUTANT: the newest lock of a key is dropped, with which others conflict.
        let drops_newest = mutant!("newest-lock-dropped", "-p titan-campaigns --test it mvcc::");
        if version.kind != Kind::Lock || !self.is_bottommost || !(self.has_newer || drops_newest) {
            return Ok(false);
        }
        let value = LockValue::read(&entry.value().fetch()?, version.commit);
        Ok(value.is_replaceable)
    }
}

fn decision(keeps: bool) -> Decision {
    match keeps {
        true => Decision::Keep,
        false => Decision::Remove,
    }
}
