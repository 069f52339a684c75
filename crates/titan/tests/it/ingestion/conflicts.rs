//! Conditions and transactions take an ingested range for a write.

use titan::{
    Conditions, Db, ErrorKind, IngestOptions, TransactionOptions, WriteBatch, WriteOptions,
};
use titan_testkit::sim::SimVfs;

use super::{Change, get, made, made_of, manually, put};
use crate::support::DIR;

fn database() -> (titan::Options, Db) {
    let vfs = SimVfs::new();
    let options = manually(&vfs);
    let db = Db::open(DIR, &options).unwrap();
    for key in ["a", "b", "c"] {
        db.put(key, "old").unwrap();
    }
    (options, db)
}

#[test]
fn conditions_fail_on_the_keys_of_a_file_and_on_no_others() {
    for late in [false, true] {
        let (options, db) = database();
        let file = made(
            &options,
            "1.sst",
            &[
                put("a", "new"),
                Change::DeleteRange("c", "d"),
                put("x", "new"),
            ],
        );
        let snapshot = db.snapshot();
        let ingest = || db.ingest(&[&file], &IngestOptions::default()).unwrap();
        if !late {
            ingest();
        }
        for (key, conflicts) in [
            ("a", true),
            ("b", false),
            ("c", true),
            ("x", true),
            ("y", false),
        ] {
            let mut conditions = Conditions::since(&snapshot);
            conditions.unchanged(&*db, key).unwrap();
            let write = || {
                let mut batch = WriteBatch::new();
                batch.put(&*db, "result", key).unwrap();
                db.write_if(batch, &conditions, &WriteOptions::default())
            };
            if late {
                write().unwrap();
                continue;
            }
            match write() {
                Err(e) if conflicts => assert_eq!(e.kind(), ErrorKind::Conflict, "{e}"),
                outcome => assert!(outcome.is_ok() && !conflicts, "{key}: {outcome:?}"),
            }
        }
        if late {
            ingest();
            let mut conditions = Conditions::since(&snapshot);
            conditions.unchanged(&*db, "c").unwrap();
            let e = db.check_conditions(&conditions).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Conflict, "{e}");
        }
        // Compactions keep the writes that conditions look for.
        db.compact_range(None, None, &Default::default()).unwrap();
        let mut conditions = Conditions::since(&snapshot);
        conditions.unchanged(&*db, "a").unwrap();
        let e = db.check_conditions(&conditions).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Conflict, "{e}");
    }
}

#[test]
fn open_transactions_of_both_kinds_conflict_with_a_file() {
    for pessimistic in [false, true] {
        let (options, db) = database();
        let settings = match pessimistic {
            true => TransactionOptions::pessimistic(),
            false => TransactionOptions::default(),
        };
        let touched = db.begin(&settings).unwrap();
        assert_eq!(
            touched.get_for_update(&db, "a").unwrap().as_deref(),
            Some(&b"old"[..])
        );
        touched.put(&db, "r", "touched").unwrap();
        let apart = db.begin(&settings).unwrap();
        assert!(apart.get_for_update(&db, "b").unwrap().is_some());
        apart.put(&db, "s", "apart").unwrap();
        let file = made_of(&options, "1.sst", &["a"], "new");
        db.ingest(&[file], &IngestOptions::default()).unwrap();
        let e = touched.commit().unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Conflict, "{pessimistic}: {e}");
        apart.commit().unwrap();
        assert_eq!(get(&db, "r"), None);
        assert_eq!(get(&db, "s").as_deref(), Some("apart"));
        assert_eq!(get(&db, "a").as_deref(), Some("new"));
    }
}
