//! Children that are forked while a cache is open.

use std::time::Duration;

use titan::ErrorKind;
use titan_ime::{CacheOptions, Error, RangeCache};
use titan_mvcc::StoreOptions;
use titan_testkit::child::in_child;

#[test]
fn a_child_reads_through_the_cache_and_leaves_the_hot_set_alone() {
    let place = tempfile::tempdir().unwrap();
    // Threads of its own, and a hot set that closing writes.
    let options = CacheOptions {
        maintenance: Some(Duration::from_secs(1000)),
        chooses: true,
        ..CacheOptions::default()
    };
    let cache = RangeCache::open(place.path(), &StoreOptions::default(), &options).unwrap();
    let put = |cache: &RangeCache, key: &[u8]| {
        let mut transaction = cache.store().begin();
        transaction.put(key, b"1");
        transaction.commit()
    };
    put(&cache, b"a").unwrap();
    cache.load(None, None).unwrap();
    let files = || {
        let entries = std::fs::read_dir(place.path()).unwrap().map(Result::unwrap);
        let mut files: Vec<_> = entries
            .map(|entry| (entry.file_name(), entry.metadata().unwrap().len()))
            .collect();
        files.sort();
        files
    };
    let before = files();
    let mut kept = Some(cache);
    in_child(60, || {
        let cache = kept.take().unwrap();
        let got = cache.store().snapshot().get(b"a").unwrap();
        assert_eq!(got.as_deref(), Some(&b"1"[..]));
        let Err(titan_mvcc::Error::Engine(error)) = put(&cache, b"b") else {
            panic!("a child has written");
        };
        assert_eq!(error.kind(), ErrorKind::ReadOnly);
        cache.maintain();
        let refused = |outcome: titan_ime::Result<()>| match outcome {
            Err(Error::Store(titan_mvcc::Error::Engine(error))) => {
                assert_eq!(error.kind(), ErrorKind::ReadOnly);
            }
            other => panic!("{other:?}"),
        };
        refused(cache.audit().map(drop));
        refused(cache.begin_load(Some(b"x"), None).map(drop));
        refused(cache.begin_pinned_load(None, None).map(drop));
        assert_eq!(cache.drop_range(None, None), 0);
        cache.set_memory_limit(0);
        let stats = cache.stats();
        assert_eq!(stats.segments, 1, "{stats:?}");
        assert_ne!(stats.memory_limit, 0);
        assert!(cache.close().is_err());
        Ok(())
    })
    .unwrap();
    assert_eq!(files(), before);
    let cache = kept.unwrap();
    put(&cache, b"b").unwrap();
    assert!(!cache.is_off());
    cache.audit().unwrap();
    cache.close().unwrap();
}
