//! The process or the machine stops at any operation of the disk.
//!
//! A history runs once. Then the store is opened as each crash would have left it. It must be as
//! after some prefix of the commits, which has all that were acknowledged; each commit is there as
//! a whole; the safe point is not before the acknowledged one; and new timestamps are after all old
//! ones. In a second kind of history commits are in two phases, and some clients are killed between
//! these: then too, and when their locks have been resolved it is the same.

use std::sync::Arc;
use std::time::Duration;

use titan_mvcc::{Direction, Error, Store, Timestamp, Transaction};
use titan_testkit::sim::{Loss, SimVfs};

use super::setup::{DIR, Place, put, seeds};

type Rows = Vec<(Vec<u8>, Vec<u8>)>;

fn rows(store: &Store, at: Timestamp) -> Rows {
    let snapshot = store.snapshot_at(at).unwrap();
    let scan = snapshot.scan(None, None, Direction::Forward).unwrap();
    scan.map(Result::unwrap)
        .map(|row| (row.key, row.value.fetch().unwrap().to_vec()))
        .collect()
}

/// The acknowledged writes after a step of the history.
struct Step {
    commit: Timestamp,
    rows: Rows,
    safe_point: Timestamp,
}

const TTL: Duration = Duration::from_secs(1 << 30);

/// Commits, and perhaps stops between the phases once it has committed.
fn commit(transaction: Transaction, rng: &mut fastrand::Rng) -> Timestamp {
    if rng.bool() {
        return transaction.commit().unwrap();
    }
    let committed = transaction.prewrite().unwrap().commit_primary().unwrap();
    committed.timestamp()
}

/// Begins to commit, and stops before it has committed.
fn kill(place: &Place, transaction: Transaction) {
    drop(transaction.prewrite().unwrap());
    place.clock.advance(TTL + Duration::from_secs(1));
}

/// Runs a history of synced commits of a few keys each, and marks in the journal the steps that
/// have ended.
fn history(place: &Place, seed: u64) -> Vec<Step> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let store = place.open();
    place.vfs.mark(1);
    let mut steps = vec![Step {
        commit: store.now(),
        rows: Rows::new(),
        safe_point: Timestamp::ZERO,
    }];
    for n in 2..40_u64 {
        place.clock.jump_ms(rng.i64(-2_000..4_000));
        if rng.u32(..4) == 0 {
            store.advance_safe_point(store.now()).unwrap();
            match rng.bool() {
                true => store.drop_old_versions().unwrap(),
                false => store.db().flush_all().unwrap(),
            }
        }
        let two_phases = place.options.transactions.one_batch_bytes == 0;
        // An async commit that is prewritten has committed.
        if two_phases && !place.options.transactions.async_commit && rng.u32(..4) == 0 {
            let mut killed = store.begin();
            killed.put(&[b'a' + rng.u8(..6)], b"killed");
            killed.put(&[b'a' + rng.u8(..6)], b"killed");
            kill(place, killed);
        }
        let mut transaction = store.begin();
        for _ in 0..3 {
            let key = [b'a' + rng.u8(..6)];
            match rng.u32(..3) {
                0 => transaction.delete(&key),
                _ => transaction.put(&key, &vec![n as u8; rng.usize(..6000)]),
            }
        }
        // So that no two commits leave the same.
        transaction.put(b"commits", &n.to_be_bytes());
        let commit = match two_phases {
            true => commit(transaction, &mut rng),
            false => transaction.commit().unwrap(),
        };
        place.vfs.mark(n);
        steps.push(Step {
            commit,
            rows: rows(&store, commit),
            safe_point: store.safe_point(),
        });
    }
    steps
}

fn check(image: SimVfs, seed: u64, steps: &[Step], acknowledged: usize) {
    let mut place = Place::new(seed);
    place.options.db.vfs = Arc::new(image);
    // The clock is back where it was when the history began.
    let store = place.open();
    let now = rows(&store, store.now());
    let first = acknowledged.saturating_sub(1);
    let last = acknowledged.min(steps.len() - 1);
    let found = (first..=last).rev().find(|n| steps[*n].rows == now);
    let found = found.unwrap_or_else(|| panic!("not as after {first} or {last} commits"));
    assert!(store.safe_point() >= steps[first].safe_point);
    // Before the first opening has ended, nothing was promised.
    let kept = match acknowledged {
        0 => &[],
        _ => &steps[..=found],
    };
    for step in kept {
        match store.snapshot_at(step.commit) {
            Ok(_) => assert_eq!(rows(&store, step.commit), step.rows),
            Err(Error::BeforeSafePoint { safe_point, .. }) => assert!(step.commit < safe_point),
            Err(e) => panic!("{e}"),
        }
    }
    let new = put(&store, b"new", b"");
    assert!(kept.iter().all(|step| step.commit < new));
    // Locks of transactions that were stopped can be resolved, and that changes nothing.
    let before = rows(&store, store.now());
    place.clock.advance(TTL + Duration::from_secs(1));
    store.advance_safe_point(store.now()).unwrap();
    let locks = store.percolator().scan_locks(Timestamp::MAX, b"", 1);
    assert_eq!(locks, []);
    assert_eq!(rows(&store, store.now()), before);
}

#[test]
fn a_crash_leaves_whole_commits_all_that_were_acknowledged_and_the_safe_point() {
    for seed in seeds(2) {
        let mut place = Place::new(seed);
        place.options.write.sync = true;
        crash_everywhere(&place, seed);
    }
}

#[test]
fn a_crash_in_the_middle_of_two_phases_leaves_whole_commits() {
    for seed in seeds(4) {
        let mut place = Place::new(seed);
        place.options.write.sync = true;
        let transactions = &mut place.options.transactions;
        transactions.one_batch_bytes = 0;
        transactions.async_commit = seed % 2 == 1;
        transactions.lock_ttl = TTL;
        transactions.lock_wait = Duration::ZERO;
        crash_everywhere(&place, seed);
    }
}

fn crash_everywhere(place: &Place, seed: u64) {
    let steps = history(place, seed);
    let journal = place.vfs.journal();
    let every = match std::env::var_os("TITAN_MVCC_TEST_ALL_CRASHES") {
        Some(_) => 1,
        None => 7,
    };
    let mut rng = fastrand::Rng::with_seed(seed);
    for point in journal.crash_points() {
        if rng.usize(..every) != 0 {
            continue;
        }
        let acknowledged = point.acknowledged() as usize;
        for loss in [Loss::None, Loss::All, Loss::Random(seed)] {
            let run = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                check(point.crash(&loss), seed, &steps, acknowledged);
            }));
            let at = point.index();
            run.unwrap_or_else(|_| panic!("seed {seed}, crash at {at} with {loss:?} in {DIR}"));
        }
    }
}
