//! Families whose writes are stalled for one cause or several, and that are dropped meanwhile: the
//! notifications of listeners, and the metrics.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::Scope;

use parking_lot::Mutex;
use titan::{
    ColumnFamily, ColumnFamilyId, ColumnFamilyOptions, Db, ErrorKind, EventListener, Result,
    StallCause, StallEvent, WriteBatch, WriteOptions,
};
use titan_testkit::sim::{Call, OpKind, SimVfs};

use super::{Gate, is_of_table};
use crate::support::{eventually, key, manual, open, options, value};

const NORMAL: StallEvent = StallEvent::Normal;
const MANY_TABLES: StallEvent = StallEvent::Delayed(StallCause::Level0Files);
const MEMTABLES: StallEvent = StallEvent::Stopped(StallCause::Memtables);

/// Every change that listeners were notified of, in order.
#[derive(Default)]
struct Changes(Mutex<Vec<(ColumnFamilyId, StallEvent)>>);

impl EventListener for Changes {
    fn stall_changed(&self, family: ColumnFamilyId, event: StallEvent) {
        self.0.lock().push((family, event));
    }
}

impl Changes {
    fn all(&self) -> Vec<(ColumnFamilyId, StallEvent)> {
        self.0.lock().clone()
    }
}

/// A gate that opens when a test ends, also by a failure: closing the database waits for the jobs
/// that wait there.
struct OpensAtLast(Arc<Gate>);

impl Deref for OpensAtLast {
    type Target = Gate;

    fn deref(&self) -> &Gate {
        &self.0
    }
}

impl Drop for OpensAtLast {
    fn drop(&mut self) {
        self.open();
    }
}

fn shut_at(vfs: &SimVfs, meets: fn(&Call<'_>) -> bool) -> OpensAtLast {
    OpensAtLast(Gate::shut_at(vfs, meets))
}

/// Writes are delayed from three tables at level 0 on. No memtable is full by itself.
fn stallable() -> ColumnFamilyOptions {
    ColumnFamilyOptions {
        level0_file_num_compaction_trigger: 2,
        level0_slowdown_writes_trigger: 3,
        level0_stop_writes_trigger: 100,
        max_write_buffer_number: 2,
        enable_blob_files: false,
        ..ColumnFamilyOptions::default()
    }
}

/// A database whose default family collects nothing, so that it is never delayed for space, and the
/// notifications of its listener. There are threads enough for a job of each of some families.
fn database(vfs: &SimVfs) -> (Db, Arc<Changes>) {
    let changes = Arc::new(Changes::default());
    let mut options = options(vfs, manual());
    options.db.max_background_jobs = 6;
    options.db.listeners.push(changes.clone());
    (open(&options), changes)
}

/// The same with two families that can be stalled.
fn two_families(vfs: &SimVfs) -> (Db, [ColumnFamily; 2], Arc<Changes>) {
    let (db, changes) = database(vfs);
    let families = ["first", "second"].map(|name| {
        let created = db.create_column_family(name, stallable());
        created.unwrap()
    });
    (db, families, changes)
}

/// Writes to the default family, if that needs no waiting.
fn at_once(db: &Db, batch: WriteBatch) -> Result<()> {
    let options = WriteOptions {
        no_slowdown: true,
        ..WriteOptions::default()
    };
    db.write(batch, &options)
}

fn put_at_once(db: &Db) -> Result<()> {
    let mut batch = WriteBatch::new();
    batch.put(&**db, key(0), value(0, 100))?;
    at_once(db, batch)
}

/// Takes no space, so it need not wait for space.
fn delete_at_once(db: &Db) -> Result<()> {
    let mut batch = WriteBatch::new();
    batch.delete(&**db, key(0))?;
    at_once(db, batch)
}

/// Why a write would have to wait.
#[track_caller]
fn refused_for(db: &Db) -> String {
    let refused = put_at_once(db).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Busy, "{refused}");
    refused.to_string()
}

fn is_created_table(call: &Call<'_>) -> bool {
    call.kind == OpKind::Create && is_of_table(call)
}

/// Compactions read tables that flushes have written.
fn is_read_table(call: &Call<'_>) -> bool {
    call.kind == OpKind::Open && is_of_table(call)
}

/// Flushes overlapping tables until writes are delayed, while a gate keeps compactions from them.
fn delay(family: &ColumnFamily) {
    for n in 0..3 {
        family.put(&key(0), &value(n, 100)).unwrap();
        family.put(&key(1), &value(n, 100)).unwrap();
        family.flush().unwrap();
    }
    assert_eq!(family.metrics().stall, MANY_TABLES);
}

/// Flushes two memtables, which stops writes while a gate keeps flushes from writing. No write
/// waits: it would lead the commit queue, where dropping a family has to wait for it.
fn stop<'s>(scope: &'s Scope<'s, '_>, family: &'s ColumnFamily) {
    for n in 1..=2 {
        family.put(&key(n), &value(n, 100)).unwrap();
        // It fails if the family is dropped.
        scope.spawn(move || drop(family.flush()));
        eventually("a full memtable", || {
            family.metrics().immutable_memtables == n
        });
    }
    eventually("the stall", || family.metrics().stall == MEMTABLES);
}

#[test]
fn the_stall_of_a_dropped_family_ends_for_listeners() {
    for stall in [MANY_TABLES, MEMTABLES] {
        let vfs = SimVfs::new();
        let (db, [family, _], changes) = two_families(&vfs);
        std::thread::scope(|scope| {
            let gate = match stall == MEMTABLES {
                true => shut_at(&vfs, is_created_table),
                false => shut_at(&vfs, is_read_table),
            };
            match stall == MEMTABLES {
                true => stop(scope, &family),
                false => delay(&family),
            }
            eventually("a job", || gate.waiting.load(Ordering::SeqCst) > 0);
            eventually("the change", || !changes.all().is_empty());
            db.drop_column_family(&family).unwrap();
            // Before the call returned, and regardless of the job's further steps.
            assert_eq!(changes.all(), [(family.id(), stall), (family.id(), NORMAL)]);
            put_at_once(&db).unwrap();
            gate.open();
        });
        db.wait_idle().unwrap();
        assert_eq!(changes.all(), [(family.id(), stall), (family.id(), NORMAL)]);
        db.close().unwrap();
    }
}

#[test]
fn of_two_causes_in_one_family_the_stronger_counts_and_then_the_other_again() {
    let vfs = SimVfs::new();
    let (db, [family, _], changes) = two_families(&vfs);
    std::thread::scope(|scope| {
        let compactions = shut_at(&vfs, is_read_table);
        delay(&family);
        eventually("a compaction", || {
            compactions.waiting.load(Ordering::SeqCst) > 0
        });
        assert!(refused_for(&db).contains("level 0"));
        let flushes = shut_at(&vfs, is_created_table);
        stop(scope, &family);
        assert!(refused_for(&db).contains("memtables"));
        assert_eq!(
            db.property("rocksdb.is-write-stopped").as_deref(),
            Some("0"),
            "of another family"
        );
        let stopped = family.property("rocksdb.is-write-stopped");
        assert_eq!(stopped.as_deref(), Some("1"));
        flushes.open();
        // Both: one after the first compaction would delay writes once more.
        eventually("the flushes", || {
            let metrics = family.metrics();
            metrics.immutable_memtables == 0 && metrics.stall == MANY_TABLES
        });
        assert!(refused_for(&db).contains("level 0"));
        compactions.open();
    });
    db.wait_idle().unwrap();
    put_at_once(&db).unwrap();
    let expected = [MANY_TABLES, MEMTABLES, MANY_TABLES, NORMAL];
    assert_eq!(changes.all(), expected.map(|event| (family.id(), event)));
    assert_eq!(family.get(&key(2)).unwrap().unwrap(), value(2, 100));
    db.close().unwrap();
}

/// The stronger stall is that of the family that comes first, or of the one that comes last; it
/// ends because its cause does, or because the family is dropped.
#[test]
fn of_two_families_the_stronger_stall_counts_and_each_has_its_own() {
    for (stronger, dropped) in [(0, false), (1, false), (0, true), (1, true)] {
        let what = format!("family {stronger} is stopped, dropped: {dropped}");
        let vfs = SimVfs::new();
        let (db, families, changes) = two_families(&vfs);
        let (stopped, delayed) = (&families[stronger], &families[1 - stronger]);
        std::thread::scope(|scope| {
            let compactions = shut_at(&vfs, is_read_table);
            delay(delayed);
            eventually("a compaction", || {
                compactions.waiting.load(Ordering::SeqCst) > 0
            });
            let flushes = shut_at(&vfs, is_created_table);
            stop(scope, stopped);
            // Writes to all families wait for the one.
            assert!(refused_for(&db).contains("memtables"), "{what}");
            assert_eq!(delayed.metrics().stall, MANY_TABLES, "{what}");
            assert_eq!(stopped.metrics().stall, MEMTABLES, "{what}");
            assert_eq!(db.metrics().families[0].stall, NORMAL, "{what}");
            match dropped {
                true => db.drop_column_family(stopped).unwrap(),
                false => flushes.open(),
            }
            let is_over = || changes.all().last() == Some(&(stopped.id(), NORMAL));
            eventually("the end of the stronger one", is_over);
            assert!(refused_for(&db).contains("level 0"), "{what}");
            flushes.open();
            compactions.open();
        });
        db.wait_idle().unwrap();
        put_at_once(&db).unwrap();
        let expected = [
            (delayed.id(), MANY_TABLES),
            (stopped.id(), MEMTABLES),
            (stopped.id(), NORMAL),
            (delayed.id(), NORMAL),
        ];
        assert_eq!(changes.all(), expected, "{what}");
        db.close().unwrap();
    }
}

#[test]
fn bytes_to_compact_count_before_space_and_space_counts_again_after_them() {
    let vfs = SimVfs::new();
    let collecting = ColumnFamilyOptions {
        level0_file_num_compaction_trigger: 2,
        soft_pending_compaction_bytes_limit: 1 << 20,
        enable_blob_garbage_collection: true,
        blob_file_size: 256 << 20,
        min_blob_size: 1 << 20,
        ..ColumnFamilyOptions::default()
    };
    let (db, changes) = database(&vfs);
    let family = db.create_column_family("collecting", collecting).unwrap();
    // Most of each blob file becomes garbage: more than a half of the bytes that small databases
    // may have beyond their live data.
    let collections = shut_at(&vfs, |c| {
        c.kind == OpKind::Create && c.path.extension().is_some_and(|e| e == "blobmap")
    });
    let large = vec![7; 1 << 20];
    for value in [&large[..], b"small"] {
        for n in (0..40).filter(|n| value == large || n % 4 > 0) {
            family.put(&key(n), value).unwrap();
        }
        family.flush().unwrap();
        let all = Default::default();
        family.compact_range(None, None, &all).unwrap();
    }
    let space = StallEvent::Delayed(StallCause::SpaceAmplification);
    eventually("the stall for space", || family.metrics().stall == space);
    eventually("a collection", || {
        collections.waiting.load(Ordering::SeqCst) > 0
    });
    assert!(refused_for(&db).contains("garbage"));
    delete_at_once(&db).unwrap();

    // Two flushes may write, and the compaction that is due after them may not.
    let compactions = OpensAtLast(Arc::default());
    compactions.shut();
    vfs.set_hook({
        let (gate, created) = (Arc::clone(&compactions.0), AtomicU64::new(0));
        move |call| {
            if is_created_table(call) && created.fetch_add(1, Ordering::SeqCst) >= 2 {
                gate.pass();
            }
        }
    });
    let bytes = StallEvent::Delayed(StallCause::PendingCompactionBytes);
    for n in 0..2 {
        for k in 0..12 {
            let value = value(100 * n + k, 100 << 10);
            family.put(&key(50 + k), &value).unwrap();
        }
        family.flush().unwrap();
    }
    eventually("a compaction", || {
        compactions.waiting.load(Ordering::SeqCst) > 0
    });
    eventually("the other stall", || family.metrics().stall == bytes);
    assert!(refused_for(&db).contains("compaction"));
    delete_at_once(&db).unwrap_err();
    compactions.open();
    eventually("the compaction", || family.metrics().stall == space);
    assert!(refused_for(&db).contains("garbage"));
    delete_at_once(&db).unwrap();
    collections.open();
    db.wait_idle().unwrap();
    let expected = [space, bytes, space, NORMAL];
    assert_eq!(changes.all(), expected.map(|event| (family.id(), event)));
    assert_eq!(family.get(&key(0)).unwrap().unwrap(), large);
    db.close().unwrap();
}
