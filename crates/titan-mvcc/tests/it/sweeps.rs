//! Sweeps: what tables say about their versions, the safe point by time, what is compacted and what
//! is left.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use titan::{ColumnFamily, CompactRangeOptions, SystemClock};
use titan_mvcc::{Direction, Error, Mutation, Prewrite, Store, Timestamp};
use titan_testkit::sim::{Fault, OpKind};

use super::percolator::request;
use super::setup::{DIR, Place, delete, put, stored_versions};

const HOUR: Duration = Duration::from_secs(3600);

/// A place where the safe point follows time when a test sweeps. Waits of more than a day last as
/// long as they say: so a sweeper that sweeps once in a year sweeps when it is woken, and else only
/// by hand.
pub fn by_hand(seed: u64, retention: Duration) -> Place {
    let mut place = Place::new(seed);
    place.options.db.clock = Arc::new(place.clock.with_waits(|timeout| timeout <= 24 * HOUR));
    place.options.retention = Some(retention);
    place.options.sweep_interval = 24 * 365 * HOUR;
    place
}

/// Opens the store of such a place, and waits until the sweeper has done the sweep of each opening,
/// so that it does not do what the test does by hand.
pub fn open_by_hand(place: &Place) -> Store {
    let store = place.open();
    while store.sweep_stats().sweeps == 0 {
        std::thread::yield_now();
    }
    store
}

fn versions_of(store: &Store) -> ColumnFamily {
    store.db().column_family("versions").unwrap()
}

fn number(bytes: &[u8]) -> u64 {
    let each = bytes.iter().rev();
    each.fold(0, |number, byte| number << 7 | u64::from(byte & 0x7f))
}

/// The numeric properties of the only table.
fn properties(store: &Store) -> BTreeMap<String, u64> {
    let tables = versions_of(store).table_properties(None, None).unwrap();
    assert_eq!(tables.len(), 1);
    let all = tables[0].properties.iter();
    let all = all.filter(|(name, _)| !name.ends_with(b".droppable"));
    all.map(|(name, value)| (String::from_utf8(name.clone()).unwrap(), number(value)))
        .collect()
}

/// The numbers of the tables with versions.
fn tables(store: &Store) -> BTreeSet<u64> {
    let tables = versions_of(store).table_properties(None, None).unwrap();
    tables.iter().map(|table| table.file.0).collect()
}

/// Compacts all versions to the last level.
fn compact_all(store: &Store) {
    let options = CompactRangeOptions {
        force_bottommost: true,
    };
    versions_of(store)
        .compact_range(None, None, &options)
        .unwrap();
}

#[test]
fn tables_say_how_many_versions_may_be_dropped_from_when_on() {
    let place = Place::new(1);
    let store = place.open();
    let first = put(&store, b"a", &[1; 100]);
    let second = put(&store, b"a", &[2; 50]);
    let third = put(&store, b"a", b"3");
    put(&store, b"b", &[1; 200]);
    let deleted = delete(&store, b"b");
    let mut locker = store.begin();
    locker.lock(b"c");
    let locked = locker.commit().unwrap();
    store.db().flush_all().unwrap();
    let found = properties(&store);
    for (name, expected) in [
        ("versions", 6),
        ("rows", 3),
        ("puts", 4),
        ("deletes", 1),
        ("locks", 1),
        ("row.versions", 3),
        ("commit.oldest", first.0),
        ("commit.newest", locked.0),
        ("delete.oldest", deleted.0),
        ("droppable.first", second.0),
        ("droppable.last", locked.0),
    ] {
        assert_eq!(found[&format!("mvcc.{name}")], expected, "{name}");
    }
    let table = &versions_of(&store).table_properties(None, None).unwrap()[0];
    let garbage: Vec<_> = table
        .garbage
        .iter()
        .map(|from| (from.moment, from.bytes))
        .collect();
    let moments: Vec<_> = garbage.iter().map(|(moment, _)| *moment).collect();
    assert_eq!(moments, [second.0, third.0, deleted.0, locked.0]);
    // The values, and keys of 19 to 28 bytes.
    for ((_, bytes), value) in garbage.iter().zip([100, 50, 200, 0]) {
        let keys = if value == 200 { 2 } else { 1 };
        let expected = value + 19 * keys..=value + 28 * keys;
        assert!(expected.contains(bytes), "{bytes} of {value}");
    }
    // Nothing may be dropped of what remains.
    store.advance_safe_point(locked).unwrap();
    store.drop_old_versions().unwrap();
    let found = properties(&store);
    assert_eq!((found["mvcc.versions"], found["mvcc.puts"]), (1, 1));
    assert_eq!(found.get("mvcc.droppable.first"), None);
}

#[test]
fn the_engine_compacts_tables_with_much_to_drop_by_itself() {
    let place = Place::new(2);
    let store = place.open();
    for round in 0..10 {
        for key in 0..50_u8 {
            put(&store, &[key], &[round; 5000]);
        }
    }
    let last = store.now();
    compact_all(&store);
    assert_eq!(stored_versions(&store), 500);
    store.advance_safe_point(last).unwrap();
    store.db().wait_idle().unwrap();
    while stored_versions(&store) > 50 {
        std::thread::yield_now();
    }
}

#[test]
fn dropping_by_hand_leaves_tables_alone_that_have_nothing_to_drop() {
    let mut place = Place::new(3);
    place.options.versions.enable_blob_files = false;
    place.options.versions.target_file_size_base = 1024;
    place.options.versions.disable_auto_compactions = true;
    let store = place.open();
    for key in 0..100_u8 {
        put(&store, &[key], &[1; 500]);
    }
    compact_all(&store);
    let before = tables(&store);
    assert!(before.len() > 20);
    store.advance_safe_point(store.now()).unwrap();
    store.drop_old_versions().unwrap();
    assert_eq!(tables(&store), before);
    // The newer version and the older one are in different tables.
    let newer = put(&store, &[50], b"2");
    store.advance_safe_point(Timestamp(newer.0 - 1)).unwrap();
    store.drop_old_versions().unwrap();
    assert_eq!(stored_versions(&store), 101);
    store.advance_safe_point(newer).unwrap();
    store.drop_old_versions().unwrap();
    assert_eq!(stored_versions(&store), 100);
    let after = tables(&store);
    assert!(before.intersection(&after).count() + 3 >= before.len());
    // And in one table, to the timestamp.
    let mut place = Place::new(4);
    place.options.versions.disable_auto_compactions = true;
    let store = place.open();
    put(&store, b"a", b"1");
    for key in [b"b", b"c", b"d"] {
        // So that the table is not worth a sweep.
        put(&store, key, b"1");
    }
    let newer = put(&store, b"a", b"2");
    store.advance_safe_point(newer).unwrap();
    store.drop_old_versions().unwrap();
    assert_eq!(stored_versions(&store), 4);
}

#[test]
fn tables_of_programs_without_the_collector_are_not_left_out() {
    let place = Place::new(5);
    let store = place.open();
    put(&store, b"a", b"1");
    let newer = put(&store, b"a", b"2");
    store.close().unwrap();
    drop(store);
    // A tool compacts the database, which knows nothing about versions.
    let options = titan::Options {
        db: place.options.db.clone(),
        ..titan::Options::default()
    };
    let db = titan::Db::open(DIR, &options).unwrap();
    let family = db.column_family("versions").unwrap();
    family.flush().unwrap();
    let force = CompactRangeOptions {
        force_bottommost: true,
    };
    family.compact_range(None, None, &force).unwrap();
    db.close().unwrap();
    drop((family, db));
    let store = place.open();
    let known = versions_of(&store).table_properties(None, None).unwrap();
    assert!(known[0].properties.is_empty());
    store.advance_safe_point(newer).unwrap();
    store.drop_old_versions().unwrap();
    assert_eq!(stored_versions(&store), 1);
}

#[test]
fn the_safe_point_follows_time_at_the_distance_of_the_retention() {
    let place = by_hand(6, Duration::from_secs(600));
    let store = open_by_hand(&place);
    let first = put(&store, b"a", b"1");
    place.clock.advance(Duration::from_secs(400));
    let second = put(&store, b"a", b"2");
    assert!(store.sweep().unwrap().safe_point < first);
    place.clock.advance(Duration::from_secs(300));
    let swept = store.sweep().unwrap();
    assert_eq!(swept.safe_point, store.safe_point());
    assert!((first..second).contains(&swept.safe_point));
    let distance = place.clock.unix_time() - swept.safe_point.unix_time();
    // Threads of the engine that wait let time pass, too.
    assert!((600..660).contains(&distance.as_secs()), "{distance:?}");
    let refused = store.snapshot_at(first).unwrap_err();
    assert!(
        matches!(refused, Error::BeforeSafePoint { .. }),
        "{refused}"
    );
    let at = store.snapshot_at(swept.safe_point).unwrap();
    assert_eq!(at.get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
    drop(at);
    // Not past the last commit: there is nothing to drop up to later timestamps, and nothing is
    // written.
    place.clock.advance(1000 * HOUR);
    assert_eq!(store.sweep().unwrap().safe_point, second);
    place.vfs.reset_counters();
    assert_eq!(store.sweep().unwrap().safe_point, second);
    assert_eq!(store.safe_point(), second);
    // A clock that was set back moves nothing back.
    place.clock.jump_ms(-2000 * 3_600_000);
    let third = put(&store, b"a", b"3");
    let swept = store.sweep().unwrap().safe_point;
    assert!((second..third).contains(&swept), "{swept}");
    place.clock.jump_ms(2000 * 3_600_000);
    place.clock.advance(HOUR);
    assert_eq!(store.sweep().unwrap().safe_point, third);
}

#[test]
fn a_hold_keeps_the_safe_point_and_its_end_wakes_the_sweeper() {
    let place = by_hand(7, Duration::from_secs(60));
    let store = open_by_hand(&place);
    let first = put(&store, b"a", b"1");
    let hold = store.hold("backup", first).unwrap();
    let last = (0..20).fold(first, |_, _| put(&store, b"a", b"2"));
    store.db().flush_all().unwrap();
    place.clock.advance(2 * HOUR);
    assert_eq!(store.sweep().unwrap().safe_point, first);
    assert_eq!(stored_versions(&store), 21);
    drop(hold);
    // The thread of the store, which would not sweep by itself for a year.
    while stored_versions(&store) > 1 {
        std::thread::yield_now();
    }
    assert_eq!(store.safe_point(), last);
}

/// A hold ends with the process, and the first sweep comes with the next opening.
#[test]
fn a_hold_of_the_last_opening_is_kept_if_the_next_one_asks_for_it() {
    let mut place = by_hand(13, HOUR);
    let store = open_by_hand(&place);
    let first = put(&store, b"a", b"1");
    let last = put(&store, b"a", b"2");
    store.close().unwrap();
    drop(store);
    place.clock.advance(2 * HOUR);
    place.options.held_at = Some(first);
    let store = open_by_hand(&place);
    assert_eq!(store.safe_point(), first);
    assert_eq!(store.holds()[0].name, "opening");
    assert_eq!(
        store.snapshot_at(first).unwrap().get(b"a").unwrap(),
        Some(b"1"[..].into())
    );
    let named = store.hold("backup", first).unwrap();
    let opening = store.take_opening_hold().unwrap();
    assert_eq!(opening.timestamp(), first);
    assert!(store.take_opening_hold().is_none());
    drop((named, opening));
    assert!(store.sweep().unwrap().safe_point >= last);
    store.close().unwrap();
    drop(store);
    // Too late.
    let refused = Store::open(DIR, &place.options).unwrap_err();
    let safe_point = match refused {
        Error::BeforeSafePoint { asked, safe_point } if asked == first => safe_point,
        other => panic!("{other}"),
    };
    place.options.held_at = Some(safe_point);
    let store = open_by_hand(&place);
    assert_eq!(store.safe_point(), safe_point);
    // A program that never takes it.
    place.clock.advance(2 * HOUR);
    put(&store, b"a", b"3");
    assert_eq!(store.sweep().unwrap().safe_point, safe_point);
}

#[test]
fn the_thread_sweeps_by_itself_and_again_after_the_next_commit() {
    let mut place = Place::new(8);
    place.options.retention = Some(Duration::from_secs(60));
    let store = place.open();
    for _ in 0..3 {
        for n in 0..20 {
            put(&store, b"a", &[n]);
            put(&store, b"b", &[n]);
        }
        store.db().flush_all().unwrap();
        while stored_versions(&store) > 2 || store.safe_point() < store.now() {
            std::thread::yield_now();
        }
        let stats = store.sweep_stats();
        assert!(stats.sweeps > 0 && stats.failed == 0, "{stats:?}");
    }
}

#[test]
fn dead_rows_are_dropped_with_their_deletions() {
    let place = by_hand(9, Duration::from_secs(60));
    let store = open_by_hand(&place);
    for n in 0..1000_u32 {
        put(&store, &n.to_be_bytes(), b"message");
    }
    compact_all(&store);
    for n in 0..990_u32 {
        delete(&store, &n.to_be_bytes());
    }
    store.db().flush_all().unwrap();
    let skipped = |store: &Store| {
        let snapshot = store.snapshot();
        let mut scan = snapshot.scan(None, None, Direction::Forward).unwrap();
        assert_eq!(scan.by_ref().count(), 10);
        scan.stats().dead_rows_skipped
    };
    assert_eq!(skipped(&store), 990);
    place.clock.advance(HOUR);
    store.sweep().unwrap();
    assert_eq!(skipped(&store), 0);
    assert_eq!(stored_versions(&store), 10);
}

#[test]
fn one_call_by_hand_drops_deletions_with_what_they_hid() {
    let mut place = Place::new(13);
    place.options.versions.disable_auto_compactions = true;
    let store = place.open();
    // Too many for a sweep to be worth it.
    for n in 0..100_u32 {
        put(&store, &n.to_be_bytes(), b"kept");
    }
    for n in 0..20_u32 {
        put(&store, &[n as u8], b"dead");
        delete(&store, &[n as u8]);
    }
    store.advance_safe_point(store.now()).unwrap();
    store.drop_old_versions().unwrap();
    assert_eq!(stored_versions(&store), 100);
}

#[test]
fn few_old_versions_are_dropped_after_a_long_time_and_once() {
    let mut place = by_hand(10, Duration::from_secs(60));
    // The engine would join the tables by itself, sooner or later.
    place.options.versions.disable_auto_compactions = true;
    let store = open_by_hand(&place);
    for n in 0..100_u32 {
        put(&store, &n.to_be_bytes(), b"1");
    }
    for n in 0..20_u32 {
        put(&store, &n.to_be_bytes(), b"2");
    }
    compact_all(&store);
    place.clock.advance(HOUR / 2);
    assert_eq!(store.sweep().unwrap().ranges, 0);
    assert_eq!(stored_versions(&store), 120);
    place.clock.advance(HOUR);
    assert_eq!(store.sweep().unwrap().ranges, 1);
    assert_eq!(stored_versions(&store), 100);
    // The same where the newer versions are in a table of their own.
    for n in 0..100_u32 {
        put(&store, &n.to_be_bytes(), b"3");
    }
    store.db().flush_all().unwrap();
    place.clock.advance(HOUR / 2);
    assert_eq!(store.sweep().unwrap().ranges, 0);
    place.clock.advance(HOUR);
    assert_eq!(store.sweep().unwrap().ranges, 1);
    assert_eq!(stored_versions(&store), 100);
    place.clock.advance(1000 * HOUR);
    assert_eq!(store.sweep().unwrap().ranges, 0);
}

#[test]
fn a_disk_that_fails_fails_the_sweep_and_the_next_one_goes_on() {
    let place = by_hand(11, Duration::from_secs(60));
    let store = open_by_hand(&place);
    let last = put(&store, b"a", b"1");
    place.clock.advance(HOUR);
    place.vfs.inject(Fault::on([OpKind::Sync]).path("*.log"));
    let failed = store.sweep().unwrap_err();
    assert!(matches!(failed, Error::Engine(_)), "{failed}");
    let stats = store.sweep_stats();
    assert!(matches!(stats.error, Some(Error::Engine(_))), "{stats:?}");
    place.vfs.clear_faults();
    store.db().resume().unwrap();
    assert_eq!(store.sweep().unwrap().safe_point, last);
    assert!(store.sweep_stats().error.is_none());
    store.close().unwrap();
    assert!(store.sweep().is_err());
}

/// The clock says nothing about the age of what was committed while it was wrong, or before it was
/// set.
#[test]
fn retention_is_real_time_whatever_is_done_to_the_clock() {
    let minutes = |n: u64| Duration::from_secs(60 * n);
    let years = 80 * 365 * 24 * 3_600_000;
    for (jump, back) in [
        (years, true),
        (years, false),
        (-years / 10, true),
        (-3_600_000, false),
        (3_600_000, true),
    ] {
        let place = by_hand(14, minutes(10));
        let store = open_by_hand(&place);
        let first = put(&store, b"a", b"1");
        place.clock.advance(minutes(1));
        store.sweep().unwrap();
        let second = put(&store, b"a", b"2");
        place.clock.jump_ms(jump);
        let third = put(&store, b"a", b"3");
        place.clock.advance(minutes(1));
        store.sweep().unwrap();
        if back {
            place.clock.jump_ms(-jump);
        }
        put(&store, b"a", b"4");
        for passed in 2..9 {
            place.clock.advance(minutes(1));
            assert!(
                store.sweep().unwrap().safe_point < first,
                "{passed}, {jump}"
            );
        }
        // The first version was replaced by the second one a minute after it, and that by the
        // third.
        place.clock.advance(minutes(2));
        let swept = store.sweep().unwrap().safe_point;
        assert!((first..second).contains(&swept), "{jump}: {swept}");
        place.clock.advance(minutes(2));
        let swept = store.sweep().unwrap().safe_point;
        assert!(swept >= third, "{jump}: {swept}");
    }
}

/// Versions that were written before the clock jumped by 80 years stay readable 5 minutes later.
#[test]
fn an_opening_under_a_clock_far_ahead_takes_no_history_away() {
    let mut place = by_hand(15, Duration::from_secs(600));
    let store = open_by_hand(&place);
    let first = put(&store, b"a", b"1");
    put(&store, b"a", b"2");
    store.close().unwrap();
    place.clock.jump_ms(80 * 365 * 24 * 3_600_000);
    let store = open_by_hand(&place);
    assert!(store.clock_jump().is_some());
    let third = put(&store, b"a", b"3");
    place.clock.advance(Duration::from_secs(300));
    assert!(store.sweep().unwrap().safe_point < first);
    assert_eq!(
        store
            .snapshot_at(first)
            .unwrap()
            .get(b"a")
            .unwrap()
            .unwrap(),
        "1"
    );
    // After the retention its clock is as good as any.
    place.clock.advance(Duration::from_secs(301));
    assert!(store.sweep().unwrap().safe_point >= third);
    store.close().unwrap();
    // The clock was put right, and timestamps are ahead of it. Each opening is short.
    place.clock.jump_ms(-80 * 365 * 24 * 3_600_000);
    let mut commits = vec![third];
    for n in 0..40 {
        let store = open_by_hand(&place);
        assert_eq!(store.clock_jump(), None);
        let commit = put(&store, b"a", b"4");
        commits.push(commit);
        let swept = store.sweep().unwrap().safe_point;
        // The time between two openings is a minute, so ten of them are retained.
        assert!(n < 10 || swept < commits[n - 9], "{n}");
        assert!(n < 25 || swept >= commits[n - 22], "{n}: {swept}");
        assert_eq!(store.check(&mut |_| {}).unwrap().problems, []);
        store.close().unwrap();
        place.clock.advance(Duration::from_secs(60));
    }
    // And one that is long.
    place.options.retention = Some(Duration::from_secs(60));
    let store = open_by_hand(&place);
    let last = put(&store, b"a", b"5");
    store.sweep().unwrap();
    place.clock.advance(Duration::from_secs(61));
    assert_eq!(store.sweep().unwrap().safe_point, last);
}

#[test]
fn a_sweep_ends_the_locks_of_transactions_whose_owners_are_gone() {
    let place = by_hand(12, Duration::from_secs(60));
    let store = open_by_hand(&place);
    let before = put(&store, b"k", b"old");
    let start = store.oracle().next().unwrap();
    let mutations = [Mutation::Put {
        key: b"k",
        value: b"new",
    }];
    let prewrite = Prewrite {
        ttl: 3 * HOUR,
        ..request(start, b"k", &mutations)
    };
    store.percolator().prewrite(&prewrite).unwrap();
    let later = put(&store, b"other", b"1");
    place.clock.advance(HOUR);
    // Its owner may be running.
    let held = store.sweep().unwrap().safe_point;
    assert!((before..start).contains(&held));
    let report = store.space_report().unwrap();
    assert_eq!(report.holds[0].name, "locks of a transaction");
    place.clock.advance(4 * HOUR);
    assert!(store.sweep().unwrap().safe_point >= later);
    assert!(
        store
            .percolator()
            .scan_locks(Timestamp::MAX, b"", 9)
            .is_empty()
    );
    let found = store.snapshot().get(b"k").unwrap();
    assert_eq!(found.as_deref(), Some(&b"old"[..]));
}
