//! Failures around the cache: the oracle, the machine.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use titan::vfs::{Memory, Resources, Vfs};
use titan_ime::{RangeCache, Remembered};
use titan_mvcc::{Direction, Error, Store, Timestamp, TimestampOracle};
use titan_testkit::sim::{Loss, SimVfs};

use super::place::{Place, delete, put, rows};

/// Gives the next numbers, up to a limit.
struct Limited {
    next: AtomicU64,
    limit: AtomicU64,
}

impl TimestampOracle for Limited {
    fn next(&self) -> titan_mvcc::Result<Timestamp> {
        let next = self.next.fetch_add(1, Ordering::SeqCst);
        match next < self.limit.load(Ordering::SeqCst) {
            true => Ok(Timestamp(next)),
            false => Err(Error::oracle("it stands still")),
        }
    }
}

#[test]
fn an_oracle_that_stands_still_stops_commits_and_nothing_else() {
    let oracle = Arc::new(Limited {
        next: AtomicU64::new(1_000),
        limit: AtomicU64::new(u64::MAX),
    });
    let mut place = Place::new(1);
    place.store.oracle = Some(Arc::clone(&oracle) as Arc<dyn TimestampOracle>);
    let cache = place.open();
    let store = cache.store();
    for n in 0..300_u32 {
        put(store, &n.to_be_bytes(), b"old");
    }
    let reader = store.snapshot();
    for n in (0..300_u32).step_by(2) {
        put(store, &n.to_be_bytes(), b"new");
    }
    delete(store, &7_u32.to_be_bytes());
    let mut load = cache.begin_load(None, None).unwrap();
    load.step().unwrap();
    oracle.limit.store(0, Ordering::SeqCst);
    let mut refused = store.begin();
    refused.put(b"key", b"value");
    assert!(matches!(refused.commit(), Err(Error::Oracle { .. })));
    // The load ends, readers are served, dead versions go as far as they may.
    load.finish().unwrap();
    let used = cache.stats().memory_used;
    for _ in 0..3 {
        cache.maintain();
        assert_eq!(rows(&reader, None, None, Direction::Forward).len(), 300);
        let now = rows(&store.snapshot(), None, None, Direction::Backward);
        assert_eq!(now.len(), 299);
        assert_eq!(now[0].1, b"new");
    }
    drop(reader);
    cache.maintain();
    let stats = cache.stats();
    assert!(stats.memory_used < used, "{stats:?}");
    assert_eq!(stats.parts.not_held, 0, "{stats:?}");
    oracle.limit.store(u64::MAX, Ordering::SeqCst);
    put(store, b"key", b"value");
    assert_eq!(
        cache.store().snapshot().get(b"key").unwrap().unwrap(),
        "value"
    );
    cache.audit().unwrap();
}

/// A limit that the machine does not have is no reason to be ended by the kernel.
#[test]
fn a_limit_beyond_memory_is_one_that_fits() {
    let vfs = SimVfs::new();
    let (total, left) = (200_000, 100_000);
    vfs.set_resources(Resources {
        memory: Some(Memory { total, left }),
        ..Resources::default()
    });
    let mut place = Place::new(4);
    place.store.db.vfs = Arc::new(vfs);
    place.cache.memory_limit = usize::MAX;
    let cache = place.open();
    assert_eq!(cache.stats().memory_limit, 150_000);
    for n in 0..300_u32 {
        put(cache.store(), &n.to_be_bytes(), &[1; 40]);
    }
    cache.load(None, Some(&100_u32.to_be_bytes())).unwrap();
    for n in 300..3_000_u32 {
        put(cache.store(), &n.to_be_bytes(), &[1; 40]);
    }
    let rest = cache.load(Some(&100_u32.to_be_bytes()), None);
    let refused = rest.unwrap_err();
    assert!(
        matches!(
            refused,
            titan_ime::Error::MemoryLimit { limit: 150_000, .. }
        ),
        "{refused}"
    );
    cache.set_memory_limit(usize::MAX);
    assert_eq!(cache.stats().memory_limit, 150_000);
    cache.set_memory_limit(20_000);
    assert_eq!(cache.stats().memory_limit, 20_000);
}

#[test]
fn a_store_without_versions_is_refused_and_stays_as_it_was() {
    let place = Place::new(2);
    let options = titan::Options {
        db: place.store.db.clone(),
        ..titan::Options::default()
    };
    let db = titan::Db::open("/store", &options).unwrap();
    db.put(b"key", b"value").unwrap();
    db.close().unwrap();
    let refused = RangeCache::open("/store", &place.store, &place.cache).unwrap_err();
    assert!(
        matches!(refused, titan_ime::Error::Store(Error::NotVersioned { .. })),
        "{refused}"
    );
    let db = titan::Db::open("/store", &options).unwrap();
    assert_eq!(db.get(b"key").unwrap().unwrap(), "value");
}

/// Everything that a life with a cache left, at each point of its journal: what it committed is
/// what a store without a cache would have, and the list of what it held is whole or not there.
#[test]
fn the_machine_stops_at_any_point_and_the_store_has_all_that_it_would_have_alone() {
    let vfs = SimVfs::new();
    let mut place = Place::new(3);
    place.store.db.vfs = Arc::new(vfs.clone());
    place.store.write.sync = true;
    place.cache.chooses = true;
    let cache = place.open();
    vfs.mark(0);
    for n in 0..60_u64 {
        put(cache.store(), &n.to_be_bytes(), &n.to_be_bytes());
        vfs.mark(n + 1);
        if n == 10 || n == 30 {
            let from = n.to_be_bytes();
            cache
                .load(Some(&from), Some(&(n + 10).to_be_bytes()))
                .unwrap();
        }
        cache.maintain();
    }
    cache.close().unwrap();
    let journal = vfs.journal();
    let mut held = std::collections::BTreeSet::new();
    for point in journal.crash_points() {
        for loss in [Loss::None, Loss::All, Loss::Random(point.index() as u64)] {
            let image = point.crash(&loss);
            let acknowledged = point.acknowledged();
            let Ok(true) = image.exists(Path::new("/store/CURRENT")) else {
                continue;
            };
            let list = Remembered::read(&image, Path::new("/store"));
            held.insert(list.map_or(0, |list| list.held.len()));
            let mut again = place.store.clone();
            again.db.vfs = Arc::new(image);
            let what = format!("crash at {}, {loss:?}", point.index());
            let Ok(cache) = RangeCache::open("/store", &again, &place.cache) else {
                assert_eq!(acknowledged, 0, "{what}");
                continue;
            };
            cache.maintain();
            let found = committed(cache.store());
            assert!(found >= acknowledged, "{what}: {found} of {acknowledged}");
            assert_eq!(cache.difference(), None, "{what}");
            cache.drop_range(None, None);
            assert_eq!(committed(cache.store()), found, "{what}");
        }
    }
    assert_eq!(held.into_iter().collect::<Vec<_>>(), [0, 2]);
}

/// The number of commits, which are the first ones.
fn committed(store: &Store) -> u64 {
    let found = rows(&store.snapshot(), None, None, Direction::Forward);
    for (n, (key, value)) in found.iter().enumerate() {
        assert_eq!(
            (&**key, &**value),
            (&n.to_be_bytes()[..], &n.to_be_bytes()[..])
        );
    }
    found.len() as u64
}
