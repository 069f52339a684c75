//! Transactions of all kinds on several threads, with plain writes, flushes and compactions beside
//! them. Sums stay the same in every snapshot, no increment is lost, and guards hold.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::vfs::MemoryVfs;
use crate::{
    ColumnFamilyOptions, Db, DbOptions, ErrorKind, LockOptions, Options, ReadOptions, Result,
    Transaction, TransactionOptions, TransactionSnapshot,
};

const ACCOUNTS: u8 = 6;
const EACH: i64 = 100;
const THREADS: u64 = 3;

/// Work of the threads.
#[derive(Default)]
struct Done {
    increments: AtomicU64,
    retries: AtomicU64,
    snapshots: AtomicU64,
    over: AtomicBool,
}

fn number(value: Option<bytes::Bytes>) -> i64 {
    let text = String::from_utf8(value.unwrap_or_default().to_vec()).unwrap();
    text.parse().unwrap_or(0)
}

fn account(n: u8) -> String {
    format!("account{n}")
}

/// Random options. Where a transaction waits, it waits until there is a lock or a circle.
fn options(rng: &mut fastrand::Rng) -> TransactionOptions {
    let locks = rng.bool().then(|| LockOptions {
        timeout: None,
        ..LockOptions::default()
    });
    let snapshot = match rng.u8(..3) {
        0 => TransactionSnapshot::AtBegin,
        1 => TransactionSnapshot::AtFirstUse,
        _ => TransactionSnapshot::None,
    };
    TransactionOptions {
        locks,
        snapshot,
        ..TransactionOptions::default()
    }
}

/// Runs `body` in transactions until one commits.
fn until_committed(
    db: &Db,
    rng: &mut fastrand::Rng,
    done: &Done,
    mut body: impl FnMut(&Transaction) -> Result<()>,
) {
    loop {
        let transaction = db.begin(&options(rng)).unwrap();
        let committed = body(&transaction).and_then(|()| transaction.commit());
        match committed.map_err(|e| e.kind()) {
            Ok(()) => return,
            Err(ErrorKind::Conflict | ErrorKind::Deadlock) => {
                done.retries.fetch_add(1, Ordering::Relaxed);
            }
            Err(other) => panic!("{other:?}"),
        }
    }
}

fn transfer(db: &Db, rng: &mut fastrand::Rng, done: &Done) {
    let (from, to) = (account(rng.u8(..ACCOUNTS)), account(rng.u8(..ACCOUNTS)));
    let amount = rng.i64(1..10);
    until_committed(db, rng, done, |t| {
        for (key, by) in [(&from, -amount), (&to, amount)] {
            let balance = number(t.get_for_update(db, key)?);
            t.put(db, key, (balance + by).to_string())?;
        }
        Ok(())
    });
}

fn increment(db: &Db, rng: &mut fastrand::Rng, done: &Done) {
    match rng.bool() {
        true => until_committed(db, rng, done, |t| {
            let counter = number(t.get_for_update(db, "counter")?);
            t.put(db, "counter", (counter + 1).to_string())
        }),
        false => loop {
            let before = db.get(b"counter").unwrap();
            let after = (number(before.clone()) + 1).to_string();
            let set = db.compare_and_set(b"counter", before.as_deref(), Some(after.as_bytes()));
            if set.unwrap() {
                break;
            }
        },
    }
    done.increments.fetch_add(1, Ordering::Relaxed);
}

/// One of the two may leave if the other one stays; so each depends on a key that it does not
/// write.
fn leave_or_return(db: &Db, rng: &mut fastrand::Rng, done: &Done) {
    let (own, other) = match rng.bool() {
        true => ("duty0", "duty1"),
        false => ("duty1", "duty0"),
    };
    until_committed(db, rng, done, |t| {
        let is_there = number(t.get_for_share(db, own)?) == 1;
        let other_is_there = number(t.get_for_share(db, other)?) == 1;
        match is_there {
            true if other_is_there => t.put(db, own, "0"),
            true => Ok(()),
            false => t.put(db, own, "1"),
        }
    });
}

/// Everything in one snapshot is consistent, read in two ways.
fn look(db: &Db, rng: &mut fastrand::Rng, done: &Done) {
    let t = db.begin(&TransactionOptions::default()).unwrap();
    let keys: Vec<String> = (0..ACCOUNTS).map(account).collect();
    let sum = |values: Vec<Result<Option<bytes::Bytes>>>| -> i64 {
        values.into_iter().map(|value| number(value.unwrap())).sum()
    };
    let total = EACH * i64::from(ACCOUNTS);
    assert_eq!(sum(t.multi_get(db, &keys)), total);
    let read = ReadOptions {
        prefix: Some(b"account".to_vec()),
        ..ReadOptions::default()
    };
    let mut iter = t.iter(db, &read).unwrap();
    let mut scanned = 0;
    match rng.bool() {
        true => iter.seek_to_first().unwrap(),
        false => iter.seek_to_last().unwrap(),
    }
    let forwards = iter.valid() && iter.key() == b"account0";
    while iter.valid() {
        scanned += number(Some(iter.value().unwrap()));
        match forwards {
            true => iter.next().unwrap(),
            false => iter.prev().unwrap(),
        }
    }
    assert_eq!(scanned, total);
    let on_duty = number(t.get(db, "duty0").unwrap()) + number(t.get(db, "duty1").unwrap());
    assert!(on_duty >= 1, "both have left");
    done.snapshots.fetch_add(1, Ordering::Relaxed);
}

fn work(db: &Db, seed: u64, rounds: u64, done: &Done) {
    let mut rng = fastrand::Rng::with_seed(seed);
    for _ in 0..rounds {
        match rng.u8(..10) {
            0..=3 => transfer(db, &mut rng, done),
            4 | 5 => increment(db, &mut rng, done),
            6 | 7 => leave_or_return(db, &mut rng, done),
            8 => look(db, &mut rng, done),
            _ => db.put(b"noise", &seed.to_le_bytes()).unwrap(),
        }
    }
}

#[test]
fn nothing_is_lost_or_torn_between_threads() {
    let stated = std::env::var("TITAN_TRANSACTION_STEPS");
    let rounds = stated.map_or(2_400, |steps| steps.parse().unwrap()) / THREADS;
    let options = Options {
        db: DbOptions {
            vfs: Arc::new(MemoryVfs::default()),
            ..DbOptions::default()
        },
        default: ColumnFamilyOptions {
            write_buffer_size: 64 << 10,
            ..ColumnFamilyOptions::default()
        },
        ..Options::default()
    };
    let db = Db::open(Path::new("/db"), &options).unwrap();
    for n in 0..ACCOUNTS {
        let balance = EACH.to_string();
        db.put(account(n).as_bytes(), balance.as_bytes()).unwrap();
    }
    for key in [b"duty0", b"duty1"] {
        db.put(key, b"1").unwrap();
    }
    let done = Done::default();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS)
            .map(|seed| {
                let (db, done) = (&db, &done);
                scope.spawn(move || work(db, seed, rounds, done))
            })
            .collect();
        let (db, done) = (&db, &done);
        let moving = scope.spawn(move || {
            let mut rng = fastrand::Rng::with_seed(99);
            while !done.over.load(Ordering::Relaxed) {
                match rng.bool() {
                    true => db.flush().unwrap(),
                    false => db.compact_range(None, None, &Default::default()).unwrap(),
                }
            }
        });
        let ended: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        done.over.store(true, Ordering::Relaxed);
        moving.join().unwrap();
        for (seed, ended) in ended.into_iter().enumerate() {
            assert!(ended.is_ok(), "the thread with seed {seed} has failed");
        }
    });
    look(&db, &mut fastrand::Rng::with_seed(0), &done);
    let counter = number(db.get(b"counter").unwrap());
    assert_eq!(counter as u64, done.increments.load(Ordering::Relaxed));
    assert_eq!((db.locks().len(), db.metrics().snapshots), (0, 0));
    println!(
        "{} snapshots, {} retries",
        done.snapshots.load(Ordering::Relaxed),
        done.retries.load(Ordering::Relaxed)
    );
}
