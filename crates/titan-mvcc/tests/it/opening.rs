//! Opening stores, and refusing what is none.

use titan::{Db, ErrorKind, Options};
use titan_mvcc::{Error, Store};

use super::setup::{DIR, Place, put};

fn options(place: &Place) -> Options {
    Options {
        db: place.options.db.clone(),
        ..Options::default()
    }
}

#[test]
fn a_database_that_was_written_without_versions_is_refused_and_keeps_what_it_has() {
    let place = Place::new(1);
    let db = Db::open(DIR, &options(&place)).unwrap();
    db.put(b"a", b"1").unwrap();
    db.close().unwrap();
    let refused = Store::open(DIR, &place.options).unwrap_err();
    assert!(matches!(refused, Error::NotVersioned { .. }), "{refused}");
    let names = Db::list_column_families(DIR, &options(&place)).unwrap();
    assert_eq!(names, ["default"]);
    let db = Db::open(DIR, &options(&place)).unwrap();
    assert_eq!(db.get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
    db.create_column_family("other", Default::default())
        .unwrap();
    db.close().unwrap();
    let refused = Store::open(DIR, &place.options).unwrap_err();
    assert!(refused.to_string().contains("family other"), "{refused}");
}

#[test]
fn an_empty_database_becomes_a_store() {
    let place = Place::new(2);
    Db::open(DIR, &options(&place)).unwrap().close().unwrap();
    let store = place.open();
    put(&store, b"a", b"1");
    store.close().unwrap();
    let found = place.open().snapshot().get(b"a").unwrap();
    assert_eq!(found.as_deref(), Some(&b"1"[..]));
}

#[test]
fn a_store_of_another_format_is_refused() {
    let place = Place::new(3);
    let store = place.open();
    store.db().put(b"format", &2_u64.to_be_bytes()).unwrap();
    store.close().unwrap();
    let refused = Store::open(DIR, &place.options).unwrap_err();
    let is_unsupported = matches!(&refused, Error::Engine(e) if e.kind() == ErrorKind::Unsupported);
    assert!(is_unsupported, "{refused}");
}

#[test]
fn damaged_entries_are_errors_that_name_them() {
    let place = Place::new(4);
    let store = place.open();
    put(&store, b"a", b"1");
    let versions = store.db().column_family("versions").unwrap();
    versions.put(b"b\0\0\0\0\0\0\0\xf8\xff", b"").unwrap();
    for failed in [
        store.snapshot().get(b"b").err(),
        store
            .snapshot()
            .scan(None, None, titan_mvcc::Direction::Forward)
            .unwrap()
            .find_map(Result::err),
    ] {
        let failed = failed.unwrap_or_else(|| panic!("the damage was not seen"));
        assert!(
            failed.to_string().contains("of column family versions"),
            "{failed}"
        );
    }
    store.close().unwrap();
    let closed = store.snapshot().get(b"a").unwrap_err();
    assert!(matches!(&closed, Error::Engine(e) if e.kind() == ErrorKind::Closed));
}

#[test]
fn damaged_locks_are_errors_that_name_them() {
    let record_of_zero = [&b"D\0"[..], &[0; 40], b"\0\0\0\x01k"].concat();
    for (key, value) in [
        (&b"k\0\0\0\0\0\0\0\xf8L"[..], &b"no record"[..]),
        (b"k\0\0\0\0\0\0\0\xf8X", b""),
        (b"k", b""),
        // A transaction that began at zero, which is not after the safe point.
        (b"k\0\0\0\0\0\0\0\xf8L", &record_of_zero),
    ] {
        let place = Place::new(5);
        let store = place.open();
        let locks = store.db().column_family("locks").unwrap();
        locks.put(key, value).unwrap();
        store.close().unwrap();
        let refused = Store::open(DIR, &place.options).unwrap_err();
        assert!(matches!(refused, Error::Corruption { .. }), "{refused}");
        let text = refused.to_string();
        assert!(text.contains("of column family locks"), "{text}");
    }
}

#[test]
fn commits_without_a_wal_are_refused() {
    let mut place = Place::new(9);
    place.options.write.disable_wal = true;
    let refused = Store::open(DIR, &place.options).err().unwrap();
    assert!(refused.to_string().contains("WAL"), "{refused}");
}

/// The log of a store is bounded by its memtables, unless the caller bounds it.
#[test]
fn the_log_takes_as_much_as_two_memtables_of_versions_by_default() {
    let bound = |place: &Place| {
        let store = place.open();
        let report = store.db().space_report().unwrap();
        store.close().unwrap();
        report.bound.unwrap().wal_bytes
    };
    let mut place = Place::new(9);
    place.options.versions.write_buffer_size = 3 << 20;
    assert_eq!(bound(&place), 6 << 20);
    place.options.db.max_total_wal_size = 5 << 20;
    assert_eq!(bound(&place), 5 << 20);
}
