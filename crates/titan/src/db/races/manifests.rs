//! A job that replaces the MANIFEST is stopped before and after CURRENT names the new one.
//! Meanwhile others read and write, other jobs want to install their edits, and the process is
//! killed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::store::{Store, abc, all, all_contents, assert_reads, compact, contents, write};
use crate::version::edit::VersionEdit;
use crate::{Db, ErrorKind, ReadOptions};
use titan_testkit::gates::{Actor, Gates, Stop, race};

const GATES: [&str; 2] = ["manifest: written", "manifest: current"];

/// More edits than one MANIFEST takes here.
const MAX_EDITS: u32 = 400;

fn store(gates: &Gates) -> Store {
    Store::open_with(gates, |options| options.db.max_manifest_file_size = 4096)
}

/// Makes edits on a thread, until one of them replaces the MANIFEST at `gate`. Returns also the
/// stop at the gate, and the number of edits that had been begun.
fn edit(
    store: &Store,
    gate: &'static str,
    one: impl Fn(&Db, u32) + Send + 'static,
) -> (Stop, Actor<()>, u32) {
    let stop = store.gates.stop_at(gate);
    let (begun, enough) = (
        Arc::new(AtomicU32::new(0)),
        Arc::new(AtomicBool::new(false)),
    );
    let (counted, ends) = (Arc::clone(&begun), Arc::clone(&enough));
    let editor = store.spawn("editor", move |db| {
        while !ends.load(Ordering::SeqCst) {
            let number = counted.fetch_add(1, Ordering::SeqCst) + 1;
            assert!(number <= MAX_EDITS, "no MANIFEST is replaced");
            one(db, number);
        }
    });
    stop.reached();
    enough.store(true, Ordering::SeqCst);
    let begun = begun.load(Ordering::SeqCst);
    (stop, editor, begun)
}

#[test]
fn what_is_written_and_installed_beside_a_new_manifest_is_not_lost() {
    for gate in GATES {
        race(move |gates| {
            let store = store(gates);
            let family = store.create("f");
            let other = store.create("g");
            for value in ["0", "1"] {
                write(&other, &abc(value));
                other.flush().unwrap();
            }
            // Stopped before they install anything.
            write(&family, &abc("1"));
            let flushed = gates.stop_at("flush: to be installed");
            let flush = store.spawn_with("flush", &family, |f| f.flush());
            flushed.reached();
            let compacted = gates.stop_at("compaction: written");
            let compaction = store.spawn_with("compaction", &other, compact);
            compacted.reached();

            let (stop, editor, edits) = edit(&store, gate, |db, number| {
                write(db, &contents([("a", &number.to_string())]));
                db.flush().unwrap();
            });
            // An edit that came now could be in neither MANIFEST.
            assert!(store.db.core.shared.versions.is_locked());
            write(&family, &contents([("b", "2")]));
            let in_default = contents([("a", &edits.to_string())]);
            let in_family = contents([("a", "1"), ("b", "2"), ("c", "1")]);
            assert_reads(&store.db, &ReadOptions::default(), &in_default);
            assert_reads(&family, &ReadOptions::default(), &in_family);
            let expected = all([("default", in_default), ("f", in_family), ("g", abc("1"))]);
            assert_eq!(store.after_a_kill(), expected, "{gate}");
            flushed.open();
            compacted.open();
            assert_eq!(store.after_a_kill(), expected, "{gate}");
            stop.open();
            editor.join();
            flush.join().unwrap();
            compaction.join().unwrap();
            assert_eq!(store.after_a_kill(), expected, "{gate}");
            drop((family, other));
            assert_eq!(store.finish(), expected);
        });
    }
}

/// The edits that replace it create and drop families.
#[test]
fn families_that_come_and_go_beside_a_new_manifest_are_not_lost() {
    for gate in GATES {
        race(move |gates| {
            let store = store(gates);
            write(&store.db, &abc("1"));
            let (stop, editor, _) = edit(&store, gate, |db, number| {
                let name = (number % 2).to_string();
                if let Some(family) = db.column_family(&name) {
                    db.drop_column_family(&family).unwrap();
                }
                let family = db.create_column_family(&name, db.options().clone());
                write(&family.unwrap(), &contents([("a", &number.to_string())]));
            });
            assert!(store.db.core.shared.versions.is_locked());
            // The edit for which the MANIFEST is replaced is in neither.
            assert_eq!(store.after_a_kill(), all_contents(&store.db), "{gate}");
            stop.open();
            editor.join();
            store.finish();
        });
    }
}

/// Two jobs meet the failure, and the second one reports it first. Its kind must be that of the
/// first, since users resume after some kinds only.
#[test]
fn a_failed_manifest_has_its_kind_whichever_job_reports_it() {
    race(|gates| {
        let store = Store::open(gates);
        write(&store.db, &abc("1"));
        store.vfs.fail_syncs(1);
        // Like a job that has not reported it yet.
        let edit = VersionEdit::default();
        let failed = store.db.core.shared.versions.lock().apply(vec![edit]);
        assert_eq!(failed.unwrap_err().kind(), ErrorKind::Io);
        store.db.flush().unwrap_err();
        let reason = store.db.background_error().unwrap();
        assert_eq!(reason.kind(), ErrorKind::Io, "{reason}");
        store.db.resume().unwrap();
        assert_eq!(store.finish(), all([("default", abc("1"))]));
    });
}
