//! A commit that ends half way, in a comparator that panics: acknowledged writes stay as they were,
//! and after `resume` nothing of the commit is part of the database.

use std::cmp::Ordering;
use std::error::Error as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering as Memory};

use titan::{
    BytewiseComparator, ColumnFamilyOptions, Comparator, Db, Error, ErrorKind, Options,
    ReadOptions, WriteBatch, WriteOptions,
};
use titan_testkit::sim::{Loss, SimVfs};

use crate::directory::{Rows, contents};
use crate::support::{key, manual, open, options, value};

/// Panics at the comparison at which its counter reaches zero.
struct Panicking(Arc<AtomicI64>);

impl Comparator for Panicking {
    fn name(&self) -> &'static str {
        "panicking"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        assert!(
            self.0.fetch_sub(1, Memory::Relaxed) != 1,
            "a comparison fails"
        );
        BytewiseComparator.compare(a, b)
    }
}

type Contents = Vec<(String, Rows)>;

struct World {
    vfs: SimVfs,
    options: Options,
    db: Db,
    comparisons_left: Arc<AtomicI64>,
}

const NEVER: i64 = i64::MIN;

/// Two families with the same keys, some in tables and newer ones in memtables.
fn world() -> World {
    let comparisons_left = Arc::new(AtomicI64::new(NEVER));
    let family = ColumnFamilyOptions {
        comparator: Arc::new(Panicking(Arc::clone(&comparisons_left))),
        ..manual()
    };
    let vfs = SimVfs::new();
    let options = options(&vfs, family.clone());
    let db = open(&options);
    let pages = db.create_column_family("pages", family).unwrap();
    for round in 0..2 {
        for n in 0..8 {
            let size = if n % 2 == 0 { 20 } else { 200 };
            db.put(&key(n), &value(n + round, size)).unwrap();
            pages.put(&key(n), &value(n + round + 50, size)).unwrap();
        }
        if round == 0 {
            db.flush_all().unwrap();
        }
    }
    World {
        vfs,
        options,
        db,
        comparisons_left,
    }
}

/// Every kind of operation, on existing and on new keys, in both families.
fn batch(db: &Db) -> WriteBatch {
    let pages = db.column_family("pages").unwrap();
    let mut batch = WriteBatch::new();
    batch.put(&**db, key(1), b"refused").unwrap();
    batch.put(&pages, key(1), b"refused").unwrap();
    batch.delete(&**db, key(2)).unwrap();
    batch.delete_range(&pages, key(3), key(6)).unwrap();
    batch.put(&**db, key(70), value(70, 300)).unwrap();
    batch.delete_range(&**db, key(4), key(5)).unwrap();
    batch.put(&pages, key(0), b"refused").unwrap();
    batch
}

/// The content after the process or the machine stopped now.
fn after_a_crash(world: &World, loss: &Loss) -> Contents {
    let journal = world.vfs.journal();
    let vfs = journal.crash_at(journal.len(), loss);
    let options = options(&vfs, world.options.default.clone());
    contents(&open(&options)).unwrap()
}

/// Commits the batch while the comparator panics, at one comparison after the other.
fn every_end(write: &WriteOptions) {
    let mut refused = 0;
    for comparison in 1.. {
        let world = world();
        let db = &world.db;
        db.sync_wal().unwrap();
        let snapshot = db.snapshot();
        let before = contents(db).unwrap();
        let batch = batch(db);
        world.comparisons_left.store(comparison, Memory::Relaxed);
        let outcome = catch_unwind(AssertUnwindSafe(|| db.write(batch, write)));
        world.comparisons_left.store(NEVER, Memory::Relaxed);
        if let Ok(committed) = outcome {
            committed.unwrap();
            break;
        }
        refused += 1;
        let at = format!("comparison {comparison}, {write:?}");
        assert!(contents(db).unwrap() == before, "{at}: at once");
        let stopped = db.put(b"x", b"x").unwrap_err();
        assert_eq!(stopped.kind(), ErrorKind::WritesStopped, "{at}");
        let reason = stopped.source().and_then(|e| e.downcast_ref::<Error>());
        let reason = reason.map(Error::kind);
        assert_eq!(reason, Some(ErrorKind::Internal), "{at}: {stopped}");
        let whole = contents_with_the_batch();
        for loss in [Loss::All, Loss::None] {
            let found = after_a_crash(&world, &loss);
            let logged = !write.disable_wal && found == whole;
            assert!(found == before || logged, "{at}: in half after a crash");
        }

        db.resume().unwrap();
        assert!(contents(db).unwrap() == before, "{at}: resumed");
        for loss in [Loss::All, Loss::None] {
            let found = after_a_crash(&world, &loss);
            assert!(found == before, "{at}: back after a crash");
        }
        // Takes the sequence numbers that the batch had.
        let pages = db.column_family("pages").unwrap();
        let mut expected = before.clone();
        for n in 90..99 {
            let mut next = WriteBatch::new();
            next.put(&**db, key(n), b"next").unwrap();
            next.put(&pages, key(n), b"next").unwrap();
            db.write(next, &WriteOptions::synced()).unwrap();
            for (_, rows) in &mut expected {
                rows.push((key(n), b"next".to_vec()));
            }
            assert!(contents(db).unwrap() == expected, "{at}: written again");
        }
        let past = ReadOptions {
            snapshot: Some(snapshot),
            ..ReadOptions::default()
        };
        assert_eq!(
            db.get_with(&key(1), &past).unwrap().unwrap(),
            value(2, 200),
            "{at}: a snapshot"
        );
        assert!(after_a_crash(&world, &Loss::All) == expected, "{at}: lost");
        drop(past);
        db.flush_all().unwrap();
        for family in db.column_families() {
            let whole = Default::default();
            family.compact_range(None, None, &whole).unwrap();
        }
        assert!(contents(db).unwrap() == expected, "{at}: compacted");
        db.close().unwrap();
        let db = open(&world.options);
        assert!(contents(&db).unwrap() == expected, "{at}: opened again");
    }
    // The commit ended in the first operation, in the last, and in between.
    assert!(refused > 10, "{refused}");
}

/// The content if nothing had panicked.
fn contents_with_the_batch() -> Contents {
    let world = world();
    let batch = batch(&world.db);
    world.db.write(batch, &WriteOptions::default()).unwrap();
    contents(&world.db).unwrap()
}

#[test]
fn nothing_of_a_logged_commit_is_visible_after_resuming() {
    every_end(&WriteOptions::synced());
}

#[test]
fn nothing_of_an_unlogged_commit_is_ever_visible() {
    every_end(&WriteOptions {
        disable_wal: true,
        ..WriteOptions::default()
    });
}
