//! A thread that ingests files, or deletes a range with its tables, is stopped between its steps.
//! Meanwhile others read, write, compact and make checkpoints, or the process is killed: all files
//! are there from one moment on, after everything that was written before it.

use super::store::{Contents, Store, abc, all, contents, now, write};
use crate::gates::control::{Gates, race};
use crate::{CompactRangeOptions, Db, IngestOptions, Options, SstFileWriter};

const FILE: &str = "/made.sst";

/// Makes a file.
fn make(options: &Options, changes: &[(&str, &str)]) {
    let mut file = SstFileWriter::create(FILE, options).unwrap();
    for (key, value) in changes {
        file.put(key, value).unwrap();
    }
    file.finish().unwrap();
}

fn ingest(db: &Db) {
    db.ingest(&[FILE], &IngestOptions::default()).unwrap();
}

/// An old value of each key in a table, newer ones in the memtable, and a file for one of them.
fn store(gates: &Gates) -> Store {
    let store = Store::open(gates);
    write(&store.db, &abc("0"));
    store.db.flush().unwrap();
    write(&store.db, &abc("1"));
    make(&store.options, &[("a", "file"), ("d", "file")]);
    store
}

fn with_file(mut before: Contents) -> Contents {
    before.extend(contents([("a", "file"), ("d", "file")]));
    before
}

#[test]
fn the_file_is_visible_from_its_publication_on_and_snapshots_before_it_stay() {
    for (gate, is_installed) in [
        ("ingestion: file brought", false),
        ("ingestion: files brought", false),
        ("ingestion: to be installed", false),
        ("ingestion: installed", true),
        ("bypass: published", true),
    ] {
        race(move |gates| {
            let store = store(gates);
            let stop = gates.stop_at(gate);
            let ingesting = store.spawn("ingest", ingest);
            stop.reached();
            let expected = match gate == "bypass: published" {
                true => with_file(abc("1")),
                false => abc("1"),
            };
            assert_eq!(now(&store.db), expected, "{gate}");
            let snapshot = store.db.snapshot();
            let killed = store.after_a_kill();
            let found = match is_installed {
                true => with_file(abc("1")),
                false => abc("1"),
            };
            assert_eq!(killed, all([("default", found)]), "{gate}");
            stop.open();
            ingesting.join();
            let seen = snapshot.get(&store.db, "a").unwrap().unwrap();
            assert_eq!(seen, expected["a"].as_bytes(), "{gate}");
            drop(snapshot);
            assert_eq!(now(&store.db), with_file(abc("1")), "{gate}");
            assert_eq!(store.finish(), all([("default", with_file(abc("1")))]));
        });
    }
}

#[test]
fn writes_before_the_lead_are_older_and_those_after_it_newer() {
    for gate in ["ingestion: file brought", "ingestion: files brought"] {
        race(move |gates| {
            let store = store(gates);
            let stop = gates.stop_at(gate);
            let ingesting = store.spawn("ingest", ingest);
            stop.reached();
            write(&store.db, &abc("2"));
            stop.open();
            ingesting.join();
            assert_eq!(now(&store.db), with_file(abc("2")), "{gate}");
            // Unlike an iterator, a lookup ends at the first source that has the key.
            let found = store.db.get("a").unwrap();
            assert_eq!(found.as_deref(), Some(&b"file"[..]), "{gate}");
            store.db.put("a", "3").unwrap();
            let mut expected = with_file(abc("2"));
            expected.insert("a".to_owned(), "3".to_owned());
            assert_eq!(store.finish(), all([("default", expected)]));
        });
    }
}

#[test]
fn a_checkpoint_has_no_file_that_is_ingested_after_its_moment() {
    for gate in ["checkpoint: barrier set", "checkpoint: flushed"] {
        race(move |gates| {
            let store = store(gates);
            store.create("f");
            let stop = gates.stop_at(gate);
            let checkpoint = store.spawn("checkpoint", |db| db.checkpoint("/copy"));
            stop.reached();
            let waits = gates.stop_at("families: checkpoint waited for");
            // After the moment, and before the file.
            store.db.put("b", "2").unwrap();
            let ingesting = store.spawn("ingest", |db| {
                let family = db.column_family("f").unwrap();
                family.ingest(&[FILE], &IngestOptions::default()).unwrap();
            });
            waits.reached();
            waits.open();
            stop.open();
            checkpoint.join().unwrap();
            ingesting.join();
            let copied = all([("default", abc("1")), ("f", Contents::new())]);
            assert_eq!(store.checkpoint_in("/copy"), copied, "{gate}");
            let found = store.finish();
            assert_eq!(found["f"], with_file(Contents::new()));
        });
    }
}

#[test]
fn a_reader_that_sees_a_later_write_sees_the_file() {
    race(|gates| {
        let store = Store::open(gates);
        write(&store.db, &abc("0"));
        // So that the reader's memtable is empty.
        store.db.flush().unwrap();
        make(&store.options, &[("a", "file")]);
        let stop = gates.stop_at("read: sequence number to be chosen");
        let reading = store.spawn("read", |db| {
            let found = db.multi_get(&["a", "b"]).into_iter();
            found
                .map(|value| value.unwrap().unwrap())
                .collect::<Vec<_>>()
        });
        stop.reached();
        ingest(&store.db);
        store.db.put("b", "1").unwrap();
        stop.open();
        let found = reading.join();
        let lacks_file = &*found[0] == b"0" && &*found[1] == b"1";
        assert!(!lacks_file, "a later write, without the file before it");
        let expected = contents([("a", "file"), ("b", "1"), ("c", "0")]);
        assert_eq!(store.finish(), all([("default", expected)]));
    });
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
    let tables = db.table_properties(None, None).unwrap();
    let numbers: Vec<_> = tables.iter().map(|table| table.file).collect();
    db.compact_files(&numbers, 6)
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
        let compacting = store.spawn("compact", |db| db.compact_files(&numbers(db), 6));
        waits.reached();
        stop.open();
        ingesting.join();
        waits.open();
        compacting.join().unwrap();
        assert_eq!(store.finish(), all([("default", in_gap())]));
    });
}

/// Those of level 0.
fn numbers(db: &Db) -> Vec<crate::FileNumber> {
    let tables = db.table_properties(None, None).unwrap();
    tables.iter().map(|table| table.file).collect()
}

#[test]
fn a_compaction_beside_the_installation_keeps_what_snapshots_before_the_file_see() {
    race(|gates| {
        let store = Store::open(gates);
        write(&store.db, &abc("0"));
        store.db.flush().unwrap();
        make(&store.options, &[("a", "file")]);
        let installed = gates.stop_at("ingestion: installed");
        let ingesting = store.spawn("ingest", ingest);
        installed.reached();
        let snapshot = store.db.snapshot();
        installed.open();
        ingesting.join();
        store
            .db
            .compact_range(None, None, &Default::default())
            .unwrap();
        let before = snapshot.get(&store.db, "a").unwrap();
        assert_eq!(before.as_deref(), Some(&b"0"[..]));
        drop(snapshot);
        let mut expected = abc("0");
        expected.insert("a".to_owned(), "file".to_owned());
        assert_eq!(store.finish(), all([("default", expected)]));
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
