//! Methods of transactions, one by one.

use std::cmp::Ordering;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use crate::merge::{Associative, AssociativeMergeOperator};
use crate::vfs::MemoryVfs;
use crate::{
    ColumnFamilyOptions, Comparator, Db, DbOptions, ErrorKind, LockOptions, Options, ReadOptions,
    Result, Transaction, TransactionOptions, TransactionSnapshot,
};

pub(super) fn options() -> Options {
    Options {
        db: DbOptions {
            vfs: Arc::new(MemoryVfs::default()),
            ..DbOptions::default()
        },
        default: ColumnFamilyOptions {
            disable_auto_compactions: true,
            ..ColumnFamilyOptions::default()
        },
        ..Options::default()
    }
}

pub(super) fn open() -> Db {
    Db::open(Path::new("/db"), &options()).unwrap()
}

fn optimistic(snapshot: TransactionSnapshot) -> TransactionOptions {
    TransactionOptions {
        snapshot,
        ..TransactionOptions::default()
    }
}

/// Pessimistic, and does not wait.
fn impatient(snapshot: TransactionSnapshot) -> TransactionOptions {
    TransactionOptions {
        locks: Some(LockOptions {
            timeout: Some(Duration::ZERO),
            ..LockOptions::default()
        }),
        snapshot,
        ..TransactionOptions::default()
    }
}

const SNAPSHOTS: [TransactionSnapshot; 3] = [
    TransactionSnapshot::AtBegin,
    TransactionSnapshot::AtFirstUse,
    TransactionSnapshot::None,
];

pub(super) fn all_options() -> impl Iterator<Item = TransactionOptions> {
    SNAPSHOTS
        .into_iter()
        .flat_map(|s| [optimistic(s), impatient(s)])
}

pub(super) fn kind<T>(result: Result<T>) -> Option<ErrorKind> {
    result.err().map(|e| e.kind())
}

fn text(value: Result<Option<bytes::Bytes>>) -> Option<String> {
    let value = value.unwrap();
    value.map(|value| String::from_utf8(value.to_vec()).unwrap())
}

const CONFLICT: Option<ErrorKind> = Some(ErrorKind::Conflict);
const TIMEOUT: Option<ErrorKind> = Some(ErrorKind::LockTimeout);

/// Whether the lock on a key is free.
fn is_free(db: &Db, key: &str) -> bool {
    let other = db.begin(&impatient(TransactionSnapshot::None)).unwrap();
    match kind(other.put(db, key, "x")) {
        None => true,
        TIMEOUT => false,
        other => panic!("{other:?}"),
    }
}

#[test]
fn its_own_writes_are_seen_by_itself_at_once_and_by_others_after_the_commit() {
    for options in all_options() {
        let db = open();
        for (key, value) in [(b"a", b"1"), (b"b", b"1"), (b"c", b"1")] {
            db.put(key, value).unwrap();
        }
        let t = db.begin(&options).unwrap();
        t.put(&db, "a", "2").unwrap();
        t.delete(&db, "b").unwrap();
        t.single_delete(&db, "c").unwrap();
        t.put(&db, "d", "2").unwrap();
        let own = |key: &str| text(t.get(&db, key));
        assert_eq!(own("a").as_deref(), Some("2"));
        assert_eq!((own("b"), own("c")), (None, None));
        let keys = ["d", "c", "e", "a", "b"];
        let found = t.multi_get(&db, &keys).into_iter().map(text);
        let two = || Some("2".to_owned());
        assert_eq!(Vec::from_iter(found), [two(), None, None, two(), None]);
        assert_eq!(text(t.get_for_update(&db, "d")), two());
        assert_eq!(text(db.get(b"a")).as_deref(), Some("1"));
        assert_eq!(text(db.get(b"d")), None);
        t.commit().unwrap();
        assert_eq!(text(db.get(b"a")), two());
        assert_eq!(text(db.get(b"d")), two());
        let gone = db.multi_get(&["b", "c"]);
        assert!(gone.into_iter().all(|value| text(value).is_none()));
        assert_eq!(db.locks().len(), 0);
        assert_eq!(db.metrics().snapshots, 0);
    }
}

#[test]
fn what_is_rolled_back_or_dropped_never_happened() {
    for options in all_options() {
        let db = open();
        for ends_by_drop in [false, true] {
            let t = db.begin(&options).unwrap();
            t.put(&db, "a", "2").unwrap();
            t.guard(&db, "b").unwrap();
            assert_eq!(is_free(&db, "a"), options.locks.is_none());
            match ends_by_drop {
                true => drop(t),
                false => t.rollback(),
            }
            assert!(is_free(&db, "a"));
            assert_eq!(text(db.get(b"a")), None);
            assert_eq!(db.latest_sequence_number().0, 0);
            assert_eq!((db.locks().len(), db.metrics().snapshots), (0, 0));
        }
    }
}

type Touch = fn(&Transaction, &Db) -> Result<()>;

const TOUCHES: [(&str, Touch); 6] = [
    ("put", |t, db| t.put(db, "k", "mine")),
    ("delete", |t, db| t.delete(db, "k")),
    ("single delete", |t, db| t.single_delete(db, "k")),
    ("get for update", |t, db| {
        t.get_for_update(db, "k").map(drop)
    }),
    ("get for share", |t, db| t.get_for_share(db, "k").map(drop)),
    ("guard", |t, db| t.guard(db, "k")),
];

#[test]
fn a_write_of_others_after_the_touch_of_a_key_is_a_conflict() {
    let writes: [fn(&Db) -> Result<()>; 4] = [
        |db| db.put(b"k", b"theirs"),
        |db| db.delete(b"k"),
        |db| db.delete_range(b"a", b"z"),
        |db| {
            let t = db.begin(&TransactionOptions::default())?;
            t.put(db, "k", "theirs")?;
            t.commit()
        },
    ];
    for options in all_options() {
        for (name, touch) in TOUCHES {
            for write in writes {
                let db = open();
                let t = db.begin(&options).unwrap();
                touch(&t, &db).unwrap();
                t.put(&db, "other", "mine").unwrap();
                write(&db).unwrap();
                db.flush().unwrap();
                let result = t.commit();
                let error = result.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Conflict, "{name} {options:?}");
                assert!(error.message().contains("'k'"), "{error}");
                assert_eq!(text(db.get(b"other")), None, "{name}");
                assert_eq!(db.locks().len(), 0);
            }
        }
    }
}

#[test]
fn a_write_of_others_before_the_touch_of_a_key_is_a_conflict_only_with_an_older_snapshot() {
    for options in all_options() {
        for (name, touch) in TOUCHES {
            let db = open();
            let t = db.begin(&options).unwrap();
            db.put(b"k", b"theirs").unwrap();
            let touched = kind(touch(&t, &db));
            let committed = kind(t.commit());
            let at_begin = options.snapshot == TransactionSnapshot::AtBegin;
            match options.locks.is_some() {
                // The key is not touched then, and the transaction may go on.
                true => assert_eq!(touched, at_begin.then_some(ErrorKind::Conflict), "{name}"),
                false => assert_eq!(committed, at_begin.then_some(ErrorKind::Conflict), "{name}"),
            }
            assert_eq!(
                committed.or(touched),
                at_begin.then_some(ErrorKind::Conflict)
            );
            assert_eq!(db.locks().len(), 0);
        }
    }
}

#[test]
fn a_plain_read_is_no_guard_and_a_snapshot_does_not_move() {
    for options in all_options() {
        let db = open();
        db.put(b"k", b"1").unwrap();
        let t = db.begin(&options).unwrap();
        assert_eq!(text(t.get(&db, "k")).as_deref(), Some("1"));
        db.put(b"k", b"2").unwrap();
        let expected = match options.snapshot {
            TransactionSnapshot::None => "2",
            _ => "1",
        };
        assert_eq!(text(t.get(&db, "k")).as_deref(), Some(expected));
        assert_eq!(t.snapshot().is_some(), expected == "1");
        t.put(&db, "other", "1").unwrap();
        t.commit().unwrap();
    }
}

#[test]
fn a_transaction_that_guards_without_writing_learns_of_conflicts() {
    for options in all_options() {
        let db = open();
        let t = db.begin(&options).unwrap();
        t.guard(&db, "k").unwrap();
        t.commit().unwrap();
        assert_eq!(db.latest_sequence_number().0, 0);
        let t = db.begin(&options).unwrap();
        t.guard(&db, "k").unwrap();
        db.put(b"k", b"1").unwrap();
        assert_eq!(kind(t.commit()), CONFLICT);
    }
}

#[test]
fn undoing_all_reads_of_a_key_gives_it_up_unless_it_was_written() {
    for options in all_options() {
        let pessimistic = options.locks.is_some();
        let db = open();
        let t = db.begin(&options).unwrap();
        t.get_for_update(&db, "k").unwrap();
        t.guard(&db, "k").unwrap();
        t.get_for_update(&db, "w").unwrap();
        t.put(&db, "w", "1").unwrap();
        t.undo_get_for_update(&db, "k").unwrap();
        assert_eq!(is_free(&db, "k"), !pessimistic);
        t.undo_get_for_update(&db, "k").unwrap();
        assert!(is_free(&db, "k"));
        t.undo_get_for_update(&db, "w").unwrap();
        t.undo_get_for_update(&db, "never").unwrap();
        assert_eq!(is_free(&db, "w"), !pessimistic);
        db.put(b"k", b"2").unwrap();
        t.commit().unwrap();
        let t = db.begin(&options).unwrap();
        t.get_for_update(&db, "w").unwrap();
        t.put(&db, "w", "3").unwrap();
        t.undo_get_for_update(&db, "w").unwrap();
        db.put(b"w", b"2").unwrap();
        assert_eq!(kind(t.commit()), CONFLICT);
        assert_eq!(db.locks().len(), 0);
    }
}

#[test]
fn a_save_point_takes_back_writes_guards_and_locks() {
    for options in all_options() {
        let pessimistic = options.locks.is_some();
        let db = open();
        let t = db.begin(&options).unwrap();
        t.put(&db, "a", "1").unwrap();
        t.guard(&db, "r").unwrap();
        t.set_save_point();
        t.put(&db, "a", "2").unwrap();
        t.put(&db, "b", "2").unwrap();
        t.guard(&db, "g").unwrap();
        t.undo_get_for_update(&db, "r").unwrap();
        t.set_save_point();
        t.delete(&db, "a").unwrap();
        t.put(&db, "c", "3").unwrap();
        assert_eq!(text(t.get(&db, "a")), None);
        t.rollback_to_save_point().unwrap();
        assert_eq!(text(t.get(&db, "a")).as_deref(), Some("2"));
        assert_eq!(text(t.get(&db, "c")), None);
        assert!(is_free(&db, "c"));
        assert_eq!(is_free(&db, "b"), !pessimistic);
        t.set_save_point();
        t.put(&db, "d", "4").unwrap();
        t.pop_save_point().unwrap();
        assert_eq!(text(t.get(&db, "d")).as_deref(), Some("4"));
        t.rollback_to_save_point().unwrap();
        assert_eq!(text(t.get(&db, "a")).as_deref(), Some("1"));
        for key in ["b", "c", "d", "g"] {
            assert_eq!(text(t.get(&db, key)), None);
            assert!(is_free(&db, key), "{key}");
        }
        // Before the save point it was touched; to undo that within it had no effect.
        assert_eq!(is_free(&db, "r"), !pessimistic);
        let nothing = Some(ErrorKind::InvalidArgument);
        assert_eq!(kind(t.rollback_to_save_point()), nothing);
        assert_eq!(kind(t.pop_save_point()), nothing);
        // Keys that were given up are no conflict.
        for key in [b"b", b"c", b"d", b"g"] {
            db.put(key, b"theirs").unwrap();
        }
        t.commit().unwrap();
        assert_eq!(text(db.get(b"a")).as_deref(), Some("1"));
        assert_eq!(text(db.get(b"b")).as_deref(), Some("theirs"));
        assert_eq!(db.locks().len(), 0);
    }
}

#[test]
fn the_order_of_writes_of_a_key_counts() {
    let db = open();
    db.put(b"k", b"1").unwrap();
    let t = db.begin(&TransactionOptions::default()).unwrap();
    t.single_delete(&db, "k").unwrap();
    t.put(&db, "k", "2").unwrap();
    t.commit().unwrap();
    db.single_delete(b"k").unwrap();
    db.compact_range(None, None, &Default::default()).unwrap();
    assert_eq!(text(db.get(b"k")), None);
}

#[test]
fn two_transactions_lock_as_their_modes_allow() {
    let db = open();
    let options = impatient(TransactionSnapshot::None);
    let [a, b] = [(); 2].map(|()| db.begin(&options).unwrap());
    a.guard(&db, "k").unwrap();
    assert_eq!(text(b.get_for_share(&db, "k")), None);
    assert_eq!(kind(a.get_for_update(&db, "k")), TIMEOUT);
    assert_eq!(kind(b.put(&db, "k", "1")), TIMEOUT);
    b.undo_get_for_update(&db, "k").unwrap();
    a.put(&db, "k", "1").unwrap();
    let error = b.guard(&db, "k").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LockTimeout);
    let text = error.to_string();
    let named = format!("transaction {} has waited", b.id());
    assert!(
        text.contains(&named) && text.contains("column family default"),
        "{text}"
    );
    // Reads without a guard do not wait.
    assert!(b.get(&db, "k").unwrap().is_none());
    a.commit().unwrap();
    b.put(&db, "k", "2").unwrap();
    b.commit().unwrap();
}

#[test]
fn a_transaction_locks_no_more_keys_than_it_may() {
    let db = open();
    let options = TransactionOptions {
        locks: Some(LockOptions {
            max_locks: Some(2),
            ..LockOptions::default()
        }),
        ..TransactionOptions::pessimistic()
    };
    let t = db.begin(&options).unwrap();
    t.put(&db, "a", "1").unwrap();
    t.guard(&db, "b").unwrap();
    t.put(&db, "b", "1").unwrap();
    let error = t.put(&db, "c", "1").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LockLimit);
    assert!(error.message().contains("has locked 2 keys"), "{error}");
    assert!(
        error.message().contains("LockOptions::max_locks"),
        "{error}"
    );
    assert!(is_free(&db, "c"));
    t.commit().unwrap();
    assert_eq!(text(db.get(b"b")).as_deref(), Some("1"));
}

#[test]
fn families_are_apart_and_those_of_others_are_refused() {
    for options in all_options() {
        let db = open();
        let (family, other) = (
            db.create_column_family("f", ColumnFamilyOptions::default())
                .unwrap(),
            open(),
        );
        let t = db.begin(&options).unwrap();
        t.put(&family, "k", "f").unwrap();
        assert_eq!(text(t.get(&db, "k")), None);
        assert_eq!(text(t.get(&family, "k")).as_deref(), Some("f"));
        let invalid = Some(ErrorKind::InvalidArgument);
        assert_eq!(kind(t.put(&other, "k", "1")), invalid);
        assert_eq!(kind(t.get(&other, "k")), invalid);
        assert_eq!(kind(t.guard(&other, "k")), invalid);
        assert_eq!(kind(t.undo_get_for_update(&other, "k")), invalid);
        assert_eq!(kind(t.iter(&other, &ReadOptions::default())), invalid);
        assert_eq!(kind(t.multi_get(&other, &["k"]).remove(0)), invalid);
        let unsupported = Some(ErrorKind::Unsupported);
        let error = t.delete_range(&db, "a", "b").unwrap_err();
        assert_eq!(Some(error.kind()), unsupported);
        assert!(error.message().contains("an iterator"), "{error}");
        t.put(&db, "k", "default").unwrap();
        t.commit().unwrap();
        assert_eq!(text(family.get(b"k")).as_deref(), Some("f"));

        let t = db.begin(&options).unwrap();
        t.put(&family, "k", "2").unwrap();
        t.put(&db, "k", "2").unwrap();
        db.drop_column_family(&family).unwrap();
        assert_eq!(kind(t.get(&family, "other")), invalid);
        assert_eq!(kind(t.commit()), invalid);
        assert_eq!(text(db.get(b"k")).as_deref(), Some("default"));
        assert_eq!(db.locks().len(), 0);
    }
}

#[test]
fn single_keys_are_set_only_if_they_are_as_expected() {
    let db = open();
    let family = db
        .create_column_family("f", ColumnFamilyOptions::default())
        .unwrap();
    assert!(family.put_if_absent(b"k", b"1").unwrap());
    assert!(!family.put_if_absent(b"k", b"2").unwrap());
    assert!(!db.contains_key(b"k").unwrap());
    assert!(
        !family
            .compare_and_set(b"k", Some(b"2"), Some(b"3"))
            .unwrap()
    );
    assert!(
        family
            .compare_and_set(b"k", Some(b"1"), Some(b"3"))
            .unwrap()
    );
    assert_eq!(text(family.get(b"k")).as_deref(), Some("3"));
    assert!(!family.compare_and_set(b"k", None, None).unwrap());
    assert!(family.compare_and_set(b"k", Some(b"3"), None).unwrap());
    assert!(family.compare_and_set(b"k", None, None).unwrap());
    assert!(family.put_if_absent(b"k", b"4").unwrap());
    db.drop_column_family(&family).unwrap();
    let dropped = family.put_if_absent(b"x", b"1");
    assert_eq!(kind(dropped), Some(ErrorKind::InvalidArgument));
}

#[test]
fn merges_are_read_at_once_and_conflict_like_other_writes() {
    let mut options = Options::default();
    options.default.merge_operator = crate::merge::builtin::by_name("stringappend");
    options.db.vfs = Arc::new(MemoryVfs::default());
    let db = Db::open("/db", &options).unwrap();
    db.merge(b"k", b"1").unwrap();
    for begun in [
        TransactionOptions::default(),
        TransactionOptions::pessimistic(),
    ] {
        let before = db.get(b"k").unwrap().unwrap();
        let transaction = db.begin(&begun).unwrap();
        transaction.merge(&db, "k", "2").unwrap();
        transaction.set_save_point();
        transaction.merge(&db, "k", "3").unwrap();
        transaction.delete(&db, "new").unwrap();
        transaction.merge(&db, "new", "4").unwrap();
        let with = |more: &str| [&*before, more.as_bytes()].concat();
        assert_eq!(transaction.get(&db, "k").unwrap().unwrap(), with(",2,3"));
        assert_eq!(transaction.get(&db, "new").unwrap().unwrap(), "4");
        let mut iter = transaction.iter(&db, &ReadOptions::default()).unwrap();
        iter.seek_to_first().unwrap();
        assert_eq!(iter.value().unwrap(), with(",2,3"));
        assert_eq!(db.get(b"k").unwrap().unwrap(), before);
        transaction.rollback_to_save_point().unwrap();
        assert_eq!(transaction.get(&db, "k").unwrap().unwrap(), with(",2"));
        assert_eq!(transaction.get(&db, "new").unwrap(), None);
        transaction.commit().unwrap();
        assert_eq!(db.get(b"k").unwrap().unwrap(), with(",2"));
    }
    let late = db.begin(&TransactionOptions::default()).unwrap();
    late.merge(&db, "k", "5").unwrap();
    db.merge(b"k", b"first").unwrap();
    assert_eq!(late.commit().unwrap_err().kind(), ErrorKind::Conflict);
    let other = db
        .create_column_family("other", crate::ColumnFamilyOptions::default())
        .unwrap();
    let transaction = db.begin(&TransactionOptions::default()).unwrap();
    let refused = transaction.merge(&other, "k", "1").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
}

/// Combines nothing with the operand "bad".
struct Choosy;

impl AssociativeMergeOperator for Choosy {
    fn name(&self) -> &str {
        "choosy"
    }

    fn merge(&self, _: &[u8], _: Option<&[u8]>, operand: &[u8]) -> Option<Vec<u8>> {
        (operand != b"bad").then(|| operand.to_vec())
    }
}

/// Bytewise, but panics at one key while it is told to.
#[derive(Default)]
struct Panicking(AtomicBool);

impl Comparator for Panicking {
    fn name(&self) -> &str {
        "panicking"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        let panics = self.0.load(Relaxed) && (a == b"panic" || b == b"panic");
        assert!(!panics, "as told");
        a.cmp(b)
    }
}

#[test]
fn a_transaction_whose_writes_are_lost_never_commits() {
    let comparator = Arc::new(Panicking::default());
    for begun in all_options() {
        let mut options = options();
        options.default.comparator = Arc::clone(&comparator) as Arc<dyn Comparator>;
        let db = Db::open("/db", &options).unwrap();
        db.put(b"k", b"0").unwrap();
        let mut transaction = db.begin(&begun).unwrap();
        transaction.set_save_point();
        transaction.put(&db, "mine", "1").unwrap();
        transaction.put(&db, "panic", "1").unwrap();
        comparator.0.store(true, Relaxed);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _ = transaction.try_commit();
        }));
        comparator.0.store(false, Relaxed);
        assert!(panicked.is_err(), "{begun:?}");
        db.resume().unwrap();
        for ended in [
            transaction.try_commit(),
            transaction.rollback_to_save_point(),
            transaction.pop_save_point(),
            transaction.commit(),
        ] {
            assert_eq!(kind(ended), Some(ErrorKind::Internal), "{begun:?}");
        }
        assert_eq!(text(db.get(b"mine")), None, "{begun:?}");
        assert!(is_free(&db, "mine"), "{begun:?}");
    }
}

#[test]
fn a_call_that_fails_or_panics_leaves_no_lock_and_no_guard() {
    let comparator = Arc::new(Panicking::default());
    for begun in all_options() {
        let mut options = options();
        options.default.merge_operator = Some(Arc::new(Associative(Choosy)));
        options.default.comparator = Arc::clone(&comparator) as Arc<dyn Comparator>;
        let db = Db::open("/db", &options).unwrap();
        db.put(b"panic", b"0").unwrap();
        db.put(b"k", b"0").unwrap();
        let transaction = db.begin(&begun).unwrap();
        transaction.put(&db, "mine", "1").unwrap();
        assert!(transaction.merge(&db, "k", "bad").is_err(), "{begun:?}");
        comparator.0.store(true, Relaxed);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _ = transaction.get_for_update(&db, "panic");
        }));
        comparator.0.store(false, Relaxed);
        assert!(panicked.is_err(), "{begun:?}");
        // Others may lock and write both keys, and the transaction does not mind.
        assert!(is_free(&db, "k"), "{begun:?}");
        assert!(is_free(&db, "panic"), "{begun:?}");
        db.put(b"k", b"2").unwrap();
        db.put(b"panic", b"2").unwrap();
        transaction.commit().unwrap();
        assert_eq!(text(db.get(b"mine")).as_deref(), Some("1"));
        assert_eq!(text(db.get(b"k")).as_deref(), Some("2"));
    }
}
