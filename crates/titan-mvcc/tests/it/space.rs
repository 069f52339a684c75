//! The space of a store on disk, and the reasons why versions stay.

use std::collections::VecDeque;
use std::time::Duration;

use titan::DiskUsage;
use titan_mvcc::{Direction, Hold, Store, StoreSpaceReport, Timestamp};

use super::setup::{DIR, Place, put, stored_versions};
use super::sweeps::{by_hand, open_by_hand};

const ROWS: u32 = 200;
const VALUE: usize = 4096;

fn overwrite(store: &Store, round: u8) -> Timestamp {
    let write = |_, row: u32| put(store, &row.to_be_bytes(), &[round; VALUE]);
    (0..ROWS).fold(Timestamp::ZERO, write)
}

/// All rows at a timestamp have what this round wrote.
fn check(store: &Store, at: Timestamp, round: u8) {
    let snapshot = store.snapshot_at(at).unwrap();
    let scan = snapshot.scan(None, None, Direction::Forward).unwrap();
    let rows = scan.map(|row| row.unwrap().value.fetch().unwrap());
    assert_eq!(
        rows.filter(|value| value[..] == [round; VALUE]).count(),
        ROWS as usize
    );
}

/// Bytes of all files, once the engine has nothing to do.
fn bytes(place: &Place, store: &Store) -> u64 {
    store.db().wait_idle().unwrap();
    let disk = DiskUsage::of(&place.vfs, DIR.as_ref()).unwrap();
    disk.sst_bytes + disk.blob_bytes + disk.map_bytes
}

fn collect_garbage(store: &Store) {
    let versions = store.db().column_family("versions").unwrap();
    let all = titan::CollectGarbageOptions::default();
    versions.collect_garbage(None, None, &all).unwrap();
}

fn hold_of<'r>(report: &'r StoreSpaceReport, name: &str) -> &'r titan_mvcc::HoldSpace {
    report.holds.iter().find(|hold| hold.name == name).unwrap()
}

#[test]
fn a_hold_is_named_with_what_it_keeps_which_goes_with_one_sweep_after_its_end() {
    let place = by_hand(1, Duration::from_secs(10));
    let store = open_by_hand(&place);
    let first = overwrite(&store, 0);
    let hold = store.hold("backup", first).unwrap();
    for round in 1..10 {
        place.clock.advance(Duration::from_secs(20));
        overwrite(&store, round);
        store.db().flush_all().unwrap();
        store.sweep().unwrap();
    }
    place.clock.advance(Duration::from_secs(20));
    store.sweep().unwrap();
    store.drop_old_versions().unwrap();
    // Nothing is superseded up to the hold, so nothing was rewritten, and tables show little yet.
    let versions = store.db().column_family("versions").unwrap();
    versions
        .compact_range(None, None, &titan::CompactRangeOptions::default())
        .unwrap();
    let held = bytes(&place, &store);
    let data = u64::from(ROWS) * VALUE as u64;
    assert!(held > 10 * data);
    let report = store.space_report().unwrap();
    assert_eq!(report.safe_point, first);
    let named = hold_of(&report, "backup");
    assert_eq!((named.count, named.timestamp), (1, first));
    assert!(named.age_micros >= 200_000_000, "{named:?}");
    let expected = 9 * data..9 * data + 9 * u64::from(ROWS) * 64;
    assert!(expected.contains(&named.kept_bytes), "{named:?}");
    assert_eq!(report.versions.versions, 10 * u64::from(ROWS));
    assert_eq!(report.versions.row_versions, 10);
    assert_eq!(report.versions.droppable, 0);
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["holds"][0]["name"], "backup");
    assert_eq!(json["holds"][0]["kept_bytes"], named.kept_bytes);
    assert_eq!(json["safe_point"], first.0);
    assert!(json["engine"]["disk"]["blob_bytes"].as_u64().unwrap() > 9 * data);
    check(&store, first, 0);

    drop(hold);
    store.sweep().unwrap();
    assert_eq!(stored_versions(&store), ROWS as usize);
    let report = store.space_report().unwrap();
    assert_eq!(report.holds, []);
    // The values that went are garbage at once, and the engine gives their space back.
    collect_garbage(&store);
    let after = bytes(&place, &store);
    assert!(after < data + data / 2, "{after} of {held}");
    check(&store, store.now(), 9);
}

#[test]
fn each_hold_keeps_what_goes_with_it_when_the_older_ones_have_ended() {
    let mut place = Place::new(2);
    place.options.versions.disable_auto_compactions = true;
    let store = place.open();
    let mut holds: Vec<Hold> = Vec::new();
    for (round, name) in ["a", "b", "c"].into_iter().enumerate() {
        let at = put(&store, b"k", &vec![round as u8; 1000 * (round + 1)]);
        holds.push(store.hold(name, at).unwrap());
    }
    let newest = put(&store, b"k", b"4");
    let snapshots = [store.snapshot(), store.snapshot()];
    store.db().flush_all().unwrap();
    let report = store.space_report().unwrap();
    let keeps: Vec<_> = report
        .holds
        .iter()
        .map(|hold| (&*hold.name, hold.count, hold.kept_bytes / 1000))
        .collect();
    assert_eq!(
        keeps,
        [("a", 1, 1), ("b", 1, 2), ("c", 1, 3), ("snapshot", 2, 0)]
    );
    drop(holds.remove(0));
    store.advance_safe_point(newest).unwrap();
    let report = store.space_report().unwrap();
    assert_eq!(report.holds.len(), 3);
    assert_eq!(hold_of(&report, "b").kept_bytes / 1000, 2);
    assert_eq!(report.versions.droppable, 1);
    assert_eq!(report.versions.droppable_bytes / 1000, 1);
    drop(snapshots);
}

/// Rows are overwritten again and again, and the safe point is a fixed number of commits behind.
/// What is stored after each sweep is in proportion to what can be read, and all of that is right
/// after a reopening.
#[test]
fn overwriting_everything_keeps_space_in_proportion_to_what_can_be_read() {
    const BEHIND: usize = 100;
    let mut place = by_hand(3, Duration::from_secs(1_000_000_000));
    place.options.versions.write_buffer_size = 128 << 10;
    place.options.versions.blob_file_size = 64 << 10;
    place.options.versions.target_file_size_base = 16 << 10;
    let mut store = open_by_hand(&place);
    let mut recent = VecDeque::new();
    let mut rng = fastrand::Rng::with_seed(3);
    let mut newest = vec![0_u32; ROWS as usize];
    for round in 0..10_u32 {
        let mut order: Vec<u32> = (0..ROWS).collect();
        rng.shuffle(&mut order);
        for row in order {
            let value = [round as u8; VALUE];
            recent.push_back(put(&store, &row.to_be_bytes(), &value));
            newest[row as usize] = round;
        }
        let keep = recent.len().saturating_sub(BEHIND);
        let safe_point = recent.drain(..keep).next_back().unwrap();
        assert_eq!(store.advance_safe_point(safe_point).unwrap(), safe_point);
        store.sweep().unwrap();
        let after = bytes(&place, &store);
        let readable = (u64::from(ROWS) + BEHIND as u64) * (VALUE as u64 + 64);
        // Four write buffers, as for the engine.
        let constant = 4 * (128 << 10);
        assert!(
            after <= readable * 3 / 2 + constant,
            "round {round}: {after} bytes, where {readable} can be read"
        );
        let rows = |store: &Store, at| {
            let snapshot = store.snapshot_at(at).unwrap();
            let scan = snapshot.scan(None, None, Direction::Forward).unwrap();
            scan.map(Result::unwrap)
                .map(|row| (row.key, row.value.fetch().unwrap()[0]))
                .collect::<Vec<_>>()
        };
        let old = rows(&store, safe_point);
        assert!(round == 0 || old.len() == ROWS as usize);
        store.close().unwrap();
        store = open_by_hand(&place);
        assert_eq!(store.safe_point(), safe_point);
        assert_eq!(rows(&store, safe_point), old);
        let now: Vec<u32> = rows(&store, store.now())
            .iter()
            .map(|(_, round)| u32::from(*round))
            .collect();
        assert_eq!(now, newest);
    }
}

#[test]
fn families_that_are_hardly_written_keep_no_log() {
    let mut place = Place::new(9);
    let memtable = 64 << 10;
    place.options.versions.write_buffer_size = memtable;
    let store = place.open();
    for n in 0..200_u32 {
        put(&store, &n.to_be_bytes(), &[7; 10 << 10]);
        // Writes to the family `default`, too.
        store.advance_safe_point(store.now()).unwrap();
    }
    store.db().wait_idle().unwrap();
    let log = store.space_report().unwrap().engine.disk.wal_bytes;
    assert!(log <= 4 * memtable, "{log} bytes");
}
