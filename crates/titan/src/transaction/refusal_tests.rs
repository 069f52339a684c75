//! Refusals of transactions: families that were dropped, databases that are closed or only read,
//! options that contradict each other.

use super::tests::{all_options, kind, open, options};
use crate::{
    ColumnFamilyOptions, Db, ErrorKind, ReadOptions, Result, TransactionOptions, WriteOptions,
};

#[test]
fn a_read_only_database_refuses_transactions() {
    let options = options();
    Db::open("/db", &options).unwrap().close().unwrap();
    let db = Db::open_read_only("/db", &options).unwrap();
    let refused = db.begin(&TransactionOptions::default());
    assert_eq!(kind(refused), Some(ErrorKind::ReadOnly));
    let refused = db.put_if_absent(b"k", b"1");
    assert_eq!(kind(refused), Some(ErrorKind::ReadOnly));
}

#[test]
fn every_call_refuses_a_dropped_family_by_its_name() {
    let refuses = |what: &str, refused: Result<()>| {
        let refused = refused.expect_err(what);
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{what}");
        let text = refused.to_string();
        assert!(text.contains("pages was dropped"), "{what}: {text}");
    };
    let merging = ColumnFamilyOptions {
        merge_operator: crate::merge::builtin::by_name("stringappend"),
        ..ColumnFamilyOptions::default()
    };
    for begun in all_options() {
        let db = open();
        let create = |options: &ColumnFamilyOptions| {
            let created = db.create_column_family("pages", options.clone());
            created.unwrap()
        };
        let [pages, plain] = [&merging, &ColumnFamilyOptions::default()].map(|options| {
            let family = create(options);
            db.drop_column_family(&family).unwrap();
            family
        });
        let used = create(&merging);
        let t = db.begin(&begun).unwrap();
        t.put(&used, "mine", "1").unwrap();
        t.get_for_update(&used, "read").unwrap();
        db.drop_column_family(&used).unwrap();
        for family in [&pages, &plain, &used] {
            refuses("get", t.get(family, "mine").map(drop));
            for found in t.multi_get(family, &["mine", "k"]) {
                refuses("multi_get", found.map(drop));
            }
            let options = ReadOptions::default();
            refuses("iter", t.iter(family, &options).map(drop));
            refuses("update", t.get_for_update(family, "mine").map(drop));
            refuses("share", t.get_for_share(family, "mine").map(drop));
            refuses("guard", t.guard(family, "k"));
            refuses("undo", t.undo_get_for_update(family, "read"));
            refuses("put", t.put(family, "k", "1"));
            refuses("merge", t.merge(family, "k", "1"));
            refuses("delete", t.delete(family, "k"));
            refuses("single_delete", t.single_delete(family, "k"));
            // Without a transaction, too.
            refuses("plain put", family.put(b"k", b"1"));
            let mut batch = crate::WriteBatch::new();
            batch.delete(family, "k").unwrap();
            refuses("write", db.write(batch, &Default::default()));
            let mut conditions = crate::Conditions::since(&db.snapshot());
            conditions.unchanged(family, "k").unwrap();
            refuses("check", db.check_conditions(&conditions));
            let nothing = crate::WriteBatch::new();
            let write = db.write_if(nothing, &conditions, &Default::default());
            refuses("write_if", write);
        }
        refuses("commit", t.commit());
    }
}

#[test]
fn nothing_works_once_the_database_is_closed() {
    for begun in all_options() {
        let db = open();
        let [used, unused] = [(); 2].map(|()| db.begin(&begun).unwrap());
        used.put(&db, "k", "1").unwrap();
        db.close().unwrap();
        let closed = Some(ErrorKind::Closed);
        for t in [&used, &unused] {
            assert_eq!(kind(t.get(&db, "k")), closed, "{begun:?}");
            assert_eq!(kind(t.get(&db, "other")), closed, "{begun:?}");
            assert_eq!(kind(t.guard(&db, "k")), closed, "{begun:?}");
            assert_eq!(kind(t.put(&db, "k", "2")), closed, "{begun:?}");
            assert_eq!(kind(t.delete(&db, "k")), closed, "{begun:?}");
        }
        assert_eq!(kind(used.commit()), closed, "{begun:?}");
        assert_eq!(kind(unused.commit()), closed, "{begun:?}");
        assert_eq!(kind(db.begin(&begun)), closed, "{begun:?}");
    }
}

#[test]
fn contradictory_options_are_refused_at_the_beginning() {
    let db = open();
    for begun in all_options() {
        let begun = TransactionOptions {
            write: WriteOptions {
                disable_wal: true,
                ..WriteOptions::synced()
            },
            ..begun
        };
        let refused = db.begin(&begun).map(drop);
        assert_eq!(kind(refused), Some(ErrorKind::InvalidArgument), "{begun:?}");
    }
}

#[test]
fn a_transaction_that_could_not_commit_goes_on() {
    for begun in all_options() {
        let db = open();
        let mut t = db.begin(&begun).unwrap();
        t.put(&db, "kept", "1").unwrap();
        t.set_save_point();
        t.put(&db, "contended", "1").unwrap();
        db.put("contended", "2").unwrap();
        for _ in 0..2 {
            assert_eq!(kind(t.try_commit()), Some(ErrorKind::Conflict), "{begun:?}");
            assert_eq!(t.get(&db, "contended").unwrap().unwrap(), "1");
            assert_eq!(db.get("kept").unwrap(), None);
        }
        let impatient = TransactionOptions {
            locks: begun.locks.map(|locks| crate::LockOptions {
                timeout: Some(std::time::Duration::ZERO),
                ..locks
            }),
            snapshot: crate::TransactionSnapshot::None,
            ..begun
        };
        let other = db.begin(&impatient).unwrap();
        let waits = begun.locks.is_some();
        assert_eq!(other.guard(&db, "kept").is_err(), waits, "{begun:?}");
        t.rollback_to_save_point().unwrap();
        t.try_commit().unwrap();
        assert_eq!(db.get("kept").unwrap().unwrap(), "1");
        assert_eq!(db.get("contended").unwrap().unwrap(), "2");
        drop(other);
        let other = db.begin(&impatient).unwrap();
        other.put(&db, "kept", "2").unwrap();
        other.commit().unwrap();
        // It has begun anew: it knows the present, or the value that was there when it committed.
        let at_begin = begun.snapshot == crate::TransactionSnapshot::AtBegin;
        let seen = t.get(&db, "kept").unwrap().unwrap();
        assert_eq!(seen, if at_begin { "1" } else { "2" }, "{begun:?}");
        t.put(&db, "more", "3").unwrap();
        t.commit().unwrap();
        assert_eq!(db.get("more").unwrap().unwrap(), "3");
    }
}
