//! Calls of one thread: lengths, readers of all kinds, refusals, and the reports to other parts of
//! the database.

use std::error::Error as _;
use std::io::{self, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parking_lot::Mutex;
use titan::{
    BypassedRange, ColumnFamilyId, ColumnFamilyOptions, CommitHook, CommittedOps, Conditions, Db,
    ErrorKind, ReadOptions, SequenceNumber, TransactionOptions, WriteBatch, WriteOptions,
};
use titan_testkit::sim::SimVfs;
use titan_tools::check;

use super::{LONG, Source, blob_files, broken, collecting, manually, read};
use crate::support::{DIR, files, manual, open, options, value};

#[test]
fn a_value_of_any_length_is_found_as_it_was_given() {
    for direct in [false, true] {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let mut options = titan::Options {
            default: manual(),
            ..Default::default()
        };
        options.db.use_direct_io_for_flush_and_compaction = direct;
        let lengths = [0, 1, 99, LONG - 1, LONG, LONG + 1, 2 * LONG, 3 * LONG + 17];
        let db = Db::open(dir.path(), &options).unwrap();
        for (n, len) in lengths.into_iter().enumerate() {
            let put = db.put_reader(format!("k{n}"), Source::new(n, len));
            assert_eq!(put.unwrap(), len as u64);
        }
        let verify = |db: &Db| {
            for (n, len) in lengths.into_iter().enumerate() {
                let found = db.get_lazy(format!("k{n}")).unwrap().unwrap();
                assert_eq!(found.len(), Some(len as u64));
                assert!(read(&found) == value(n, len), "of {len} bytes");
                assert!(found.fetch().unwrap() == value(n, len), "of {len} bytes");
            }
        };
        verify(&db);
        // Each is in a file of its own. Two flushes had the shorter ones of at least 100 bytes.
        assert_eq!(blob_files(&db), 4 + 1);
        db.close().unwrap();
        let report = check(dir.path(), &options, &mut |_| {}).unwrap();
        assert!(report.problems.is_empty(), "{report:?}");
        let db = Db::open(dir.path(), &options).unwrap();
        verify(&db);
        db.compact_range(None, None, &Default::default()).unwrap();
        verify(&db);
        db.close().unwrap();
    }
}

#[test]
fn the_last_write_of_a_key_counts_whichever_it_was() {
    let vfs = SimVfs::new();
    let db = open(&manually(&vfs));
    db.put("a", "before").unwrap();
    db.put("b", "before").unwrap();
    let before = db.snapshot();
    for key in ["a", "b"] {
        db.put_reader(key, Source::new(1, LONG)).unwrap();
    }
    let between = db.snapshot();
    db.put("a", "after").unwrap();
    db.delete("b").unwrap();
    let at = |snapshot: &titan::Snapshot, key: &str| snapshot.get(&db, key).unwrap();
    for flushed in [false, true] {
        if flushed {
            db.flush().unwrap();
            db.compact_range(None, None, &Default::default()).unwrap();
        }
        for key in ["a", "b"] {
            assert_eq!(at(&before, key).unwrap(), "before");
            assert!(at(&between, key).unwrap() == value(1, LONG));
        }
        assert_eq!(db.get("a").unwrap().unwrap(), "after");
        assert_eq!(db.get("b").unwrap(), None);
    }
}

#[test]
fn a_key_that_is_written_while_the_reader_gives_its_value_has_that_value_afterwards() {
    let vfs = SimVfs::new();
    let db = open(&manually(&vfs));
    let mut written = false;
    let reader = broken(LONG + 5, || {
        if !written {
            db.put("k", "meanwhile").unwrap();
            assert_eq!(db.get("k").unwrap().unwrap(), "meanwhile");
            written = true;
        }
        Ok(0)
    });
    db.put_reader("k", reader).unwrap();
    assert!(db.get("k").unwrap().unwrap() == value(1, LONG + 5));
}

#[test]
fn a_value_is_copied_from_one_database_to_another() {
    let vfs = SimVfs::new();
    let db = open(&manually(&vfs));
    let other = Db::open("/other", &manually(&vfs)).unwrap();
    db.put_reader("k", Source::new(3, 2 * LONG)).unwrap();
    let film = db.get_lazy("k").unwrap().unwrap();
    assert_eq!(
        other.put_reader("copy", film.reader()).unwrap(),
        film.len().unwrap()
    );
    assert!(read(&other.get_lazy("copy").unwrap().unwrap()) == value(3, 2 * LONG));
}

#[test]
fn a_reader_that_fails_changes_nothing_and_its_error_is_told() {
    let vfs = SimVfs::new();
    let db = open(&manually(&vfs));
    db.put("k", "old").unwrap();
    db.flush().unwrap();
    db.wait_idle().unwrap();
    let (sequence, names) = (db.latest_sequence_number(), vfs.list(DIR).unwrap());
    let used = || files(&vfs, DIR, ".blob");
    for len in [0, 10, LONG, 9 * LONG + 1] {
        let refused = db.put_reader("k", broken(len, || Err(io::Error::other("no film"))));
        let error = refused.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
        assert_eq!(error.source().unwrap().to_string(), "no film");
        let panics = || db.put_reader("k", broken(len, || panic!("as the test asked")));
        assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
        assert!(used().is_empty(), "{:?}", used());
        assert_eq!(vfs.list(DIR).unwrap(), names);
        assert_eq!(db.get("k").unwrap().unwrap(), "old");
        assert_eq!(db.latest_sequence_number(), sequence);
    }
    // One of a database is itself.
    let own = || io::Error::from(titan::Error::new(ErrorKind::Corruption, "a bad film"));
    let error = db.put_reader("k", broken(LONG, || Err(own()))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    db.put_reader("k", Source::new(5, LONG)).unwrap();
    assert!(db.get("k").unwrap().unwrap() == value(5, LONG));
}

#[test]
fn an_overwritten_value_gives_back_its_room() {
    let vfs = SimVfs::new();
    let db = open(&collecting(&vfs));
    for n in 0..3 {
        db.put_reader("k", Source::new(n, LONG)).unwrap();
        db.compact_range(None, None, &Default::default()).unwrap();
        assert_eq!(blob_files(&db), 1);
    }
    assert_eq!(db.metrics().families[0].garbage_blob_bytes, 0);
    db.delete("k").unwrap();
    db.compact_range(None, None, &Default::default()).unwrap();
    assert_eq!(blob_files(&db), 0);
    assert!(files(&vfs, DIR, ".blob").is_empty());
}

#[test]
fn conditions_and_transactions_see_the_write() {
    let vfs = SimVfs::new();
    let db = open(&manually(&vfs));
    db.put("k", "old").unwrap();
    let mut conditions = Conditions::since(&db.snapshot());
    conditions.unchanged(&*db, "k").unwrap();
    for options in [
        TransactionOptions::default(),
        TransactionOptions::pessimistic(),
    ] {
        let transaction = db.begin(&options).unwrap();
        transaction.get_for_update(&db, "k").unwrap();
        db.put_reader("k", Source::new(1, LONG)).unwrap();
        transaction.put(&db, "other", "x").unwrap();
        let refused = transaction.commit().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Conflict, "{options:?}");
    }
    let mut batch = WriteBatch::new();
    batch.put(&*db, "other", "x").unwrap();
    let refused = db.write_if(batch, &conditions, &WriteOptions::default());
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(db.get("other").unwrap(), None);
}

/// The begin and the end of a range, and a sequence number.
type Bypass = (Vec<u8>, Option<Vec<u8>>, u64);

/// Notes bypasses, and puts from within a call.
#[derive(Default)]
struct Bypasses {
    seen: Mutex<Vec<Bypass>>,
    db: Mutex<Option<Db>>,
}

impl CommitHook for Bypasses {
    fn before_publish(&self, _: SequenceNumber, _: &CommittedOps<'_>) {
        if let Some(db) = &*self.db.lock() {
            let refused = db.put_reader("within", io::empty()).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
        }
    }

    fn on_bypass(&self, range: &BypassedRange<'_>, sequence: SequenceNumber) {
        assert_eq!(range.column_family, ColumnFamilyId::DEFAULT);
        let begin = range.begin.unwrap().to_vec();
        let end = range.end.map(<[u8]>::to_vec);
        self.seen.lock().push((begin, end, sequence.0));
    }
}

#[test]
fn a_commit_hook_is_told_of_the_key_before_the_value_is_visible() {
    let vfs = SimVfs::new();
    let hook = Arc::new(Bypasses::default());
    let mut options = manually(&vfs);
    options.db.commit_hook = Some(Arc::clone(&hook) as _);
    let db = open(&options);
    db.put("a", "1").unwrap();
    let last = db.latest_sequence_number().0;
    db.put_reader("k", Source::new(1, LONG)).unwrap();
    assert_eq!(db.latest_sequence_number().0, last + 1);
    let expected = (b"k".to_vec(), Some(b"k\0".to_vec()), last + 1);
    assert_eq!(*hook.seen.lock(), [expected]);
    *hook.db.lock() = Some(db.clone());
    db.put("a", "2").unwrap();
    assert!(!db.is_commit_hook_poisoned());
    *hook.db.lock() = None;
}

#[test]
fn what_cannot_be_put_is_refused_before_it_is_read() {
    let unread = || broken(0, || panic!("it is read"));
    let vfs = SimVfs::new();
    let db = open(&manually(&vfs));
    let without = ColumnFamilyOptions {
        enable_blob_files: false,
        ..manual()
    };
    let family = db.create_column_family("without", without).unwrap();
    let refused = family.put_reader("k", unread()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    assert!(
        refused.to_string().contains("enable_blob_files"),
        "{refused}"
    );
    db.drop_column_family(&family).unwrap();
    let refused = family.put_reader("k", unread()).unwrap_err();
    assert!(refused.to_string().contains("dropped"), "{refused}");
    let contradictory = WriteOptions {
        sync: true,
        disable_wal: true,
        ..WriteOptions::default()
    };
    let refused = db
        .put_reader_with("k", unread(), &contradictory)
        .unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    db.close().unwrap();
    let refused = db.put_reader("k", unread()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Closed);
    let db = Db::open_read_only(DIR, &manually(&vfs)).unwrap();
    let refused = db.put_reader("k", unread()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ReadOnly);
}

#[test]
fn closing_or_dropping_the_family_meanwhile_ends_the_call() {
    let vfs = SimVfs::new();
    let options = manually(&vfs);
    let db = open(&options);
    let family = db.create_column_family("short-lived", manual()).unwrap();
    let mut left = 2;
    let drops = || {
        left -= 1;
        if left == 1 {
            db.drop_column_family(&family).unwrap();
        }
        Ok(0)
    };
    let refused = family.put_reader("k", broken(LONG, drops)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    assert!(files(&vfs, DIR, ".blob").is_empty());
    let closes = || {
        db.close().unwrap();
        Ok(0)
    };
    let refused = db.put_reader("k", broken(LONG, closes)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Closed);
    // It is the next opening's to delete.
    assert_eq!(files(&vfs, DIR, ".blob").len(), 1);
    let db = open(&options);
    assert!(files(&vfs, DIR, ".blob").is_empty());
    assert_eq!(db.get("k").unwrap(), None);
}

#[test]
fn a_checkpoint_and_a_view_have_the_value() {
    let vfs = SimVfs::new();
    let options = manually(&vfs);
    let db = open(&options);
    db.put_reader("k", Source::new(1, LONG)).unwrap();
    db.put("l", "later").unwrap();
    db.checkpoint("/copy").unwrap();
    let secondary = titan::Secondary::open(DIR, &options).unwrap();
    let copy = Db::open("/copy", &options).unwrap();
    for db in [copy, secondary.db()] {
        assert!(read(&db.get_lazy("k").unwrap().unwrap()) == value(1, LONG));
        assert_eq!(db.get("l").unwrap().unwrap(), "later");
    }
}

#[test]
fn bytes_of_the_value_are_counted_as_written() {
    let vfs = SimVfs::new();
    let db = open(&manually(&vfs));
    let statistics = db.statistics();
    let before = (statistics.user_bytes_written(), statistics.keys_written());
    let wal = statistics.wal_bytes();
    db.put_reader("key", Source::new(1, LONG)).unwrap();
    let after = (statistics.user_bytes_written(), statistics.keys_written());
    assert_eq!(after, (before.0 + LONG as u64 + 3, before.1 + 1));
    assert!(statistics.flush_blob_bytes() > LONG as u64);
    assert!(statistics.wal_bytes() - wal < 1000);
}

#[test]
fn an_iterator_has_the_value_among_others() {
    let vfs = SimVfs::new();
    let db = open(&options(&vfs, manual()));
    for n in 0..20 {
        let key = format!("k{n:02}");
        match n % 5 {
            0 => drop(db.put_reader(key, Source::new(n, LONG + n)).unwrap()),
            _ => db.put(key, value(n, 50 * n)).unwrap(),
        }
    }
    let mut iter = db.iter(&ReadOptions::default()).unwrap();
    iter.seek_to_first().unwrap();
    for n in 0..20 {
        assert_eq!(iter.key(), format!("k{n:02}").as_bytes());
        let len = if n % 5 == 0 { LONG + n } else { 50 * n };
        assert!(iter.value().unwrap() == value(n, len), "{n}");
        iter.next().unwrap();
    }
    assert!(!iter.valid());
    let mut whole = Vec::new();
    let lazy = db.get_lazy("k05").unwrap().unwrap();
    lazy.reader().read_to_end(&mut whole).unwrap();
    assert_eq!(whole.len(), LONG + 5);
}
