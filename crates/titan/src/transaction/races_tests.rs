//! A transaction is stopped at a gate of its commit, and others try to come in between.

use std::sync::Arc;
use std::time::Duration;

use crate::vfs::MemoryVfs;
use crate::{Db, DbOptions, ErrorKind, LockOptions, Options, TransactionOptions};
use titan_testkit::gates::{Gates, race};

fn open(gates: &Gates) -> Db {
    let options = Options {
        db: DbOptions {
            vfs: Arc::new(MemoryVfs::default()),
            ..DbOptions::default()
        },
        ..Options::default()
    };
    gates.given(|| Db::open("/db", &options)).unwrap()
}

/// Pessimistic, and waits for a lock for so long.
fn waiting(timeout: Option<Duration>) -> TransactionOptions {
    TransactionOptions {
        locks: Some(LockOptions {
            timeout,
            ..LockOptions::default()
        }),
        ..TransactionOptions::pessimistic()
    }
}

fn impatient() -> TransactionOptions {
    waiting(Some(Duration::ZERO))
}

fn patient() -> TransactionOptions {
    waiting(None)
}

#[test]
fn locks_are_released_after_the_writes_are_visible() {
    for gate in [
        "commit: logged",
        "commit: inserted",
        "transaction: committed",
    ] {
        race(move |gates| {
            let db = open(gates);
            db.put(b"k", b"1").unwrap();
            let stop = gates.stop_at(gate);
            let first = db.clone();
            let first = gates.spawn("first", move || {
                let transaction = first.begin(&impatient())?;
                transaction.put(&first, "k", "2")?;
                transaction.commit()
            });
            stop.reached();
            let second = db.begin(&impatient()).unwrap();
            let refused = second.get_for_update(&db, "k").unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::LockTimeout, "{gate}");
            stop.open();
            first.join().unwrap();
            let seen = second.get_for_update(&db, "k").unwrap();
            assert_eq!(seen.as_deref(), Some(&b"2"[..]));
            second.put(&db, "k", "3").unwrap();
            // A write of the first one before the lock was free is no conflict.
            second.commit().unwrap();
            assert_eq!(db.get(b"k").unwrap().as_deref(), Some(&b"3"[..]));
        });
    }
}

/// One that waits for the lock gets it once the other one is visible, and sees its writes.
#[test]
fn one_that_waits_sees_what_the_other_one_wrote() {
    race(|gates| {
        let db = open(gates);
        let first = db.begin(&TransactionOptions::pessimistic()).unwrap();
        first.put(&db, "k", "1").unwrap();
        let second = db.clone();
        let second = gates.spawn("second", move || {
            let transaction = second.begin(&patient())?;
            let seen = transaction.get_for_update(&second, "k")?;
            transaction.put(
                &second,
                "k",
                [seen.as_deref().unwrap_or_default(), b"2"].concat(),
            )?;
            transaction.commit()
        });
        gates.first_of(&["lock: waits"]);
        first.commit().unwrap();
        second.join().unwrap();
        assert_eq!(db.get(b"k").unwrap().as_deref(), Some(&b"12"[..]));
    });
}

#[test]
fn another_write_between_the_two_steps_of_a_comparison_makes_it_compare_again() {
    for (between, expected) in [(&b"1"[..], true), (b"9", false)] {
        race(move |gates| {
            let db = open(gates);
            db.put(b"k", b"1").unwrap();
            let stop = gates.stop_at("compare and set: compared");
            let setting = db.clone();
            let setting = gates.spawn("compare", move || {
                setting.compare_and_set(b"k", Some(b"1"), Some(b"2"))
            });
            stop.reached();
            db.put(b"k", between).unwrap();
            stop.open();
            assert_eq!(setting.join().unwrap(), expected);
            let value = db.get(b"k").unwrap();
            let after: &[u8] = if expected { b"2" } else { b"9" };
            assert_eq!(value.as_deref(), Some(after));
        });
    }
}

/// Whether the other one still has the lock or releases it afterwards.
#[test]
fn closing_the_database_ends_the_wait_for_a_lock() {
    race(|gates| {
        let db = open(gates);
        let first = db.begin(&TransactionOptions::pessimistic()).unwrap();
        first.put(&db, "k", "1").unwrap();
        let second = db.clone();
        let second = gates.spawn("second", move || {
            let transaction = second.begin(&patient())?;
            transaction.put(&second, "k", "2")
        });
        gates.first_of(&["lock: waits"]);
        db.close().unwrap();
        let ended = second.join().unwrap_err();
        assert_eq!(ended.kind(), ErrorKind::Closed, "{ended}");
        drop(first);
    });
}
