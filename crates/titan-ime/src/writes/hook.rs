//! The commit hook: turns committed operations into pending writes.
//!
//! Promises: a published write is pending, or in every segment that is active then, or the segment
//! has ended. A call does no I/O, calls nothing of the database and never fails: a change that
//! segments cannot follow drops them, and a panic turns the cache off before the group is visible.

use std::panic::resume_unwind;

use titan::{BatchOp, BypassedRange, CommitHook, CommittedOps, EventListener, SequenceNumber};
use titan_mvcc::codec::{self, Effect};

use crate::content::write::{NewValue, Write};
use crate::segments::shared::Shared;
use crate::stats::Dropped;

/// The effect of an operation on segments.
enum Change<'a> {
    Nothing,
    Version(Write<'a>),
    /// A change that segments cannot follow, of the keys from the first to the second.
    Unknown(&'a [u8], Option<&'a [u8]>),
}

impl CommitHook for Shared {
    fn before_publish(&self, _: SequenceNumber, operations: &CommittedOps<'_>) {
        let followed = self.faults.off_on_panic(|| self.follow(operations));
        // The engine is to know that the hook has panicked.
        followed.unwrap_or_else(|panic| resume_unwind(panic));
    }

    fn on_bypass(&self, range: &BypassedRange<'_>, _: SequenceNumber) {
        let followed = self.faults.off_on_panic(|| {
            if self.is_versions(range.column_family) {
                self.bypass(range.begin.unwrap_or_default(), range.end);
            }
        });
        followed.unwrap_or_else(|panic| resume_unwind(panic));
    }
}

impl EventListener for Shared {
    /// Also called for a panic of the store's part of the hook, after which this part is not called
    /// either.
    fn commit_hook_poisoned(&self) {
        self.faults.turn_off();
    }
}

impl Shared {
    /// Adds the effects of operations to the log.
    fn follow(&self, operations: &CommittedOps<'_>) {
        if self.faults.is_off() || self.directory.load().is_empty() {
            return;
        }
        let mut filling = self.pending.fill();
        // ORDER: with the lock of the log, so that nothing is added after a cache that is off has
        // forgotten its log.
        if self.faults.is_off() {
            return;
        }
        for (_, op) in operations.iter() {
            match self.change(&op) {
                Change::Nothing => {}
                Change::Version(write) => filling.add(&write),
                Change::Unknown(lower, upper) => self.bypass(lower, upper),
            }
        }
        #[cfg(test)]
        self.may_panic("hook");
        if filling.done() {
            self.apply_pending();
        }
    }

    fn change<'a>(&self, op: &BatchOp<'a>) -> Change<'a> {
        let (key, value) = match *op {
            BatchOp::Put { cf, key, value } | BatchOp::TimedPut { cf, key, value, .. }
                if self.is_versions(cf) =>
            {
                (key, NewValue::of(value))
            }
            BatchOp::BlobIndex { cf, key, .. } if self.is_versions(cf) => (key, NewValue::Stored),
            BatchOp::Delete { cf, key } if self.is_versions(cf) => {
                // The store deletes records of transactions that were rolled back, which memory
                // does not have.
                return match codec::decode(key) {
                    Ok(entry) if entry.effect == Effect::None => Change::Nothing,
                    _ => unknown(key),
                };
            }
            BatchOp::SingleDelete { cf, key }
            | BatchOp::Merge { cf, key, .. }
            | BatchOp::PutEntity { cf, key, .. }
                if self.is_versions(cf) =>
            {
                return unknown(key);
            }
            BatchOp::DeleteRange { cf, begin, end } if self.is_versions(cf) => {
                return Change::Unknown(begin, Some(end));
            }
            _ => return Change::Nothing,
        };
        let Ok(entry) = codec::decode(key) else {
            return unknown(key);
        };
        Change::Version(Write {
            key: entry.encoded,
            commit: entry.commit,
            value: match entry.effect {
                Effect::Put => Some(value),
                Effect::Delete => None,
                Effect::None if mutant!(records_delete_rows) => None,
                Effect::None => return Change::Nothing,
            },
        })
    }

    /// Drops the segments that have keys from `lower` to before `upper`, whose change they cannot
    /// follow.
    fn bypass(&self, lower: &[u8], upper: Option<&[u8]>) {
        if mutant!(bypass_unnoticed) {
            return;
        }
        self.drop_segments(Dropped::Bypassed, |segment| segment.overlaps(lower, upper));
    }
}

/// A change of one key of the engine.
fn unknown(key: &[u8]) -> Change<'_> {
    // The range of the encoded keys that `key` can belong to: those that it begins with, which are
    // one or none.
    match codec::decode(key) {
        Ok(entry) => Change::Unknown(entry.encoded, Some(key)),
        Err(_) => Change::Unknown(key, None),
    }
}

#[cfg(test)]
#[cfg(workspace)]
mod tests {
    use titan::{DbOptions, EventListener, WriteBatch, WriteOptions};
    use titan_mvcc::codec::encode_key;
    use titan_mvcc::{Direction, Found, RangeSource, Store, StoreOptions};
    use titan_testkit::sim::SimVfs;

    use crate::content::write::{NewValue, Write};
    use crate::{CacheOptions, Error, RangeCache};

    /// A cache that holds three ranges, of keys that begin with `a`, `b` and later ones.
    fn cache() -> RangeCache {
        let options = StoreOptions {
            db: DbOptions {
                vfs: std::sync::Arc::new(SimVfs::new()),
                ..DbOptions::default()
            },
            ..StoreOptions::default()
        };
        let cache_options = CacheOptions {
            maintenance: None,
            ..CacheOptions::default()
        };
        let cache = RangeCache::open("/store", &options, &cache_options).unwrap();
        for key in [b"a1", b"b1", b"c1"] {
            put(cache.store(), key, b"value");
        }
        for (from, to) in [
            (&b"a"[..], Some(&b"b"[..])),
            (b"b", Some(b"c")),
            (b"c", None),
        ] {
            cache.load(Some(from), to).unwrap();
        }
        assert_eq!(cache.stats().segments, 3);
        cache
    }

    fn put(store: &Store, key: &[u8], value: &[u8]) {
        let mut transaction = store.begin();
        transaction.put(key, value);
        transaction.commit().unwrap();
    }

    fn get(store: &Store, key: &[u8]) -> Option<Vec<u8>> {
        store
            .snapshot()
            .get(key)
            .unwrap()
            .map(|value| value.to_vec())
    }

    fn count(store: &Store) -> usize {
        let scan = store.snapshot().scan(None, None, Direction::Forward);
        scan.unwrap().fold(0, |n, row| n + usize::from(row.is_ok()))
    }

    #[test]
    fn a_read_does_not_wait_for_a_thread_that_applies_writes() {
        let cache = cache();
        let store = cache.store();
        put(store, b"a1", b"new");
        let is_being_applied = cache.shared().pending.is_being_applied();
        let before = cache.shared().counters.points.sums();
        assert_eq!(get(store, b"a1").as_deref(), Some(&b"new"[..]));
        assert_eq!(count(store), 3);
        let after = cache.shared().counters.points.sums();
        assert_eq!((after.hits, after.not_applied), (before.hits, 1));
        assert!(cache.shared().counters.parts.sums().not_applied > 0);
        drop(is_being_applied);
        assert_eq!(get(store, b"a1").as_deref(), Some(&b"new"[..]));
        assert_eq!(cache.stats().points.hits, before.hits + 1);
    }

    #[test]
    fn a_hook_that_panics_turns_the_cache_off_and_harms_no_commit() {
        turns_off("hook");
    }

    /// The next read applies the writes. It goes on in the engine.
    #[test]
    fn a_read_that_panics_while_it_applies_writes_turns_the_cache_off_and_harms_nobody() {
        turns_off("apply");
    }

    fn turns_off(panics_at: &'static str) {
        let cache = cache();
        let store = cache.store();
        let mut scan = store
            .snapshot()
            .scan(None, None, Direction::Forward)
            .unwrap();
        assert_eq!(scan.next().unwrap().unwrap().key, b"a1");
        cache.shared().panics_at.lock().replace(panics_at);
        put(store, b"a1", b"new");
        assert_eq!(get(store, b"a1").as_deref(), Some(&b"new"[..]));
        assert!(cache.is_off());
        assert_eq!(store.db().is_commit_hook_poisoned(), panics_at == "hook");
        // What the hook does not learn of any more is found.
        put(store, b"a2", b"new");
        put(store, b"c1", b"new");
        for key in [b"a1", b"a2", b"c1"] {
            assert_eq!(get(store, key).as_deref(), Some(&b"new"[..]));
        }
        assert_eq!(count(store), 4);
        assert_eq!(scan.count(), 2);
        assert!(matches!(cache.load(None, None), Err(Error::Off)));
        cache.maintain();
        let stats = cache.stats();
        assert_eq!((stats.segments, stats.memory_used), (0, 0), "{stats:?}");
    }

    /// Neither by the next read nor by maintenance.
    #[test]
    fn what_was_pending_when_the_cache_went_off_is_not_applied_any_more_and_takes_no_memory() {
        let cache = cache();
        let (store, shared) = (cache.store().clone(), std::sync::Arc::clone(cache.shared()));
        shared.panics_at.lock().replace("apply");
        put(&store, b"a1", b"new");
        assert_eq!(get(&store, b"a1").as_deref(), Some(&b"new"[..]));
        let faults = cache.faults();
        assert!(faults.is_off);
        let what = "the path of writes panicked: as a test asked";
        assert_eq!(faults.what.as_deref(), Some(what));
        shared.panics_at.lock().take();
        assert_eq!(get(&store, b"a1").as_deref(), Some(&b"new"[..]));
        let list = shared.directory.load();
        let written: u64 = list.iter().map(|s| s.costs.end_pass().writes).sum();
        assert_eq!((list.len(), written), (3, 0));
        cache.maintain();
        put(&store, b"a1", b"newer");
        assert_eq!(shared.pending.capacity(), 0);
    }

    #[test]
    fn a_cache_that_is_dropped_leaves_nothing_in_the_store() {
        let cache = cache();
        let (store, shared) = (cache.store().clone(), std::sync::Arc::clone(cache.shared()));
        put(&store, b"a1", b"new");
        assert_ne!(shared.pending.capacity(), 0);
        drop(cache);
        put(&store, b"a1", b"newer");
        assert_eq!(get(&store, b"a1").as_deref(), Some(&b"newer"[..]));
        assert_eq!((shared.pending.capacity(), shared.budget.used()), (0, 0));
    }

    /// The hook of the cache is a part of that of the store, and another part may panic.
    #[test]
    fn a_cache_whose_hook_is_not_called_any_more_is_off() {
        let cache = cache();
        cache.shared().commit_hook_poisoned();
        assert!(cache.is_off());
        put(cache.store(), b"a1", b"new");
        assert_eq!(get(cache.store(), b"a1").as_deref(), Some(&b"new"[..]));
    }

    /// A thread may commit while it ends by a panic of its own, and may lead the group of others.
    #[test]
    fn a_commit_of_a_thread_that_panics_does_not_turn_the_cache_off() {
        struct CommitsAtTheEnd<'a>(&'a Store);

        impl Drop for CommitsAtTheEnd<'_> {
            fn drop(&mut self) {
                put(self.0, b"a1", b"new");
            }
        }

        let cache = cache();
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _commits = CommitsAtTheEnd(cache.store());
            panic!("as a test asks");
        }));
        assert!(panicked.is_err() && !cache.is_off());
        let hits = cache.stats().points.hits;
        assert_eq!(get(cache.store(), b"a1").as_deref(), Some(&b"new"[..]));
        assert_eq!(cache.stats().points.hits, hits + 1);
    }

    #[test]
    fn a_family_that_is_dropped_is_not_in_memory_any_more() {
        let cache = cache();
        let store = cache.store();
        let family = store.db().column_family("versions").unwrap();
        store.db().drop_column_family(&family).unwrap();
        let stats = cache.stats();
        assert_eq!(
            (stats.segments, stats.dropped_bypassed),
            (0, 3),
            "{stats:?}"
        );
    }

    /// Operations that no store makes: memory follows none of them, and keeps nothing that they may
    /// have changed.
    #[test]
    fn what_is_no_version_drops_the_segments_that_it_may_change() {
        for (n, left) in [(0, 2), (1, 2), (2, 1), (3, 2)] {
            let cache = cache();
            let store = cache.store();
            let family = store.db().column_family("versions").unwrap();
            let stored = |prefix: &[u8]| {
                let found = family.first_in_prefix(prefix, prefix).unwrap();
                found.unwrap().0.to_vec()
            };
            let b1 = encode_key(b"b1");
            let mut batch = WriteBatch::new();
            match n {
                0 => batch.delete(&family, stored(&b1)).unwrap(),
                1 => batch.delete_range(&family, &b1, encode_key(b"b2")).unwrap(),
                2 => batch.delete_range(&family, &b1, encode_key(b"c5")).unwrap(),
                _ => batch.put(&family, b"no entry", b"").unwrap(),
            }
            store.db().write(batch, &WriteOptions::default()).unwrap();
            assert_eq!(cache.stats().segments, left, "{n}");
            if n < 3 {
                assert_eq!(get(store, b"b1"), None, "{n}");
                assert_eq!(get(store, b"a1").as_deref(), Some(&b"value"[..]), "{n}");
                cache.audit().unwrap();
            }
        }
    }

    /// A write has the list of segments, and then one of them is split, joined or dropped.
    #[test]
    fn a_write_that_meets_a_segment_that_has_ended_goes_to_what_took_its_place() {
        for is_dropped in [false, true] {
            let cache = cache();
            let shared = cache.shared();
            let list = shared.directory.load();
            if is_dropped {
                cache.drop_range(Some(b"b"), Some(b"c"));
            } else {
                cache.maintain();
                assert_eq!((cache.stats().segments, cache.stats().joins), (1, 2));
            }
            let keys = [b"a2", b"b2", b"c2"].map(|key| encode_key(key));
            let writes = keys.each_ref().map(|key| Write {
                key,
                commit: cache.store().now(),
                value: Some(NewValue::Inline(b"late")),
            });
            shared.write(list, &writes);
            let found = keys.map(|key| shared.get(&key, cache.store().now()));
            let late = Some(Found::Value("late".into()));
            let middle = match is_dropped {
                true => None,
                false => late.clone(),
            };
            assert_eq!(found, [late.clone(), middle, late]);
        }
    }

    /// Also when the leaf is made anew, and when a row of one group replaces that of another.
    #[test]
    fn the_last_of_two_versions_with_one_timestamp_is_found() {
        let cache = cache();
        let shared = cache.shared();
        let now = cache.store().now();
        let key = encode_key(b"b1");
        let write = |value: &'static [u8]| Write {
            key: &key,
            commit: now,
            value: (!value.is_empty()).then_some(NewValue::Inline(value)),
        };
        for _ in 0..12 {
            for (group, expected) in [
                (vec![write(b"1"), write(b"2")], Some("2")),
                (vec![write(b"3"), write(b"")], None),
                (vec![write(b""), write(b"4")], Some("4")),
                (vec![write(b"5")], Some("5")),
            ] {
                shared.write(shared.directory.load(), &group);
                let expected = expected.map_or(Found::Nothing, |v| Found::Value(v.into()));
                assert_eq!(shared.get(&key, now), Some(expected));
            }
        }
    }

    #[test]
    fn writes_to_other_families_change_nothing() {
        let cache = cache();
        let mut batch = WriteBatch::new();
        batch.put(&**cache.store().db(), b"name", b"value").unwrap();
        cache
            .store()
            .db()
            .write(batch, &WriteOptions::default())
            .unwrap();
        assert_eq!(cache.stats().segments, 3);
    }

    #[test]
    fn a_store_with_a_range_source_of_its_own_is_refused() {
        let shared = std::sync::Arc::new(crate::segments::shared::Shared::new(0, 1, false));
        let options = StoreOptions {
            range_source: Some(shared),
            ..StoreOptions::default()
        };
        let refused = RangeCache::open("/store", &options, &CacheOptions::default());
        assert!(matches!(refused, Err(Error::SourceInUse)));
    }
}
