//! Audits: comparisons of memory with the engine, while both are used.
//!
//! In a barrier, memory and engine are of one moment. There the audit takes the root of a segment,
//! the ends of its tails and a snapshot of the engine. It compares afterwards, and blocks nothing
//! meanwhile.
//!
//! Each pass of maintenance audits a share of the segments, in turn. A difference turns the cache
//! off: a wrong answer is worse than a slow one.

use std::sync::atomic::Ordering;

use parking_lot::Mutex;
use titan::LazyValue;
use titan_mvcc::Timestamp;
use titan_mvcc::codec::{self, Effect};

use crate::content::root::Root;
use crate::content::versions::Seen;
use crate::content::view::{MergedRow, View};
use crate::error::{Error, Result};
use crate::maintenance::attached::Attached;
use crate::segments::segment::Segment;

/// The turn of the segments that maintenance audits.
#[derive(Default)]
pub(crate) struct Auditor(Mutex<Turn>);

#[derive(Default)]
struct Turn {
    /// Thousandths of segments that are due.
    due: u64,
    /// The first encoded key of the segment that was audited last.
    last: Option<Box<[u8]>>,
}

/// The extent of an audit, from [`RangeCache::audit`](crate::RangeCache::audit).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuditReport {
    /// Segments that were compared.
    pub segments: u64,
    /// Keys in the engine.
    pub keys: u64,
    /// Answers that were compared: of a key at a timestamp.
    pub answers: u64,
}

/// An audit: a cache with its database, and the store's safe point.
pub(crate) struct Audit<'a> {
    pub(crate) attached: &'a Attached,
    /// Versions before this timestamp may be dropped at any moment.
    pub(crate) safe_point: &'a dyn Fn() -> Timestamp,
}

impl Auditor {
    /// Audits `per_mille` thousandths of the segments, the next in turn. A difference turns the
    /// cache off. Errors of the store are ignored, because reads report them too.
    pub(crate) fn audit_some(&self, per_mille: u32, audit: &Audit<'_>) {
        let shared = &audit.attached.shared;
        let list = shared.directory.load().to_vec();
        let mut turn = self.0.lock();
        turn.due += list.len() as u64 * u64::from(per_mille);
        let first = match &turn.last {
            Some(last) => list.partition_point(|segment| segment.lower <= *last),
            None => 0,
        };
        for segment in list.iter().cycle().skip(first).take(list.len()) {
            if turn.due < 1_000 {
                return;
            }
            turn.due -= 1_000;
            turn.last = Some(segment.lower.clone());
            let mut report = AuditReport::default();
            let audited = audit.segment(segment, &mut report);
            let count = &shared.counters.audited;
            count.fetch_add(report.segments, Ordering::Relaxed);
            if let Err(Error::Differs { what }) = audited
                && !mutant!(difference_is_ignored)
            {
                shared.faults.differs(what);
                shared.give_back();
                return;
            }
        }
        // What is not there cannot be due.
        turn.due = 0;
    }
}

impl Audit<'_> {
    /// Compares all segments.
    pub(crate) fn all(&self) -> Result<AuditReport> {
        let mut report = AuditReport::default();
        for segment in self.attached.shared.directory.load().to_vec() {
            self.segment(&segment, &mut report)?;
        }
        Ok(report)
    }

    fn segment(&self, segment: &Segment, report: &mut AuditReport) -> Result<()> {
        let (shared, db) = (&self.attached.shared, &self.attached.db);
        let moment = db.barrier(|_| {
            shared.apply_pending();
            let root = segment.root()?;
            let orders = root.leaves.iter().map(|leaf| View::new(leaf).order());
            let orders: Vec<_> = orders.collect();
            Some((root, orders, db.snapshot()))
        })?;
        // A segment that is gone answers nothing.
        let Some((root, orders, snapshot)) = moment else {
            return Ok(());
        };
        if shared.faults.is_off() {
            return Err(Error::Off);
        }
        let mut rows = EngineRows(self.attached.entries(segment, snapshot)?);
        let views = root.leaves.iter().zip(orders);
        let views = views.map(|(leaf, order)| View::as_of(leaf, order));
        let views: Vec<View<'_>> = views.collect();
        let mut held = views.iter().flat_map(|view| view.forward(&[])).peekable();
        loop {
            let row = rows.next()?;
            // ORDER: after the row was read, so nothing of it was dropped by a later safe point.
            let from = (self.safe_point)();
            let is_before =
                |held: &MergedRow<'_>| row.as_ref().is_none_or(|row| held.key < &*row.key);
            while let Some(held) = held.next_if(|held| is_before(held)) {
                not_in_engine(segment, &root, &held, from)?;
            }
            let Some(row) = row else {
                break;
            };
            let of_row = held.next_if(|held| *held.key == *row.key);
            report.keys += 1;
            report.answers += same_answers(&root, of_row.as_ref(), &row, from)?;
        }
        report.segments += 1;
        Ok(())
    }
}

/// A key of the engine with its puts and deletions, newest first.
struct EngineRow {
    key: Vec<u8>,
    versions: Vec<(Timestamp, Option<LazyValue>)>,
}

/// The keys of a range of the engine that have some.
struct EngineRows(titan::DbIterator);

impl EngineRows {
    fn next(&mut self) -> Result<Option<EngineRow>> {
        let cursor = &mut self.0;
        let mut row: Option<EngineRow> = None;
        while cursor.valid() {
            let entry = codec::decode(cursor.key())?;
            if row.as_ref().is_some_and(|row| *row.key != *entry.encoded) {
                break;
            }
            let value = match entry.effect {
                Effect::Put => Some(Some(cursor.lazy_value()?)),
                Effect::Delete => Some(None),
                Effect::None => None,
            };
            if let Some(value) = value {
                let row = row.get_or_insert_with(|| EngineRow {
                    key: entry.encoded.to_vec(),
                    versions: Vec::new(),
                });
                row.versions.push((entry.commit, value));
            }
            cursor.next()?;
        }
        Ok(row)
    }
}

/// Checks a row that only memory has: no timestamp from `from` on may find a value in it.
fn not_in_engine(
    segment: &Segment,
    root: &Root,
    row: &MergedRow<'_>,
    from: Timestamp,
) -> Result<()> {
    let is_found =
        |v: &crate::content::versions::Version| root.served.has(v.commit) && v.commit >= from;
    let finds = row.versions().iter().any(is_found) && row.at(Timestamp::MAX) != Seen::Nothing;
    match finds || !segment.contains(row.key) {
        true => {
            let key = row.key.escape_ascii();
            let what = format!("\"{key}\" is in memory and not in the engine");
            Err(Error::Differs { what })
        }
        false => Ok(()),
    }
}

/// Compares all answers for a key from `from` on at the timestamps of the root. Returns their
/// number.
fn same_answers(
    root: &Root,
    held: Option<&MergedRow<'_>>,
    row: &EngineRow,
    from: Timestamp,
) -> Result<u64> {
    let starts = row.versions.iter().map(|(commit, _)| *commit);
    let moments = [root.served.from(), from, Timestamp::MAX];
    let readers = root.served.readers().iter().copied();
    let mut answers = 0;
    for at in starts.chain(moments).chain(readers) {
        if at < from || !root.served.has(at) {
            continue;
        }
        answers += 1;
        let expected = row.versions.iter().find(|(commit, _)| *commit <= at);
        let expected = expected.and_then(|(commit, value)| Some((*commit, value.as_ref()?)));
        let seen = held.map_or(Seen::Nothing, |held| held.at(at));
        let is_same = match (expected, seen) {
            (None, Seen::Nothing) => true,
            (Some((commit, _)), Seen::Stored(stored)) => commit == stored,
            (Some((_, value)), Seen::Value(seen)) => value.fetch()? == seen,
            _ => false,
        };
        if !is_same {
            let key = row.key.escape_ascii();
            let expected = expected.map(|(commit, _)| commit);
            let what = format!(
                "\"{key}\" at {at}: the engine has the version of {expected:?}, memory has {seen:?}"
            );
            return Err(Error::Differs { what });
        }
    }
    Ok(answers)
}

#[cfg(test)]
#[cfg(workspace)]
mod tests {
    use std::sync::Arc;

    use titan::DbOptions;
    use titan_mvcc::StoreOptions;
    use titan_mvcc::codec::encode_key;
    use titan_testkit::sim::SimVfs;

    use crate::content::write::{NewValue, Write};
    use crate::{CacheOptions, RangeCache};

    /// Ten segments that have ten keys each, and a cache that audits so many of a thousand.
    fn cache(audited_per_mille: u32) -> RangeCache {
        let options = StoreOptions {
            db: DbOptions {
                vfs: Arc::new(SimVfs::new()),
                ..DbOptions::default()
            },
            ..StoreOptions::default()
        };
        let cache_options = CacheOptions {
            maintenance: None,
            chooses: false,
            audited_per_mille,
            // Neighbours are not joined.
            segment_size: 1,
            ..CacheOptions::default()
        };
        let cache = RangeCache::open("/store", &options, &cache_options).unwrap();
        for key in 0..100_u8 {
            let mut transaction = cache.store().begin();
            transaction.put(&[key], b"value");
            transaction.commit().unwrap();
        }
        for from in (0..100_u8).step_by(10) {
            cache.load(Some(&[from]), Some(&[from + 10])).unwrap();
        }
        cache
    }

    /// Changes memory and not the engine.
    fn spoil(cache: &RangeCache, key: u8) {
        let key = encode_key(&[key]);
        let write = Write {
            key: &key,
            commit: cache.store().now(),
            value: Some(NewValue::Inline(b"wrong")),
        };
        let shared = cache.shared();
        shared.write(shared.directory.load(), &[write]);
    }

    #[test]
    fn a_difference_turns_the_cache_off_and_reads_go_on_in_the_engine() {
        // One that the engine has, and one that it has not.
        for key in [55, 100 - 1] {
            let cache = cache(1_000);
            cache.maintain();
            assert_eq!((cache.stats().audited, cache.difference()), (10, None));
            spoil(&cache, key);
            let get = || cache.store().snapshot().get(&[key]).unwrap().unwrap();
            assert_eq!(get(), "wrong");
            cache.maintain();
            assert!(cache.is_off());
            let difference = cache.difference().unwrap();
            assert!(difference.contains("memory has"), "{difference}");
            assert_eq!(get(), "value");
            assert_eq!(cache.stats().segments, 0);
        }
    }

    #[test]
    fn a_row_that_only_memory_has_is_a_difference() {
        let cache = cache(1_000);
        let key = [encode_key(&[42]), b"x".to_vec()].concat();
        let write = Write {
            key: &key,
            commit: cache.store().now(),
            value: Some(NewValue::Inline(b"wrong")),
        };
        let shared = cache.shared();
        shared.write(shared.directory.load(), &[write]);
        cache.maintain();
        let difference = cache.difference().unwrap();
        assert!(difference.contains("not in the engine"), "{difference}");
    }

    /// A share of the segments at each look, and all of them in turn.
    #[test]
    fn each_segment_is_audited_in_its_turn() {
        let cache = cache(150);
        for look in 1..=20 {
            cache.maintain();
            assert_eq!(cache.stats().audited, look * 3 / 2, "{look}");
        }
        spoil(&cache, 99);
        // The other nine at most come before.
        let looks = (0..20).take_while(|_| {
            cache.maintain();
            !cache.is_off()
        });
        assert!(looks.count() <= 7);
        let never = self::cache(0);
        spoil(&never, 1);
        never.maintain();
        assert_eq!((never.stats().audited, never.is_off()), (0, false));
    }
}
