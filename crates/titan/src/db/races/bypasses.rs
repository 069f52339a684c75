//! A thread whose write bypasses the WAL, since it puts a value from a reader or ingests a file, is
//! stopped between its steps. Meanwhile others read, write, take snapshots and make checkpoints, or
//! the process is killed: the write is there from one moment on, after everything that was written
//! before it.

use std::io::Read;

use super::ingestions::{FILE, make};
use super::store::{Contents, Store, abc, all, contents, now, numbers, write};
use crate::{ColumnFamily, IngestOptions};
use titan_testkit::gates::{Actor, Gates, race};

const LEN: u64 = 1 << 20;

/// A kind of such writes. It gives the key `a` a new value.
#[derive(Clone, Copy, Debug)]
enum Bypass {
    Value,
    File,
}

impl Bypass {
    /// Makes what it needs.
    fn prepare(self, store: &Store) {
        match self {
            Bypass::Value => {}
            Bypass::File => make(&store.options, &[("a", "file"), ("d", "file")]),
        }
    }

    fn write(self, family: &ColumnFamily) {
        match self {
            Bypass::Value => {
                let put = family.put_reader("a", std::io::repeat(b'x').take(LEN));
                assert_eq!(put.unwrap(), LEN);
            }
            Bypass::File => family.ingest(&[FILE], &IngestOptions::default()).unwrap(),
        }
    }

    fn start(self, store: &Store) -> Actor<()> {
        store.spawn("bypass", move |db| self.write(db))
    }

    /// The contents after it.
    fn with(self, mut before: Contents) -> Contents {
        before.extend(match self {
            Bypass::Value => contents([("a", &*"x".repeat(LEN as usize))]),
            Bypass::File => contents([("a", "file"), ("d", "file")]),
        });
        before
    }

    /// Gates before its thread leads the commit queue.
    fn gates_before_the_lead(self) -> [&'static str; 2] {
        match self {
            Bypass::Value => ["value: piece written", "value: to be installed"],
            Bypass::File => ["ingestion: file brought", "ingestion: files brought"],
        }
    }

    /// The last gate before its files are installed, and the first one after it.
    fn gates_of_the_installation(self) -> [&'static str; 2] {
        match self {
            Bypass::Value => ["value: table written", "value: installed"],
            Bypass::File => ["ingestion: to be installed", "ingestion: installed"],
        }
    }
}

/// Runs a test with each kind of writes.
fn races_of_each(test: fn(Bypass, &Gates)) {
    for kind in [Bypass::Value, Bypass::File] {
        race(move |gates| test(kind, gates));
    }
}

/// Runs a test with each kind of writes and each of its gates.
fn races_at(gates_of: fn(Bypass) -> Vec<&'static str>, test: fn(Bypass, &Gates, &'static str)) {
    for kind in [Bypass::Value, Bypass::File] {
        for gate in gates_of(kind) {
            race(move |gates| test(kind, gates, gate));
        }
    }
}

/// An old value of each key in a table, and newer ones in the memtable.
fn store(kind: Bypass, gates: &Gates) -> Store {
    let store = flushed(kind, gates);
    write(&store.db, &abc("1"));
    store
}

/// An old value of each key in a table, and nothing in the memtable.
fn flushed(kind: Bypass, gates: &Gates) -> Store {
    let store = Store::open(gates);
    write(&store.db, &abc("0"));
    store.db.flush().unwrap();
    kind.prepare(&store);
    store
}

#[test]
fn a_write_is_visible_from_its_publication_on_and_snapshots_before_it_stay() {
    let gates_of = |kind: Bypass| {
        let before = kind.gates_before_the_lead();
        let installation = kind.gates_of_the_installation();
        let published = ["bypass: to be published", "bypass: published"];
        [before, installation, published].concat()
    };
    races_at(gates_of, |kind, gates, gate| {
        let store = store(kind, gates);
        let stop = gates.stop_at(gate);
        let writing = kind.start(&store);
        stop.reached();
        let [_, installed] = kind.gates_of_the_installation();
        let is_published = gate == "bypass: published";
        let is_installed = gate == installed || gate.starts_with("bypass: ");
        let if_there = |is_there| match is_there {
            true => kind.with(abc("1")),
            false => abc("1"),
        };
        let expected = if_there(is_published);
        assert_eq!(now(&store.db), expected, "{gate}");
        let snapshot = store.db.snapshot();
        let found = if_there(is_installed);
        assert_eq!(store.after_a_kill(), all([("default", found)]), "{gate}");
        stop.open();
        writing.join();
        let seen = snapshot.get(&store.db, "a").unwrap().unwrap();
        assert_eq!(seen, expected["a"].as_bytes(), "{gate}");
        drop(snapshot);
        assert_eq!(now(&store.db), if_there(true), "{gate}");
        assert_eq!(store.finish(), all([("default", if_there(true))]));
    });
}

#[test]
fn writes_before_the_lead_are_older_and_those_after_it_newer() {
    let gates_of = |kind: Bypass| kind.gates_before_the_lead().to_vec();
    races_at(gates_of, |kind, gates, gate| {
        let store = store(kind, gates);
        let stop = gates.stop_at(gate);
        let writing = kind.start(&store);
        stop.reached();
        write(&store.db, &abc("2"));
        stop.open();
        writing.join();
        let mut expected = kind.with(abc("2"));
        assert_eq!(now(&store.db), expected, "{gate}");
        // Unlike an iterator, a lookup ends at the first source that has the key.
        let found = store.db.get("a").unwrap();
        assert_eq!(found.as_deref(), Some(expected["a"].as_bytes()), "{gate}");
        store.db.put("a", "3").unwrap();
        expected.insert("a".to_owned(), "3".to_owned());
        assert_eq!(store.finish(), all([("default", expected)]));
    });
}

#[test]
fn a_checkpoint_has_no_write_after_its_moment() {
    let gates_of = |_| vec!["checkpoint: barrier set", "checkpoint: flushed"];
    races_at(gates_of, |kind, gates, gate| {
        let store = store(kind, gates);
        store.create("f");
        let stop = gates.stop_at(gate);
        let checkpoint = store.spawn("checkpoint", |db| db.checkpoint("/copy"));
        stop.reached();
        let waits = gates.stop_at("families: checkpoint waited for");
        // After the moment, and before the write.
        store.db.put("b", "2").unwrap();
        // Nothing is in the memtable of this family, so the wait is that of the lead.
        let writing = store.spawn("bypass", move |db| {
            kind.write(&db.column_family("f").unwrap());
        });
        waits.reached();
        waits.open();
        stop.open();
        checkpoint.join().unwrap();
        writing.join();
        let copied = all([("default", abc("1")), ("f", Contents::new())]);
        assert_eq!(store.checkpoint_in("/copy"), copied, "{gate}");
        let expected = contents([("a", "1"), ("b", "2"), ("c", "1")]);
        let with_f = all([("default", expected), ("f", kind.with(Contents::new()))]);
        assert_eq!(store.finish(), with_f);
    });
}

#[test]
fn a_compaction_beside_the_installation_keeps_what_snapshots_before_the_write_see() {
    races_of_each(|kind, gates| {
        let store = flushed(kind, gates);
        // Until then no compaction takes an ingested file.
        let installed = gates.stop_at("bypass: to be published");
        let writing = kind.start(&store);
        installed.reached();
        let listed = gates.stop_at("compaction: snapshots listed");
        let compacting = store.spawn("compact", |db| db.compact_files(&numbers(db), 1));
        listed.reached();
        let snapshot = store.db.snapshot();
        installed.open();
        writing.join();
        listed.open();
        compacting.join().unwrap();
        let before = || snapshot.get(&store.db, "a").unwrap();
        assert_eq!(before().as_deref(), Some(&b"0"[..]), "{kind:?}");
        let all_keys = store.db.compact_range(None, None, &Default::default());
        all_keys.unwrap();
        assert_eq!(before().as_deref(), Some(&b"0"[..]), "{kind:?}");
        drop(snapshot);
        assert_eq!(store.finish(), all([("default", kind.with(abc("0")))]));
    });
}

#[test]
fn a_reader_that_sees_a_later_write_sees_the_one_before_it() {
    races_of_each(|kind, gates| {
        // The reader's memtable is empty.
        let store = flushed(kind, gates);
        let stop = gates.stop_at("read: sequence number to be chosen");
        let reading = store.spawn("read", |db| {
            let found = db.multi_get(&["a", "b"]).into_iter();
            found
                .map(|value| value.unwrap().unwrap())
                .collect::<Vec<_>>()
        });
        stop.reached();
        kind.write(&store.db);
        store.db.put("b", "1").unwrap();
        stop.open();
        let found = reading.join();
        let lacks_it = &*found[0] == b"0" && &*found[1] == b"1";
        assert!(!lacks_it, "{kind:?}: a later write without that before it");
        let mut expected = kind.with(abc("0"));
        expected.insert("b".to_owned(), "1".to_owned());
        assert_eq!(store.finish(), all([("default", expected)]));
    });
}
