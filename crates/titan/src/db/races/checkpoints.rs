//! A checkpoint is stopped between its steps. Meanwhile its source is written to, compacted,
//! collected and purged, families come and go, the MANIFEST is replaced, or the database is closed.
//! The checkpoint is the database of one moment, and that does not change.

use super::store::{
    AllContents, Contents, Store, abc, all, collect, compact, contents, ended_by_closing, write,
};
use crate::vfs::Vfs;
use titan_testkit::gates::{Gates, race};

/// The gates of a checkpoint after its moment. At the first two, newer memtables are not flushed
/// and families do not change.
const GATES: [&str; 4] = [
    "checkpoint: barrier set",
    "checkpoint: flushed",
    "checkpoint: captured",
    "checkpoint: file linked",
];

/// Two families with tables and blob files, some of them garbage, and memtables.
fn store(gates: &Gates) -> (Store, AllContents) {
    let store = Store::open_with(gates, |options| options.db.max_manifest_file_size = 4096);
    let family = store.create("f");
    for family in [&*store.db, &family] {
        write(family, &abc("0"));
        family.flush().unwrap();
        write(family, &contents([("a", "1"), ("b", "1")]));
        family.flush().unwrap();
    }
    write(&family, &contents([("a", "2")]));
    let in_default = contents([("a", "1"), ("b", "1"), ("c", "0")]);
    let in_family = contents([("a", "2"), ("b", "1"), ("c", "0")]);
    (store, all([("default", in_default), ("f", in_family)]))
}

/// Stops a checkpoint at each of `gates` while `happen` does something; compares the checkpoint
/// with its moment, and checks the database at the end.
fn checkpoint_across(at: &[&'static str], happen: fn(&Store)) {
    for &gate in at {
        race(move |gates| {
            let (store, before) = store(gates);
            let stop = gates.stop_at(gate);
            let checkpoint = store.spawn("checkpoint", |db| db.checkpoint("/copy"));
            stop.reached();
            happen(&store);
            stop.open();
            checkpoint.join().unwrap();
            assert_eq!(store.checkpoint_in("/copy"), before, "{gate}");
            store.finish();
        });
    }
}

fn overwrite(store: &Store) {
    let family = store.db.column_family("f").unwrap();
    write(&store.db, &abc("3"));
    write(&family, &abc("3"));
}

#[test]
fn it_has_nothing_that_is_written_meanwhile() {
    checkpoint_across(&GATES, overwrite);
}

/// Everything that it links is replaced and would be deleted.
#[test]
fn its_files_stay_until_they_are_linked() {
    checkpoint_across(&GATES[2..], |store| {
        overwrite(store);
        for family in store.db.column_families() {
            compact(&family).unwrap();
            collect(&family).unwrap();
        }
    });
    checkpoint_across(&GATES[2..], |store| {
        for family in store.db.column_families() {
            collect(&family).unwrap();
        }
    });
}

#[test]
fn its_files_stay_if_their_family_is_dropped_before_they_are_linked() {
    checkpoint_across(&GATES[2..], |store| {
        let family = store.db.column_family("f").unwrap();
        store.db.drop_column_family(&family).unwrap();
        drop(family);
        let again = store.create("f");
        write(&again, &abc("4"));
        again.flush().unwrap();
    });
}

#[test]
fn the_manifest_may_be_replaced_before_they_are_linked() {
    checkpoint_across(&GATES[2..], |store| {
        let started = || store.db.core.shared.versions.lock().manifest_number();
        let before = started();
        while started() == before {
            write(&store.db, &abc("5"));
            store.db.flush().unwrap();
        }
    });
}

/// A flush that is asked for meanwhile waits; it would bring newer entries into one family's table.
#[test]
fn newer_memtables_are_not_flushed_before_it_has_the_versions() {
    for gate in &GATES[..2] {
        race(move |gates| {
            let (store, before) = store(gates);
            let stop = gates.stop_at(gate);
            let checkpoint = store.spawn("checkpoint", |db| db.checkpoint("/copy"));
            stop.reached();
            overwrite(&store);
            let flush = store.spawn("flush", |db| db.flush());
            let barrier = store.db.core.shared.state.lock().flush_barrier.is_some();
            let flush = match barrier {
                // It waits for the checkpoint.
                true => Some(flush),
                false => {
                    flush.join().unwrap();
                    None
                }
            };
            stop.open();
            checkpoint.join().unwrap();
            assert_eq!(store.checkpoint_in("/copy"), before, "{gate}");
            if let Some(flush) = flush {
                flush.join().unwrap();
            }
            let after = store.finish();
            assert_eq!(after, all([("default", abc("3")), ("f", abc("3"))]));
        });
    }
}

/// It is whole, or there is nothing.
#[test]
fn closing_ends_it() {
    for gate in GATES {
        race(move |gates| {
            let (store, before) = store(gates);
            let stop = gates.stop_at(gate);
            let checkpoint = store.spawn("checkpoint", |db| db.checkpoint("/copy"));
            stop.reached();
            let close = store.spawn("close", |db| db.close());
            gates.first_of(&["close: threads to be waited for"]);
            stop.open();
            close.join().unwrap();
            let result = checkpoint.join();
            assert!(ended_by_closing(&result), "{gate}: {result:?}");
            let exists = store.vfs.exists("/copy".as_ref()).unwrap();
            assert_eq!(exists, result.is_ok());
            assert!(!store.vfs.exists("/copy.tmp".as_ref()).unwrap());
            if exists {
                assert_eq!(store.checkpoint_in("/copy"), before);
            }
            store.finish_closed(&before);
        });
    }
}

/// Creating and dropping a family waits until the versions are captured: writes before the change
/// are not in the checkpoint, so the change must not be there either.
#[test]
fn families_are_created_and_dropped_before_its_moment_or_after_its_capture() {
    for gate in &GATES[..2] {
        for is_drop in [false, true] {
            race(move |gates| {
                let (store, before) = store(gates);
                let stop = gates.stop_at(gate);
                let checkpoint = store.spawn("checkpoint", |db| db.checkpoint("/copy"));
                stop.reached();
                write(&store.db, &abc("3"));
                let change = store.spawn("change", move |db| match is_drop {
                    true => db.drop_column_family(&db.column_family("f").unwrap()),
                    false => db.create_column_family("g", db.options().clone()).map(drop),
                });
                let ends = match is_drop {
                    true => "drop: family emptied",
                    false => "create: edit durable",
                };
                let next = gates.first_of(&["families: checkpoint waited for", ends]);
                let change = match next == ends {
                    true => {
                        change.join().unwrap();
                        None
                    }
                    false => Some(change),
                };
                stop.open();
                checkpoint.join().unwrap();
                assert_eq!(store.checkpoint_in("/copy"), before, "{gate}");
                if let Some(change) = change {
                    change.join().unwrap();
                }
                let mut expected = before;
                expected.insert("default".to_owned(), abc("3"));
                match is_drop {
                    true => drop(expected.remove("f")),
                    false => drop(expected.insert("g".to_owned(), Contents::new())),
                }
                assert_eq!(store.finish(), expected);
            });
        }
    }
}
