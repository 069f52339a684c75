//! A thread that ingests files, or deletes a range with its tables, is stopped between its steps.
//! Meanwhile others write, compact and make checkpoints: no file is placed or dropped wrongly.
//! [`bypasses`](super::bypasses) has the races that values from readers have too.

use super::store::{Contents, Store, abc, all, contents, now, numbers, write};
use crate::{CompactRangeOptions, Db, IngestOptions, Options, SstFileWriter};
use titan_testkit::gates::{Gates, race};

pub(super) const FILE: &str = "/made.sst";

/// Makes a file.
pub(super) fn make(options: &Options, changes: &[(&str, &str)]) {
    let mut file = SstFileWriter::create(FILE, options).unwrap();
    for (key, value) in changes {
        file.put(key, value).unwrap();
    }
    file.finish().unwrap();
}

pub(super) fn ingest(db: &Db) {
    db.ingest(&[FILE], &IngestOptions::default()).unwrap();
}

/// Two tables of level 0 with a gap, in which the file lies, go to the last level together.
fn with_gap(gates: &Gates) -> Store {
    let store = Store::open(gates);
    for key in ["a", "z"] {
        store.db.put(key, "0").unwrap();
        store.db.flush().unwrap();
    }
    make(&store.options, &[("m", "file")]);
    store
}

fn compact_both(db: &Db) -> crate::Result<()> {
    db.compact_files(&numbers(db), 6)
}

fn in_gap() -> Contents {
    contents([("a", "0"), ("m", "file"), ("z", "0")])
}

#[test]
fn a_file_is_not_placed_where_a_running_compaction_writes() {
    for gate in ["compaction: snapshots listed", "compaction: written"] {
        race(move |gates| {
            let store = with_gap(gates);
            let stop = gates.stop_at(gate);
            let compacting = store.spawn("compact", compact_both);
            stop.reached();
            ingest(&store.db);
            stop.open();
            compacting.join().unwrap();
            assert_eq!(store.finish(), all([("default", in_gap())]));
        });
    }
}

#[test]
fn a_compaction_is_not_picked_while_a_file_is_installed() {
    race(|gates| {
        let store = with_gap(gates);
        let stop = gates.stop_at("install: edit made");
        let ingesting = store.spawn("ingest", ingest);
        stop.reached();
        let waits = gates.stop_at("compaction: ingestion waited for");
        let compacting = store.spawn("compact", compact_both);
        waits.reached();
        stop.open();
        ingesting.join();
        waits.open();
        compacting.join().unwrap();
        assert_eq!(store.finish(), all([("default", in_gap())]));
    });
}

/// The writer comes between the deletion of a range and the end of the tables in it. Its table may
/// be at the last level by then.
#[test]
fn a_table_that_was_written_after_the_deletion_of_its_range_stays() {
    race(|gates| {
        let store = Store::open(gates);
        write(&store.db, &abc("0"));
        store.db.flush().unwrap();
        let stop = gates.stop_at("file deletion: range deleted");
        let deleting = store.spawn("delete", |db| db.delete_files_in_range("a", "d").unwrap());
        stop.reached();
        store.db.put("b", "1").unwrap();
        let all = crate::CompactRangeOptions::default();
        store.db.compact_range(None, None, &all).unwrap();
        stop.open();
        assert_eq!(deleting.join().tables, 0);
        assert_eq!(now(&store.db), contents([("b", "1")]));
        assert_eq!(store.finish(), all_of(contents([("b", "1")])));
    });
}

#[test]
fn a_snapshot_that_is_taken_before_the_deletion_keeps_the_tables() {
    race(|gates| {
        let store = Store::open(gates);
        write(&store.db, &abc("0"));
        store.db.flush().unwrap();
        let snapshot = store.db.snapshot();
        let deleted = store.db.delete_files_in_range("a", "d").unwrap();
        assert_eq!(deleted.tables, 0);
        let seen = snapshot.get(&store.db, "b").unwrap();
        assert!(seen.unwrap().starts_with(b"0"));
        drop(snapshot);
        let deleted = store.db.delete_files_in_range("a", "d").unwrap();
        assert!(deleted.tables > 0);
        assert_eq!(store.finish(), all_of(Contents::new()));
    });
}

/// A checkpoint before the deletion has the range, although the tables go before it has their
/// names.
#[test]
fn a_checkpoint_before_the_deletion_of_a_range_has_its_keys() {
    for gate in [
        "checkpoint: barrier set",
        "checkpoint: flushed",
        "checkpoint: captured",
    ] {
        race(move |gates| {
            let store = Store::open(gates);
            write(&store.db, &abc("0"));
            store.db.flush().unwrap();
            let stop = gates.stop_at(gate);
            let checkpoint = store.spawn("checkpoint", |db| db.checkpoint("/copy"));
            stop.reached();
            let deleting = store.spawn("delete", |db| db.delete_files_in_range("a", "d").unwrap());
            while !now(&store.db).is_empty() {
                std::thread::yield_now();
            }
            stop.open();
            checkpoint.join().unwrap();
            deleting.join();
            assert_eq!(store.checkpoint_in("/copy"), all_of(abc("0")), "{gate}");
            assert_eq!(store.finish(), all_of(Contents::new()));
        });
    }
}

fn all_of(contents: Contents) -> super::store::AllContents {
    all([("default", contents)])
}

/// The second file is above the last level, which the compaction saw as the only one.
#[test]
fn a_manual_compaction_does_not_pass_files_that_are_ingested_meanwhile() {
    race(|gates| {
        let small = |options: &mut Options| options.default.max_bytes_for_level_base = 1024;
        let store = Store::open_with(gates, small);
        let stop = gates.stop_at("manual compaction: last level chosen");
        let compacting = store.spawn("compact", |db| {
            db.compact_range(None, None, &CompactRangeOptions::default())
        });
        stop.reached();
        for value in ["first", "second"] {
            make(&store.options, &[("a", value), ("d", value)]);
            ingest(&store.db);
        }
        let levels = store.db.metrics().families.remove(0).levels;
        assert_eq!(levels.iter().filter(|level| level.files > 0).count(), 2);
        store.db.put("a", "third").unwrap();
        store.db.flush().unwrap();
        stop.open();
        compacting.join().unwrap();
        let found = store.db.get("a").unwrap();
        assert_eq!(found.as_deref(), Some(&b"third"[..]));
        let expected = contents([("a", "third"), ("d", "second")]);
        assert_eq!(store.finish(), all([("default", expected)]));
    });
}
