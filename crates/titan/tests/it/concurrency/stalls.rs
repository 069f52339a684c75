//! Writes are delayed and stopped if flushes and compactions do not keep up.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;
use titan::{
    ColumnFamilyId, ColumnFamilyOptions, Db, ErrorKind, EventListener, Result, StallCause,
    StallEvent, WriteBatch, WriteOptions,
};
use titan_testkit::sim::{OpKind, SimVfs};

use super::{Gate, busy, is_of_table};
use crate::support::{eventually, key, open, options, value};

#[derive(Default)]
struct Stalls(Mutex<Vec<StallEvent>>);

impl EventListener for Stalls {
    fn stall_changed(&self, _: ColumnFamilyId, event: StallEvent) {
        self.0.lock().push(event);
    }
}

/// Writes, if that needs no waiting.
fn put_at_once(db: &Db, key: &[u8], value: &[u8]) -> Result<()> {
    let mut batch = WriteBatch::new();
    batch.put(db, key, value)?;
    let options = WriteOptions {
        no_slowdown: true,
        ..WriteOptions::default()
    };
    let as_before = batch.clone();
    let written = db.write(&mut batch, &options);
    match written.is_ok() {
        true => assert!(batch.is_empty()),
        false => assert_eq!(batch, as_before, "to be tried again"),
    }
    written
}

#[test]
fn writes_wait_while_memtables_wait_for_their_flush() {
    let vfs = SimVfs::new();
    let stalls = Arc::new(Stalls::default());
    let mut options = options(
        &vfs,
        ColumnFamilyOptions {
            max_write_buffer_number: 2,
            ..busy()
        },
    );
    options.db.listeners.push(stalls.clone());
    let db = open(&options);
    let gate = Gate::shut_at(&vfs, |c| c.kind == OpKind::Create && is_of_table(c));
    let put = |i: usize| put_at_once(&db, &key(i), &value(i, 1000));
    let mut written = 0;
    let refused = loop {
        match put(written) {
            Ok(()) => written += 1,
            Err(e) => break e,
        }
        assert!(written < 1000, "memtables grow without limit");
    };
    assert_eq!(refused.kind(), ErrorKind::Busy, "{refused}");
    assert!(refused.to_string().contains("memtables"), "{refused}");
    assert_eq!(
        *stalls.0.lock(),
        [StallEvent::Stopped(StallCause::Memtables)]
    );
    assert_eq!(
        db.metrics().families[0].stall,
        StallEvent::Stopped(StallCause::Memtables)
    );
    assert_eq!(
        db.property("rocksdb.is-write-stopped").as_deref(),
        Some("1")
    );
    assert_eq!(
        db.get(&key(0)).unwrap().unwrap(),
        value(0, 1000),
        "reads go on"
    );
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| db.put(b"patient", b"1"));
        assert_eq!(db.get(b"patient").unwrap(), None);
        gate.open();
        waits.join().unwrap().unwrap();
    });
    eventually("the end of the stall", || {
        stalls.0.lock().last() == Some(&StallEvent::Normal)
    });
    put(written).unwrap();
    assert!(db.contains_key(b"patient").unwrap());
    for i in 0..=written {
        assert_eq!(db.get(&key(i)).unwrap().unwrap(), value(i, 1000));
    }
}

#[test]
fn writes_slow_down_and_stop_with_the_files_of_level_0() {
    let vfs = SimVfs::new();
    let stalls = Arc::new(Stalls::default());
    let mut options = options(
        &vfs,
        ColumnFamilyOptions {
            level0_file_num_compaction_trigger: 2,
            level0_slowdown_writes_trigger: 3,
            level0_stop_writes_trigger: 4,
            enable_blob_files: false,
            ..ColumnFamilyOptions::default()
        },
    );
    options.db.listeners.push(stalls.clone());
    let db = open(&options);
    // Flushes may pass; the first compaction, which reads their tables, may not.
    let gate = Gate::shut_at(&vfs, |c| c.kind == OpKind::Open && is_of_table(c));
    let fill = |i: usize| {
        db.put(&key(0), &value(i, 50)).unwrap();
        db.put(&key(i), &value(i, 50)).unwrap();
        db.flush().unwrap();
    };
    fill(1);
    fill(2);
    eventually("a compaction", || gate.waiting.load(Ordering::SeqCst) > 0);
    fill(3);
    fill(4);
    let delayed = StallEvent::Delayed(StallCause::Level0Files);
    let stopped = StallEvent::Stopped(StallCause::Level0Files);
    eventually("the stall", || *stalls.0.lock() == [delayed, stopped]);
    let refused = put_at_once(&db, b"k", b"v").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Busy, "{refused}");
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| db.put(b"patient", b"1"));
        gate.open();
        waits.join().unwrap().unwrap();
    });
    db.wait_idle().unwrap();
    assert_eq!(stalls.0.lock().last(), Some(&StallEvent::Normal));
    assert_eq!(db.get(&key(0)).unwrap().unwrap(), value(4, 50));
    assert!(db.statistics().stall_micros() > 0);
}
