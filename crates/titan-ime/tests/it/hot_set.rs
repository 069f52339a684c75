//! The file of the ranges that a cache remembers. `remembered.txt` of `tests/golden` has what is
//! loaded of them.

use titan::vfs::Vfs;
use titan_ime::{CacheOptions, RangeCache, Remembered};
use titan_mvcc::StoreOptions;

use super::place::{Place, put};

#[test]
fn the_hot_set_is_read_without_a_cache_and_another_file_of_its_name_is_none() {
    let mut place = Place::new(1);
    place.cache.chooses = true;
    let cache = place.open();
    put(cache.store(), b"a", b"1");
    cache.load(Some(b"a"), Some(b"b")).unwrap();
    let held = cache.held();
    assert_eq!(held[0].from.as_deref(), Some(&b"a"[..]));
    assert!(held[0].bytes > 0 && !held[0].is_pinned, "{held:?}");
    cache.close().unwrap();
    let vfs: &dyn Vfs = &*place.store.db.vfs;
    let remembered = Remembered::read(vfs, "/store".as_ref());
    assert_eq!(remembered.unwrap().held, held);
    let mut file = vfs.create("/store/IME-HOT-SET".as_ref()).unwrap();
    file.append(b"something else").unwrap();
    drop(file);
    let cache = place.open();
    cache.maintain();
    assert_eq!(cache.stats().remembered, 0);
    cache.close().unwrap();
}

/// It is a file beside the store's, and goes where these go.
#[test]
fn the_hot_set_of_a_store_that_was_moved_is_written_where_the_store_is() {
    let place = tempfile::tempdir().unwrap();
    let (here, there) = (place.path().join("here"), place.path().join("there"));
    let options = CacheOptions {
        chooses: true,
        ..CacheOptions::default()
    };
    let cache = RangeCache::open(&here, &StoreOptions::default(), &options).unwrap();
    let mut transaction = cache.store().begin();
    transaction.put(b"a", b"1");
    transaction.commit().unwrap();
    cache.load(None, None).unwrap();
    std::fs::rename(&here, &there).unwrap();
    std::fs::create_dir(&here).unwrap();
    cache.close().unwrap();
    assert!(there.join("IME-HOT-SET").exists());
    assert_eq!(std::fs::read_dir(&here).unwrap().count(), 0);
}
