//! The safe point, holds, and what compactions drop.

use std::time::Duration;

use titan::CompactRangeOptions;
use titan_mvcc::{Direction, Error, Timestamp};

use super::setup::{Place, delete, put, stored_versions};

#[test]
fn reads_before_the_safe_point_are_refused_with_it_in_the_error() {
    let place = Place::new(1);
    let store = place.open();
    let first = put(&store, b"a", b"1");
    let second = put(&store, b"a", b"2");
    assert_eq!(store.advance_safe_point(second).unwrap(), second);
    let is_refused = |refused: Error| match refused {
        Error::BeforeSafePoint { asked, safe_point } => {
            (asked, safe_point) == (first, second)
                && refused.to_string().contains(&second.to_string())
        }
        _ => false,
    };
    assert!(is_refused(store.snapshot_at(first).unwrap_err()));
    assert!(is_refused(store.hold("late", first).unwrap_err()));
    let at = store.snapshot_at(second).unwrap();
    assert_eq!(at.get(b"a").unwrap().as_deref(), Some(&b"2"[..]));
    let backwards = store.advance_safe_point(first).unwrap_err();
    assert!(
        matches!(backwards, Error::SafePointBackwards { asked, safe_point }
            if (asked, safe_point) == (first, second)),
        "{backwards}"
    );
    let ahead = Timestamp(store.now().0 + 1);
    let future = store.advance_safe_point(ahead).unwrap_err();
    assert!(matches!(future, Error::InFuture { .. }), "{future}");
    drop((at, store));
    // It survives a restart.
    let store = place.open();
    assert_eq!(store.safe_point(), second);
    assert!(is_refused(store.snapshot_at(first).unwrap_err()));
}

#[test]
fn holds_snapshots_and_transactions_keep_the_safe_point_back_and_are_listed() {
    let place = Place::new(2);
    let store = place.open();
    let first = put(&store, b"a", b"1");
    let hold = store.hold("backup", first).unwrap();
    place.clock.advance(Duration::from_secs(5));
    let second = put(&store, b"a", b"2");
    let transaction = store.begin();
    let snapshot = store.snapshot_at(second).unwrap();
    let scan = snapshot.scan(None, None, Direction::Forward).unwrap();
    let third = put(&store, b"a", b"3");
    let listed: Vec<_> = store.holds();
    let names: Vec<_> = listed
        .iter()
        .map(|hold| (&*hold.name, hold.timestamp))
        .collect();
    let expected = [
        ("backup", first),
        ("transaction", second),
        ("snapshot", second),
    ];
    assert_eq!(names, expected);
    assert!(listed[0].age >= listed[1].age + Duration::from_secs(5));
    assert_eq!(store.advance_safe_point(third).unwrap(), first);
    drop(hold);
    assert_eq!(store.advance_safe_point(third).unwrap(), second);
    // The scan alone still holds the snapshot.
    drop((transaction, snapshot));
    assert_eq!(store.advance_safe_point(third).unwrap(), second);
    store.drop_old_versions().unwrap();
    let found: Vec<_> = scan
        .map(|row| row.unwrap().value.fetch().unwrap())
        .collect();
    assert_eq!(found, ["2"]);
    assert_eq!(store.advance_safe_point(third).unwrap(), third);
    assert_eq!(store.holds(), []);
}

#[test]
fn nothing_is_dropped_without_a_safe_point_and_nothing_stays_that_no_read_can_see() {
    let place = Place::new(3);
    let store = place.open();
    for round in 0..5 {
        for key in ["kept", "dead", "locked"] {
            put(&store, key.as_bytes(), &[round; 5000]);
        }
    }
    delete(&store, b"dead");
    delete(&store, b"never there");
    let mut locker = store.begin();
    locker.lock(b"locked");
    locker.lock(b"locked only");
    let safe_point = locker.commit().unwrap();
    let last = put(&store, b"kept", b"new");
    store.drop_old_versions().unwrap();
    assert_eq!(stored_versions(&store), 15 + 2 + 2 + 1);
    store.advance_safe_point(safe_point).unwrap();
    store.drop_old_versions().unwrap();
    // One each of "kept" and "locked" at the safe point, and the new one.
    assert_eq!(stored_versions(&store), 3);
    let at = store.snapshot_at(safe_point).unwrap();
    assert_eq!(at.get(b"kept").unwrap().unwrap(), [4; 5000][..]);
    assert_eq!(at.get(b"locked").unwrap().unwrap(), [4; 5000][..]);
    assert_eq!(at.get(b"dead").unwrap(), None);
    drop(at);
    store.advance_safe_point(last).unwrap();
    store.drop_old_versions().unwrap();
    assert_eq!(stored_versions(&store), 2);
    // What was dropped is garbage of blob files, by the engine's exact accounts.
    let family = store.db().column_family("versions").unwrap();
    let live = family.property("rocksdb.live-blob-file-size").unwrap();
    let garbage = family
        .property("rocksdb.live-blob-file-garbage-size")
        .unwrap();
    let (live, garbage): (u64, u64) = (live.parse().unwrap(), garbage.parse().unwrap());
    assert!(
        live - garbage < 2 * 5000,
        "{garbage} of {live} bytes are garbage"
    );
}

/// Versions of a key are different keys to the engine, so they may be in different tables. If a job
/// has only the deletion, and nothing lies below it, the deletion must stay all the same.
#[test]
fn a_deletion_stays_while_an_older_version_is_in_a_table_beside_it() {
    let mut place = Place::new(4);
    place.options.versions.enable_blob_files = false;
    place.options.versions.target_file_size_base = 1024;
    let store = place.open();
    put(&store, b"k", &[1; 5000]);
    put(&store, b"k", &[2; 5000]);
    let deleted = delete(&store, b"k");
    // With a value before the deletion in order, each of the versions has a table of its own.
    put(&store, b"k", &[4; 5000]);
    let versions = store.db().column_family("versions").unwrap();
    let options = CompactRangeOptions {
        force_bottommost: true,
    };
    versions.compact_range(None, None, &options).unwrap();
    assert_eq!(stored_versions(&store), 4);
    // No table alone shows much that may be dropped, so no sweep comes before what follows.
    store.advance_safe_point(deleted).unwrap();
    let at = store.snapshot_at(deleted).unwrap();
    let mut entries = versions.iter(&titan::ReadOptions::default()).unwrap();
    entries.seek_to_first().unwrap();
    entries.next().unwrap();
    let marker = entries.key().to_vec();
    drop(entries);
    for _ in 0..3 {
        versions
            .compact_range(Some(&marker), Some(&marker), &options)
            .unwrap();
        assert_eq!(at.get(b"k").unwrap(), None);
    }
    store.drop_old_versions().unwrap();
    assert_eq!(at.get(b"k").unwrap(), None);
    assert_eq!(stored_versions(&store), 1);
}
