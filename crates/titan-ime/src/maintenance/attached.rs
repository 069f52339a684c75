//! A cache with the database beneath it, for loads and audits.

use std::sync::Arc;

use titan::{ColumnFamily, Db, DbIterator, ReadOptions, Snapshot};

use crate::error::Result;
use crate::segments::segment::Segment;
use crate::segments::shared::Shared;

/// The shared state of a cache, and its database. Clones are the same one.
#[derive(Clone)]
pub(crate) struct Attached {
    pub(crate) shared: Arc<Shared>,
    pub(crate) db: Db,
    /// The family of the versions.
    pub(crate) family: ColumnFamily,
}

impl Attached {
    /// An iterator over the entries of a segment in a snapshot, at the first of them.
    pub(crate) fn entries(&self, segment: &Segment, snapshot: Snapshot) -> Result<DbIterator> {
        let mut cursor = self.family.iter(&ReadOptions {
            snapshot: Some(snapshot),
            lower_bound: (!segment.lower.is_empty()).then(|| segment.lower.to_vec()),
            upper_bound: segment.upper.as_deref().map(<[u8]>::to_vec),
            ..ReadOptions::default()
        })?;
        cursor.seek_to_first()?;
        Ok(cursor)
    }
}
