//! Rows that are locked often: what reads of them cost, and which locks stay.

use titan::{ColumnFamily, CompactRangeOptions, WriteBatch, WriteOptions};
use titan_mvcc::{
    Assertion, Demands, Direction, Error, KeyDemand, Mutation, ReadStats, Snapshot, Store,
    Timestamp, TransactionStatus, VersionKind,
};

use super::percolator::Bench;
use super::setup::{DIR, Place, delete, put, stored_versions};

/// The way in which a row is locked.
#[derive(Clone, Copy, Debug, PartialEq)]
enum How {
    OneBatch,
    TwoPhases,
    ForUpdate,
    Client,
}

fn lock(store: &Store, how: How, keys: &[&[u8]]) -> Timestamp {
    match how {
        How::OneBatch => {
            let mut transaction = store.begin();
            keys.iter().for_each(|key| transaction.lock(key));
            transaction.commit().unwrap()
        }
        How::TwoPhases => {
            let mut transaction = store.begin();
            keys.iter().for_each(|key| transaction.lock(key));
            transaction.prewrite().unwrap().commit().unwrap()
        }
        How::ForUpdate => {
            let mut transaction = store.begin_pessimistic().unwrap();
            for key in keys {
                transaction.get_for_update(key).unwrap();
            }
            transaction.commit().unwrap()
        }
        How::Client => {
            let start = store.oracle().next().unwrap();
            let mutations: Vec<_> = keys.iter().map(|key| Mutation::Lock { key }).collect();
            let calls = store.percolator();
            let request = super::percolator::request(start, keys[0], &mutations);
            calls.prewrite(&request).unwrap();
            let commit = store.oracle().next().unwrap();
            calls.commit(keys, start, commit).unwrap();
            commit
        }
    }
}

const LIVE: &[u8] = b"live";
const DEAD: &[u8] = b"dead";
const NEVER: &[u8] = b"never";

/// The cost of reads of the rows: a point read of each, and scans in both directions.
fn costs(snapshot: &Snapshot) -> Vec<ReadStats> {
    let mut all = Vec::new();
    for (key, value) in [(LIVE, Some(&b"2"[..])), (DEAD, None), (NEVER, None)] {
        let mut stats = ReadStats::default();
        let found = snapshot.get_lazy_counted(key, &mut stats).unwrap();
        let found = found.map(|value| value.fetch().unwrap());
        assert_eq!(found.as_deref(), value);
        all.push(stats);
    }
    for direction in [Direction::Forward, Direction::Backward] {
        let mut scan = snapshot.scan(None, None, direction).unwrap();
        let mut keys: Vec<_> = scan.by_ref().map(|row| row.unwrap().key).collect();
        keys.sort();
        assert_eq!(keys, [&b"a"[..], LIVE, b"z"]);
        let mut stats = scan.stats();
        // The engine steps over some of each table before it jumps.
        assert!(stats.versions_skipped < 150, "{stats:?}");
        stats.versions_skipped = 0;
        all.push(stats);
    }
    all
}

fn versions_of(store: &Store) -> ColumnFamily {
    store.db().column_family("versions").unwrap()
}

fn compact(store: &Store) {
    store.db().flush_all().unwrap();
    let options = CompactRangeOptions {
        force_bottommost: true,
    };
    let versions = versions_of(store);
    versions.compact_range(None, None, &options).unwrap();
}

fn fill(store: &Store) {
    for key in [b"a", LIVE, DEAD, b"z"] {
        put(store, key, b"1");
        put(store, key, b"2");
    }
    delete(store, DEAD);
}

#[test]
fn what_a_read_costs_does_not_depend_on_how_often_the_row_was_locked() {
    for how in [How::OneBatch, How::TwoPhases, How::ForUpdate, How::Client] {
        let place = Place::new(1);
        let store = place.open();
        fill(&store);
        let mut expected = None;
        let mut old = None;
        for locks in 1..=1_000 {
            lock(&store, how, &[LIVE, DEAD, NEVER]);
            match locks {
                20 => {
                    expected = Some(costs(&store.snapshot()));
                    old = Some(store.snapshot());
                }
                // In a memtable, and in tables.
                400 | 700 => store.db().flush_all().unwrap(),
                _ => {}
            }
        }
        let expected = expected.unwrap();
        assert_eq!(costs(&store.snapshot()), expected, "{how:?}");
        let point = expected[0];
        assert_eq!((point.seek, point.next), (2, 0), "{how:?}");
        // A read in the past may step over newer versions, eight in a scan.
        let old = old.unwrap();
        assert_eq!(costs(&old)[..3], expected[..3], "{how:?}");
        for scan in &costs(&old)[3..] {
            assert!(scan.next + scan.prev + scan.seek < 100, "{how:?}: {scan:?}");
        }
        compact(&store);
        assert_eq!(costs(&old)[..3], expected[..3], "{how:?}");
        for scan in costs(&store.snapshot()) {
            assert!(scan.next + scan.prev + scan.seek < 100, "{how:?}: {scan:?}");
        }
        assert_eq!(store.check(&mut |_| {}).unwrap().problems, []);
    }
}

/// Inserts and assertions look whether the row has a value.
#[test]
fn what_a_demand_costs_does_not_depend_on_how_often_the_row_was_locked() {
    let place = Place::new(8);
    let store = place.open();
    fill(&store);
    let insert = KeyDemand {
        absent: true,
        ..KeyDemand::default()
    };
    let asserts = |assertion| KeyDemand {
        assertion: Some(assertion),
        ..KeyDemand::default()
    };
    // The cost of a prewrite that demands this of a row.
    let cost = |key: &[u8], demand: KeyDemand| {
        let start = store.oracle().next().unwrap();
        let mutations = [Mutation::Lock { key }];
        let request = super::percolator::request(start, key, &mutations);
        let demands = Demands {
            on_keys: &[demand],
            ..Demands::default()
        };
        let calls = store.percolator();
        let before = store.read_stats();
        calls.prewrite_with(&request, &demands).unwrap();
        let after = store.read_stats();
        calls.batch_rollback(&[key], start).unwrap();
        let steps = after.next + after.prev - before.next - before.prev;
        (after.seek - before.seek, steps)
    };
    for locks in 1..=500 {
        // The newest version of each row is a lock, and the record of a rollback is below.
        lock(&store, How::OneBatch, &[LIVE, DEAD, NEVER]);
        let found = [
            cost(LIVE, asserts(Assertion::Exists)),
            cost(DEAD, asserts(Assertion::Absent)),
            cost(NEVER, insert),
        ];
        assert_eq!(found, [(2, 0), (1, 0), (1, 0)], "{locks} locks");
    }
}

/// Removals of a compaction that is not at the bottom leave deletions, which each read would step
/// over.
#[test]
fn a_row_whose_locks_the_safe_point_has_passed_costs_no_more() {
    let mut place = Place::new(2);
    place.options.versions.disable_auto_compactions = true;
    let store = place.open();
    // The sweeper sweeps when the store is opened, and each time the safe point is moved by hand.
    let await_sweeps = |n| {
        while store.sweep_stats().sweeps < n {
            std::thread::yield_now();
        }
    };
    await_sweeps(1);
    fill(&store);
    store.advance_safe_point(store.now()).unwrap();
    await_sweeps(2);
    store.drop_old_versions().unwrap();
    assert_eq!(stored_versions(&store), 3);
    let swept = store.sweep_stats().ranges;
    for _ in 0..500 {
        lock(&store, How::OneBatch, &[LIVE, DEAD, NEVER]);
    }
    let expected = costs(&store.snapshot());
    store.advance_safe_point(store.now()).unwrap();
    // ORDER: before the flush: the sweeper finds no locks in tables, and sweeps no more.
    await_sweeps(3);
    assert_eq!(store.sweep_stats().ranges, swept);
    store.db().flush_all().unwrap();
    assert_eq!(stored_versions(&store), 3 + 3 * 500);
    assert_eq!(costs(&store.snapshot())[..3], expected[..3]);
    store.drop_old_versions().unwrap();
    assert_eq!(stored_versions(&store), 3);
    let one = costs(&store.snapshot())[0];
    assert_eq!((one.seek, one.next), (1, 0));
}

/// Locks that say nothing of a last change, as earlier versions of the crate wrote them.
#[test]
fn locks_of_earlier_versions_are_stepped_over_until_a_newer_one_leads_past_them() {
    let place = Place::new(3);
    let store = place.open();
    fill(&store);
    let mut batch = WriteBatch::new();
    for _ in 0..100 {
        let commit = store.oracle().next().unwrap();
        for key in [LIVE, DEAD, NEVER] {
            let mut entry = key.to_vec();
            entry.resize(8, 0);
            entry.push(0xff - (8 - key.len() as u8));
            entry.extend_from_slice(&(!commit.0).to_be_bytes());
            // Its transaction began one timestamp earlier.
            entry.extend_from_slice(b"L\x01");
            batch.put(&versions_of(&store), entry, b"").unwrap();
        }
    }
    store.db().write(batch, &WriteOptions::default()).unwrap();
    store.close().unwrap();
    let store = place.open();
    let mut before = ReadStats::default();
    let snapshot = store.snapshot();
    snapshot.get_lazy_counted(LIVE, &mut before).unwrap();
    drop(snapshot);
    assert_eq!(before.versions_skipped, 100);
    for _ in 0..20 {
        lock(&store, How::OneBatch, &[LIVE, DEAD, NEVER]);
    }
    let after = costs(&store.snapshot());
    assert_eq!(after[0].versions_skipped, 1);
    for scan in &after[3..] {
        assert!(scan.next + scan.prev + scan.seek < 100, "{scan:?}");
    }
    assert_eq!(store.check(&mut |_| {}).unwrap().problems, []);
}

#[test]
fn locks_that_a_newer_write_replaces_are_not_kept_and_the_newest_one_conflicts_still() {
    for how in [How::OneBatch, How::ForUpdate] {
        let place = Place::new(4);
        let store = place.open();
        put(&store, LIVE, b"1");
        // Nothing is dropped by a store that was never told a safe point.
        store.advance_safe_point(store.now()).unwrap();
        let mut old = store.begin();
        old.put(LIVE, b"late");
        for _ in 0..300 {
            lock(&store, how, &[LIVE]);
        }
        compact(&store);
        assert_eq!(stored_versions(&store), 2, "{how:?}");
        let conflict = old.commit().unwrap_err();
        assert!(matches!(conflict, Error::Conflict { .. }), "{conflict}");
        let newest = store.versions(LIVE).unwrap().next().unwrap().unwrap();
        assert_eq!(newest.kind, VersionKind::Lock);
        // A put replaces the last one.
        put(&store, LIVE, b"2");
        compact(&store);
        assert_eq!(stored_versions(&store), 2, "{how:?}");
        assert_eq!(store.snapshot().get(LIVE).unwrap().unwrap(), "2");
    }
}

/// A caller that asks for the outcome of a transaction in two phases finds its lock, until the safe
/// point has passed it.
#[test]
fn locks_that_late_calls_ask_for_are_kept() {
    let bench = Bench::new(5);
    let store = &bench.store;
    put(store, LIVE, b"1");
    store.advance_safe_point(store.now()).unwrap();
    let start = bench.ts();
    let mutations = [
        Mutation::Lock { key: LIVE },
        Mutation::Put {
            key: b"other",
            value: b"v",
        },
    ];
    bench.prewrite(start, LIVE, &mutations).unwrap();
    let commit = bench.ts();
    bench.calls.commit(&[LIVE], start, commit).unwrap();
    for _ in 0..300 {
        lock(store, How::OneBatch, &[LIVE]);
    }
    compact(store);
    // Its lock, the newest one, and the put.
    assert_eq!(store.versions(LIVE).unwrap().count(), 3);
    let now = bench.ts();
    let status = bench
        .calls
        .check_transaction_status(LIVE, start, now, now, true);
    assert_eq!(status.unwrap(), TransactionStatus::Committed(commit));
    bench.calls.commit(&[LIVE], start, commit).unwrap();
    assert_eq!(bench.read(b"other").unwrap(), b"v");
}

/// The record of a rollback may have a later timestamp than a version that is written after it.
#[test]
fn a_lock_above_the_record_of_a_rollback_leads_to_a_put_that_was_published_after_the_record() {
    let bench = Bench::new(6);
    let first = bench.ts();
    bench.put(first, &[LIVE]).unwrap();
    let commit = bench.ts();
    let rolled_back = bench.ts();
    bench.calls.batch_rollback(&[LIVE], rolled_back).unwrap();
    assert_eq!(bench.read(LIVE), None);
    bench.calls.commit(&[LIVE], first, commit).unwrap();
    let kinds = |store: &Store| -> Vec<VersionKind> {
        let versions = store.versions(LIVE).unwrap();
        versions.map(|version| version.unwrap().kind).collect()
    };
    assert_eq!(
        kinds(&bench.store),
        [VersionKind::Rollback, VersionKind::Put]
    );
    for how in [How::OneBatch, How::Client] {
        lock(&bench.store, how, &[LIVE]);
        assert_eq!(bench.read(LIVE).unwrap(), b"v", "{how:?}");
    }
    // Records of transactions that began at the commit of the lock, and later.
    for _ in 0..20 {
        bench.calls.batch_rollback(&[LIVE], bench.ts()).unwrap();
    }
    assert_eq!(bench.read(LIVE).unwrap(), b"v");
    let scan = bench.store.snapshot().scan(None, None, Direction::Forward);
    assert_eq!(scan.unwrap().count(), 1);
    assert_eq!(bench.store.check(&mut |_| {}).unwrap().problems, []);
}

/// The safe point passes the put to which newer locks lead, in pieces that are compacted apart.
#[test]
fn what_a_lock_leads_to_stays_for_as_long_as_a_read_may_need_it() {
    let mut place = Place::new(7);
    place.options.versions.disable_auto_compactions = true;
    let store = place.open();
    let mut rng = fastrand::Rng::with_seed(7);
    let mut reads: Vec<(Timestamp, Option<Vec<u8>>)> = Vec::new();
    let mut present = None;
    for n in 0..400_u32 {
        let at = match rng.u32(..8) {
            0 => {
                present = Some(n.to_be_bytes().to_vec());
                put(&store, LIVE, &n.to_be_bytes())
            }
            1 if rng.bool() => {
                present = None;
                delete(&store, LIVE)
            }
            n => lock(
                &store,
                [How::OneBatch, How::TwoPhases][n as usize % 2],
                &[LIVE],
            ),
        };
        reads.push((at, present.clone()));
        match rng.u32(..40) {
            0 => store.db().flush_all().unwrap(),
            1 => {
                let to = reads[rng.usize(..reads.len())].0;
                let _ = store.advance_safe_point(to);
            }
            2 => compact(&store),
            3 => store.drop_old_versions().unwrap(),
            _ => {}
        }
        for _ in 0..3 {
            let (at, value) = &reads[rng.usize(..reads.len())];
            match store.snapshot_at(*at) {
                Ok(snapshot) => {
                    let found = snapshot.get(LIVE).unwrap().map(|value| value.to_vec());
                    assert_eq!(&found, value, "{n}");
                    let scan = snapshot.scan(None, None, Direction::Backward).unwrap();
                    assert_eq!(scan.count(), usize::from(value.is_some()), "{n}");
                }
                Err(e) => assert!(*at < store.safe_point(), "{e}"),
            }
        }
        if n % 50 == 0 {
            assert_eq!(store.check(&mut |_| {}).unwrap().problems, []);
        }
    }
    store.close().unwrap();
    let store = Store::open(DIR, &place.options).unwrap();
    let found = store.snapshot().get(LIVE).unwrap();
    assert_eq!(found.map(|value| value.to_vec()), present);
}
