//! The compaction filter that drops old versions.
//!
//! Reads begin at the safe point. So of the versions of a key up to the safe point, reads find only
//! the newest put or deletion. The filter drops all older ones, all locks up to the safe point (a
//! transaction that conflicts with them would have begun before it), and all rollback records up to
//! it (late calls of those transactions are refused).
//!
//! A lock after the safe point is dropped if the key has a newer write, which conflicts with the
//! same transactions, and if no caller asks for the outcome of the lock's transaction.
//!
//! # Locks stay until they leave no trace
//!
//! A read finds the value through the newest lock, however many locks follow. But above the bottom
//! level, dropping a version leaves a deletion of the engine, and a read steps over each. So a lock
//! without a newer version is dropped at the bottom level only.
//!
//! # The reach of one job
//!
//! A job sees some of the versions of a key, the newest first. When it sees a put or a deletion up
//! to the safe point, it drops all older ones *in this job*: that version stays until a newer one
//! replaces it.
//!
//! A deletion hides older versions, so it may be dropped only when there are none, *anywhere*. An
//! empty level below the job proves nothing: versions are different keys to the engine, and a table
//! beside the job, or above it, may contain an older one. That version would come back. So the
//! filter searches the database. It also finds the versions that this job drops, so a deletion goes
//! one compaction after the versions that it hid.
//!
//! No older version can be written after that search, because commits are after the safe point. No
//! other job can drop the deletion first, because its table belongs to this one.

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

/// The filters' handle of the family, while the store is open.
///
/// The options of the family own the factory of filters. A handle in a filter would keep the
/// database open for ever, or close it in one of its own threads.
#[derive(Default)]
pub(crate) struct FilterFamily(RwLock<Option<ColumnFamily>>);

impl FilterFamily {
    /// Gives filters the family when the store opens.
    pub(crate) fn set(&self, family: ColumnFamily) {
        *self.0.write() = Some(family);
    }

    /// Takes the family away before the store closes. Waits for running searches.
    pub(crate) fn clear(&self) {
        let family = self.0.write().take();
        drop(family);
    }

    /// Returns true if the key certainly has no version older than this one.
    fn is_oldest(&self, encoded: &[u8], than: Timestamp) -> titan::Result<bool> {
        let guard = self.0.read();
        let Some(family) = &*guard else {
            return Ok(false);
        };
        if than == Timestamp::ZERO {
            return Ok(true);
        }
        if mutant!(deletion_dropped_over_an_older_version) {
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
    /// The safe point on disk.
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
    /// True if dropping a version leaves no trace.
    is_bottommost: bool,
    versions: Arc<FilterFamily>,
    /// The encoded key of the last entry.
    key: Vec<u8>,
    /// True if the key has a newer put, deletion or lock.
    has_newer: bool,
    /// True if a version up to the safe point hides the rest of the key.
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
            self.is_hidden |= mutant!(hidden_by_newer_than_the_safe_point);
            let is_replaced = self.is_replaced(version, entry)?;
            self.has_newer |= version.kind != Kind::Rollback;
            return Ok(decision(!is_replaced));
        }
        if self.is_hidden {
            return Ok(Decision::Remove);
        }
        match version.kind {
            Kind::Lock => return Ok(decision(!self.is_bottommost)),
            Kind::Rollback => return Ok(decision(mutant!(records_of_rollbacks_stay))),
            Kind::Put | Kind::Delete => {}
        }
        self.is_hidden = true;
        let is_needed =
            version.kind == Kind::Put || !self.versions.is_oldest(encoded, version.commit)?;
        Ok(decision(is_needed))
    }
}

impl Filter {
    /// Returns true if a newer version of the key makes a lock after the safe point superfluous.
    fn is_replaced(&self, version: Version, entry: &FilterEntry<'_>) -> titan::Result<bool> {
        let drops_newest = mutant!(newest_lock_dropped);
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
