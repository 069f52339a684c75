//! The auditor: compares what memory answers with what the engine answers, while both are used.
//!
//! In a barrier, memory and engine are of one moment. So the auditor takes the root of a segment and a snapshot of
//! the engine there, notes how far the tails of the leaves are, and compares afterwards without holding anything up.

use titan::{ColumnFamily, LazyValue, ReadOptions};
use titan_mvcc::entries::{self, Effect};
use titan_mvcc::{Store, Timestamp};

use crate::error::{Error, Result};
use crate::root::Root;
use crate::row::Seen;
use crate::segment::Segment;
use crate::shared::Shared;
use crate::view::View;

/// What an audit looked at, from [`RangeCache::audit`](crate::RangeCache::audit).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuditReport {
    /// Segments that were compared.
    pub segments: u64,
    /// Keys in the engine or in memory.
    pub keys: u64,
    /// Answers that were compared: of a key at a timestamp.
    pub answers: u64,
}

/// A key of the engine, with its puts and deletions, the newest first.
type EngineRow = (Vec<u8>, Vec<(Timestamp, Option<LazyValue>)>);

impl Shared {
    pub(crate) fn audit(&self, store: &Store, family: &ColumnFamily) -> Result<AuditReport> {
        let mut report = AuditReport::default();
        let segments = self.directory.load().iter().cloned().collect::<Vec<_>>();
        for segment in segments {
            let db = store.db();
            let moment = db.barrier(|_| {
                let root = segment.root();
                let leaves = root.as_ref().map_or(&[][..], |root| &root.leaves);
                let orders: Vec<_> = leaves.iter().map(|leaf| View::new(leaf).order()).collect();
                (root.map(|root| (root, orders)), db.snapshot())
            })?;
            // A segment that is off or gone answers nothing.
            let (Some((root, orders)), snapshot) = moment else {
                continue;
            };
            if self.is_off() {
                return Err(Error::Off);
            }
            let options = ReadOptions {
                snapshot: Some(snapshot),
                lower_bound: (!segment.lower.is_empty()).then(|| segment.lower.to_vec()),
                upper_bound: segment.upper.as_deref().map(<[u8]>::to_vec),
                ..ReadOptions::default()
            };
            let rows = engine_rows(family, &options)?;
            // What is before the safe point by now may have been dropped from the engine.
            let from = store.safe_point();
            let views = root.leaves.iter().zip(orders);
            let views: Vec<_> = views
                .map(|(leaf, order)| View::as_of(leaf, order))
                .collect();
            compare(&segment, &root, &views, &rows, from, &mut report)?;
            report.segments += 1;
        }
        Ok(report)
    }
}

fn engine_rows(family: &ColumnFamily, options: &ReadOptions) -> Result<Vec<EngineRow>> {
    let mut cursor = family.iter(options)?;
    let mut rows: Vec<EngineRow> = Vec::new();
    cursor.seek_to_first()?;
    while cursor.valid() {
        let entry = entries::decode(cursor.key())?;
        let value = match entry.effect {
            Effect::Put => Some(Some(cursor.lazy_value()?)),
            Effect::Delete => Some(None),
            Effect::None => None,
        };
        if let Some(value) = value {
            match rows.last_mut() {
                Some((key, versions)) if **key == *entry.encoded => {
                    versions.push((entry.commit, value));
                }
                _ => rows.push((entry.encoded.to_vec(), vec![(entry.commit, value)])),
            }
        }
        cursor.next()?;
    }
    Ok(rows)
}

/// Compares all answers of a root, whose leaves were as `views` has them, from the timestamp `from` on that the root serves.
fn compare(
    segment: &Segment,
    root: &Root,
    views: &[View<'_>],
    rows: &[EngineRow],
    from: Timestamp,
    report: &mut AuditReport,
) -> Result<()> {
    for view in views {
        for row in view.forward(&[]) {
            let in_engine = rows
                .binary_search_by(|(key, _)| (**key).cmp(row.key))
                .is_ok();
            let finds = row
                .versions()
                .iter()
                .any(|v| root.served.has(v.commit) && v.commit >= from);
            let is_inside = segment.contains(row.key);
            if !is_inside || (!in_engine && finds && row.at(Timestamp::MAX) != Seen::Nothing) {
                let key = row.key.escape_ascii();
                let what = format!("\"{key}\" is in memory and not in the engine");
                return Err(Error::Differs { what });
            }
        }
    }
    for (key, versions) in rows {
        report.keys += 1;
        let starts = versions.iter().map(|(commit, _)| *commit);
        let moments = [root.served.from(), from, Timestamp::MAX];
        let readers = root.served.readers().iter().copied();
        for at in starts.chain(moments).chain(readers) {
            if at < from || !root.served.has(at) {
                continue;
            }
            report.answers += 1;
            let expected = versions.iter().find(|(commit, _)| *commit <= at);
            let expected = expected.and_then(|(commit, value)| Some((*commit, value.as_ref()?)));
            let view = views.get(root.leaf_of(key));
            let seen = view.map_or(Seen::Nothing, |view| view.get(key, at));
            let is_same = match (expected, seen) {
                (None, Seen::Nothing) => true,
                (Some((commit, _)), Seen::Stored(stored)) => commit == stored,
                (Some((_, value)), Seen::Value(seen)) => value.fetch()? == seen,
                _ => false,
            };
            if !is_same {
                let key = key.escape_ascii();
                let expected = expected.map(|(commit, _)| commit);
                let what = format!(
                    "\"{key}\" at {at}: the engine has the version of {expected:?}, memory has {seen:?}"
                );
                return Err(Error::Differs { what });
            }
        }
    }
    Ok(())
}
