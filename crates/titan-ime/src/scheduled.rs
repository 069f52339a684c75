//! A cache without a store, for the campaign `shuttle`, whose scheduler knows the locks of the
//! engine and of this crate but not those of a store. Only in builds with `--cfg shuttle`.

use std::sync::Arc;

use titan::{ColumnFamily, CommitHook, Db};
use titan_mvcc::{RangeSource, Timestamp};

use crate::error::Result;
use crate::maintenance::attached;
use crate::maintenance::audit::{Audit, AuditReport};
use crate::maintenance::range_load::Load;
use crate::maintenance::segment_load::Kind;
use crate::segments::shared::Shared;
use crate::stats::Dropped;

/// The side of a cache for reads and commits.
#[derive(Clone)]
pub struct Cache(Arc<Shared>);

impl Cache {
    /// An empty cache with a limit of memory.
    pub fn new(memory_limit: usize, segment_size: usize) -> Self {
        Cache(Arc::new(Shared::new(memory_limit, segment_size, false)))
    }

    /// The hook of the database.
    pub fn hook(&self) -> Arc<dyn CommitHook> {
        Arc::clone(&self.0) as Arc<dyn CommitHook>
    }

    /// The source for reads.
    pub fn source(&self) -> &dyn RangeSource {
        &*self.0
    }

    /// Attaches the cache to a database and the family of its versions.
    pub fn attach(&self, db: &Db, family: &ColumnFamily) -> Attached {
        self.0.set_family(family.id());
        Attached(attached::Attached {
            shared: Arc::clone(&self.0),
            db: db.clone(),
            family: family.clone(),
        })
    }
}

/// A cache with its database. Clones are the same one.
#[derive(Clone)]
pub struct Attached(attached::Attached);

impl Attached {
    /// Sets the limits of pruning: versions stay that reads from `from` on find, or one of these
    /// readers, all before `now`.
    pub fn aim(&self, now: Timestamp, from: Timestamp, readers: &[Timestamp]) {
        self.0.shared.set_target(now, from, readers);
    }

    /// Prunes, splits and joins.
    pub fn maintain(&self) {
        self.0.shared.maintain();
    }

    /// Begins to load a range of encoded keys.
    ///
    /// # Errors
    /// As [`RangeCache::begin_load`](crate::RangeCache::begin_load).
    pub fn begin_load(&self, lower: Vec<u8>, upper: Option<Vec<u8>>) -> Result<Load> {
        let range = (lower, upper);
        Load::begin(&self.0, range, Kind::Range)
    }

    /// Drops the segments that have keys in a range.
    pub fn drop_range(&self, lower: &[u8], upper: Option<&[u8]>) {
        let overlaps = |segment: &crate::segments::segment::Segment| segment.overlaps(lower, upper);
        self.0.shared.drop_segments(Dropped::Asked, overlaps);
    }

    /// Changes the limit of memory.
    pub fn set_memory_limit(&self, bytes: usize) {
        self.0.shared.budget.set_limit(bytes);
        self.0.shared.make_room();
    }

    /// Bytes that are charged.
    pub fn memory_used(&self) -> usize {
        self.0.shared.budget.used()
    }

    /// Compares memory with the engine, whose safe point is zero.
    ///
    /// # Errors
    /// As [`RangeCache::audit`](crate::RangeCache::audit).
    pub fn audit(&self) -> Result<AuditReport> {
        let audit = Audit {
            attached: &self.0,
            safe_point: &|| Timestamp::ZERO,
        };
        audit.all()
    }
}
