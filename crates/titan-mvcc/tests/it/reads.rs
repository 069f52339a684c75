//! Reads at a timestamp, and what scans cost.

use titan_mvcc::{Direction, Error, ReadStats, Snapshot, Timestamp};

use super::setup::{Place, delete, put};

/// Keys and values of a range, and what the scan cost.
fn rows(snapshot: &Snapshot, direction: Direction) -> (Vec<(String, String)>, ReadStats) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let mut scan = snapshot.scan(None, None, direction).unwrap();
    let rows = scan
        .by_ref()
        .map(Result::unwrap)
        .map(|row| (text(&row.key), text(&row.value.fetch().unwrap())))
        .collect();
    (rows, scan.stats())
}

#[test]
fn each_timestamp_has_its_value() {
    let place = Place::new(1);
    let store = place.open();
    let empty = store.now();
    let first = put(&store, b"a", b"1");
    let second = put(&store, b"a", b"2");
    let third = delete(&store, b"a");
    let fourth = put(&store, b"a", b"4");
    let before = |at: Timestamp| Timestamp(at.0 - 1);
    for (at, value) in [
        (empty, None),
        (before(first), None),
        (first, Some("1")),
        (before(second), Some("1")),
        (second, Some("2")),
        (third, None),
        (before(fourth), None),
        (fourth, Some("4")),
    ] {
        let snapshot = store.snapshot_at(at).unwrap();
        let value = value.map(str::as_bytes);
        assert_eq!(snapshot.get(b"a").unwrap().as_deref(), value, "{at}");
        let batch = snapshot.batch_get(&[&b"b"[..], b"a"]).unwrap();
        assert_eq!(batch[0], None);
        assert_eq!(batch[1].as_deref(), value, "{at}");
        for direction in [Direction::Forward, Direction::Backward] {
            let found = rows(&snapshot, direction).0;
            let values: Vec<_> = found.iter().map(|(_, value)| value.as_bytes()).collect();
            assert_eq!(values, Vec::from_iter(value), "{at}");
        }
    }
}

#[test]
fn a_timestamp_that_was_not_handed_out_is_refused() {
    let place = Place::new(2);
    let store = place.open();
    let ahead = Timestamp(store.now().0 + (1 << 40));
    let refused = store.snapshot_at(ahead).unwrap_err();
    assert!(
        matches!(refused, Error::InFuture { asked, .. } if asked == ahead),
        "{refused}"
    );
    // One that was is no secret of the commits, and no later commit comes before it.
    let at = store.oracle().next().unwrap();
    let snapshot = store.snapshot_at(at).unwrap();
    assert!(put(&store, b"a", b"1") > at);
    assert_eq!(snapshot.get(b"a").unwrap(), None);
}

#[test]
fn a_value_in_a_blob_file_is_read_when_it_is_fetched() {
    let place = Place::new(3);
    let store = place.open();
    put(&store, b"large", &[7; 100_000]);
    store.db().flush_all().unwrap();
    place.vfs.reset_counters();
    let snapshot = store.snapshot();
    let value = snapshot.get_lazy(b"large").unwrap().unwrap();
    let mut scan = snapshot.scan(None, None, Direction::Forward).unwrap();
    assert_eq!(scan.next().unwrap().unwrap().value.len(), Some(100_000));
    assert_eq!(place.vfs.bytes_read(".blob"), 0);
    assert_eq!(value.fetch().unwrap(), [7; 100_000][..]);
    assert!(place.vfs.bytes_read(".blob") > 0);
}

#[test]
fn a_row_costs_one_step_however_many_versions_it_has() {
    let place = Place::new(4);
    let store = place.open();
    for round in 0..100 {
        for key in ["a", "b", "c", "d"] {
            put(&store, key.as_bytes(), round.to_string().as_bytes());
        }
    }
    let (found, stats) = rows(&store.snapshot(), Direction::Forward);
    assert_eq!(found.len(), 4);
    assert!(found.iter().all(|(_, value)| value == "99"));
    let expected = ReadStats::default();
    let (mut forward, mut backward) = (expected, expected);
    (forward.seek, forward.next, forward.processed) = (1, 4, 4);
    // So many the engine steps over before it jumps.
    forward.versions_skipped = 7 * 4;
    assert_eq!(stats, forward);
    // Backward, the oldest version comes first: eight steps, a seek to the newest one, one away.
    let (found, stats) = rows(&store.snapshot(), Direction::Backward);
    assert_eq!(found.len(), 4);
    assert!(found.iter().all(|(_, value)| value == "99"));
    (backward.seek, backward.prev, backward.processed) = (1 + 2 * 4, 8 * 4, 4);
    backward.versions_skipped = 7 * 4;
    assert_eq!(stats, backward);
}

#[test]
fn newer_versions_cost_eight_steps_and_a_seek() {
    let place = Place::new(5);
    let store = place.open();
    put(&store, b"a", b"old");
    let at = put(&store, b"b", b"old");
    for _ in 0..100 {
        put(&store, b"a", b"new");
    }
    let snapshot = store.snapshot_at(at).unwrap();
    let (found, stats) = rows(&snapshot, Direction::Forward);
    assert!(found.iter().all(|(_, value)| value == "old"));
    assert_eq!((stats.processed, stats.seek), (2, 2));
    assert_eq!((stats.next, stats.versions_skipped), (8 + 2, 8));
    let (found, stats) = rows(&snapshot, Direction::Backward);
    assert!(found.iter().all(|(_, value)| value == "old"));
    assert_eq!((stats.processed, stats.versions_skipped), (2, 1));
}

#[test]
fn dead_rows_and_locks_are_counted_and_not_returned() {
    let place = Place::new(6);
    let store = place.open();
    for n in 0..100 {
        let key = format!("key{n:03}");
        put(&store, key.as_bytes(), b"1");
        if n % 10 != 0 {
            delete(&store, key.as_bytes());
        }
    }
    let mut locker = store.begin();
    locker.lock(b"key000");
    locker.lock(b"nothing");
    locker.commit().unwrap();
    for direction in [Direction::Forward, Direction::Backward] {
        let (found, stats) = rows(&store.snapshot(), direction);
        assert_eq!(found.len(), 10, "{direction:?}");
        assert_eq!((stats.processed, stats.dead_rows_skipped), (10, 90));
        // The puts below the deletions, and the locks.
        assert_eq!(stats.versions_skipped, 90 + 2, "{direction:?}");
    }
}

#[test]
fn a_key_with_many_locks_has_what_it_had_before_them() {
    let place = Place::new(7);
    let store = place.open();
    for key in ["a", "both", "z"] {
        put(&store, key.as_bytes(), b"1");
    }
    for _ in 0..20 {
        let mut locker = store.begin();
        locker.lock(b"both");
        locker.lock(b"locks only");
        locker.commit().unwrap();
    }
    let snapshot = store.snapshot();
    assert_eq!(snapshot.get(b"both").unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(snapshot.get(b"locks only").unwrap(), None);
    let keys = |direction| {
        let rows = rows(&snapshot, direction).0;
        rows.into_iter().map(|(key, _)| key).collect::<Vec<_>>()
    };
    assert_eq!(keys(Direction::Forward), ["a", "both", "z"]);
    assert_eq!(keys(Direction::Backward), ["z", "both", "a"]);
}

#[test]
fn point_reads_are_counted_and_the_store_has_the_sums() {
    let place = Place::new(8);
    let store = place.open();
    for round in 0..50 {
        put(&store, b"many", &[round]);
    }
    put(&store, b"dead", b"1");
    delete(&store, b"dead");
    put(&store, b"locked", b"1");
    for _ in 0..3 {
        let mut locker = store.begin();
        locker.lock(b"locked");
        locker.commit().unwrap();
    }
    let snapshot = store.snapshot();
    let cost = |key: &[u8]| {
        let mut stats = ReadStats::default();
        snapshot.get_lazy_counted(key, &mut stats).unwrap();
        stats
    };
    let mut one = ReadStats::default();
    one.seek = 1;
    assert_eq!(cost(b"nowhere"), one);
    let (mut live, mut dead, mut locked) = (one, one, one);
    // One seek, with any number of versions.
    live.processed = 1;
    assert_eq!(cost(b"many"), live);
    dead.dead_rows_skipped = 1;
    assert_eq!(cost(b"dead"), dead);
    // The newest lock says where the value is.
    (locked.seek, locked.versions_skipped) = (2, 1);
    locked.processed = 1;
    assert_eq!(cost(b"locked"), locked);

    let mut total = one;
    for read in [live, dead, locked] {
        total += read;
    }
    assert_eq!(store.read_stats(), total);
    snapshot.get(b"many").unwrap();
    store.begin().get(b"dead").unwrap();
    let mut scan = snapshot.scan(None, None, Direction::Backward).unwrap();
    assert_eq!(scan.by_ref().count(), 2);
    for read in [live, dead, scan.stats()] {
        total += read;
    }
    drop(scan);
    assert_eq!(store.read_stats(), total);
}
