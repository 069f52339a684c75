//! Notifications of listeners, and their order.

use std::sync::{Arc, Mutex};

use titan::{
    ColumnFamilyOptions, CompactionBeginEvent, CompactionEvent, EventListener, FlushBeginEvent,
    FlushEvent, GarbageCollectionBeginEvent, GarbageCollectionEvent, MemtableSealedEvent,
};
use titan_testkit::sim::{Fault, OpKind, SimVfs};

use crate::support::{key, manual, open, options, value};

#[derive(Default)]
struct Heard(Mutex<Vec<String>>);

impl Heard {
    fn note(&self, event: String) {
        self.0.lock().unwrap().push(event);
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl EventListener for Heard {
    fn memtable_sealed(&self, event: &MemtableSealedEvent) {
        let enough = event.bytes > 10 * event.entries;
        self.note(format!("sealed: {} entries, {enough}", event.entries));
    }

    fn flush_begun(&self, event: &FlushBeginEvent) {
        let (memtables, entries) = (event.memtables, event.entries);
        self.note(format!("flush of {memtables}: {entries} entries"));
    }

    fn flush_finished(&self, event: &FlushEvent) {
        self.note(format!("flushed to {}", event.table.is_some()));
    }

    fn compaction_begun(&self, event: &CompactionBeginEvent) {
        let (inputs, level) = (event.inputs.len(), event.output_level);
        let manual = event.is_manual;
        self.note(format!("compaction of {inputs} to {level}, {manual}"));
    }

    fn compaction_finished(&self, event: &CompactionEvent) {
        self.note(format!("compacted to {}", event.output_level));
    }

    fn garbage_collection_begun(&self, event: &GarbageCollectionBeginEvent) {
        let (inputs, manual) = (event.inputs.len(), event.is_manual);
        self.note(format!("collection of {inputs}, {manual}"));
    }

    fn garbage_collected(&self, event: &GarbageCollectionEvent) {
        self.note(format!("collected {}", event.inputs.len()));
    }
}

#[test]
fn jobs_are_announced_before_they_are_reported() {
    let vfs = SimVfs::new();
    let heard = Arc::new(Heard::default());
    let family = ColumnFamilyOptions {
        num_levels: 3,
        ..manual()
    };
    let mut options = options(&vfs, family);
    options.db.listeners = vec![heard.clone()];
    let db = open(&options);
    let fill = |keys: std::ops::Range<usize>| {
        for n in keys {
            db.put(&key(n), &value(n, 500)).unwrap();
        }
        db.flush().unwrap();
        db.wait_idle().unwrap();
    };
    fill(0..10);
    let flushed = [
        "sealed: 10 entries, true",
        "flush of 1: 10 entries",
        "flushed to true",
    ];
    assert_eq!(heard.take(), flushed);
    db.compact_range(None, None, &Default::default()).unwrap();
    assert_eq!(
        heard.take(),
        ["compaction of 1 to 2, true", "compacted to 2"]
    );
    fill(0..9);
    heard.take();
    db.compact_range(None, None, &Default::default()).unwrap();
    assert_eq!(
        heard.take(),
        ["compaction of 2 to 2, true", "compacted to 2"]
    );
    db.collect_garbage(None, None, &Default::default()).unwrap();
    let collected = heard.take();
    assert_eq!(collected, ["collection of 1, true", "collected 1"]);
    // Several memtables that wait go to one table.
    vfs.inject(Fault::on([OpKind::Create]).path("*.sst").times(1));
    db.put(&key(1), b"1").unwrap();
    assert!(db.flush().is_err());
    db.resume().unwrap();
    db.wait_idle().unwrap();
    let mut resumed = heard.take();
    // The thread that flushes may be faster than the one that has sealed.
    resumed[..2].sort();
    assert_eq!(
        resumed[..2],
        ["flush of 1: 1 entries", "sealed: 1 entries, true"]
    );
    assert_eq!(resumed[2], "flush of 1: 1 entries", "again");
    assert_eq!(resumed.last().map(String::as_str), Some("flushed to true"));
}
