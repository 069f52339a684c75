//! A collection is stopped between listing the live records and installing their relocation.
//! Meanwhile the family is dropped and created again, records become garbage, a checkpoint is made,
//! the database is closed or killed.

use super::jobs::{LOCKED, RacedJob};
use super::store::{
    Contents, DIR, Store, abc, all, assert_reads, at, compact, contents, scan, shown, write,
};
use crate::{CollectGarbageOptions, ColumnFamily, Db, ReadOptions, Result};
use titan_testkit::gates::{Gates, race};

/// The gates of a collection at which it has no lock, in their order.
const UNLOCKED: [&str; 2] = ["collection: live records listed", "collection: written"];

const COLLECTION: RacedJob = RacedJob {
    name: "collection",
    unlocked: UNLOCKED,
    with_family,
    run: collect,
};

fn before() -> Contents {
    contents([("a", "2"), ("b", "2"), ("c", "0")])
}

/// A family whose first blob file is garbage but for the value of `c`.
fn with_family(gates: &Gates) -> (Store, ColumnFamily) {
    let store = Store::open(gates);
    let family = store.create("f");
    write(&family, &abc("0"));
    family.flush().unwrap();
    write(&family, &contents([("a", "2"), ("b", "2")]));
    compact(&family).unwrap();
    (store, family)
}

/// Collects the garbage that is known.
fn collect(family: &ColumnFamily) -> Result<()> {
    let options = CollectGarbageOptions {
        compact: false,
        ..CollectGarbageOptions::default()
    };
    family.collect_garbage(None, None, &options).map(drop)
}

#[test]
fn the_family_may_be_dropped_and_created_again_before_the_relocation_is_installed() {
    COLLECTION.may_lose_its_family_before_it_installs();
}

#[test]
fn the_family_may_be_dropped_while_the_relocation_is_installed() {
    COLLECTION.may_lose_its_family_while_it_installs();
}

#[test]
fn readers_and_a_killed_process_lose_nothing_at_any_step() {
    COLLECTION.loses_nothing_at_any_step(before);
}

#[test]
fn closing_waits_for_a_collection_on_the_thread_of_a_user() {
    COLLECTION.is_waited_for_by_closing(before);
}

/// Records that were live when they were listed are garbage when they are installed: a part of
/// them, or all, so that their logical file is no longer in the version. A snapshot, an iterator
/// and a lazy value of that moment still read them.
#[test]
fn what_becomes_garbage_meanwhile_stays_readable_where_it_was_taken() {
    for gate in UNLOCKED {
        for overwritten in [&["c"][..], &["b"][..], &["a", "b", "c"][..]] {
            race(move |gates| {
                let (store, family) = with_family(gates);
                let stop = gates.stop_at(gate);
                let collection = store.spawn_with("collection", &family, collect);
                stop.reached();
                let snapshot = store.db.snapshot();
                let mut iter = family.iter(&ReadOptions::default()).unwrap();
                let lazy = |key: &str| {
                    let value = family.get_lazy(key.as_bytes());
                    (key.to_owned(), value.unwrap().unwrap())
                };
                let values = ["a", "b", "c"].map(lazy);
                let mut after = before();
                for key in overwritten {
                    write(&family, &contents([(key, "3")]));
                    after.insert((*key).to_owned(), "3".to_owned());
                }
                compact(&family).unwrap();
                stop.open();
                collection.join().unwrap();
                assert_reads(&family, &ReadOptions::default(), &after);
                let read = |(key, value): &(String, crate::LazyValue)| {
                    (key.clone(), shown(&value.fetch().unwrap()))
                };
                assert_eq!(values.iter().map(read).collect::<Contents>(), before());
                assert_eq!(scan(&mut iter).unwrap(), before());
                drop((iter, values));
                assert_reads(&family, &at(&snapshot), &before());
                drop(snapshot);
                compact(&family).unwrap();
                collect(&family).unwrap();
                assert_reads(&family, &ReadOptions::default(), &after);
                drop(family);
                let expected = all([("default", Contents::new()), ("f", after)]);
                assert_eq!(store.finish(), expected);
            });
        }
    }
}

/// The checkpoint has captured the files that the collection is about to replace, or begins to
/// while they are being replaced.
#[test]
fn a_checkpoint_has_the_values_wherever_it_found_them() {
    for gate in UNLOCKED.into_iter().chain([LOCKED[0], LOCKED[1]]) {
        race(move |gates| {
            let (store, family) = with_family(gates);
            let stop = gates.stop_at(gate);
            let collection = store.spawn_with("collection", &family, collect);
            stop.reached();
            let captured = gates.stop_at("checkpoint: captured");
            let checkpoint = store.spawn("checkpoint", |db| db.checkpoint("/copy"));
            let has_lock = LOCKED.contains(&gate);
            if has_lock {
                gates.first_of(&["checkpoint: flushed"]);
                stop.open();
                captured.reached();
            } else {
                captured.reached();
                stop.open();
            }
            // It deletes the files that it has replaced, unless the checkpoint needs it.
            collection.join().unwrap();
            captured.open();
            checkpoint.join().unwrap();
            let expected = all([("default", Contents::new()), ("f", before())]);
            assert_eq!(store.checkpoint_in("/copy"), expected);
            drop(family);
            assert_eq!(store.finish(), expected);
        });
    }
}

#[test]
fn a_job_that_ends_before_the_collecting_thread_waits_wakes_it() {
    race(|gates| {
        let mut store = Store::open_with(gates, |options| {
            options.default.disable_auto_compactions = false;
            options.default.enable_blob_garbage_collection = true;
        });
        write(&store.db, &abc("old"));
        store.db.flush().unwrap();
        // From now on nobody writes, which would wake the thread, too.
        store.db.close().unwrap();
        let stop = gates.stop_at("collector: nothing to do");
        store.db = gates.given(|| Db::open(DIR, &store.options)).unwrap();
        stop.reached();
        let again = gates.stop_at("collector: nothing to do");
        compact(&store.db).unwrap();
        stop.open();
        again.reached();
        again.open();
        let all_of = [("default", abc("old"))];
        assert_eq!(store.finish(), all(all_of));
    });
}

/// The selection pins the version that it reads from, and with it files that may become obsolete.
#[test]
fn waiting_until_idle_includes_the_search_for_what_to_collect() {
    race(|gates| {
        let stop = gates.stop_at("collector: candidate chosen");
        let store = Store::open_with(gates, |options| {
            options.default.enable_blob_garbage_collection = true;
            options.default.blob_garbage_collection_low_threshold = 0.1;
            options.default.blob_garbage_collection_high_threshold = 0.2;
        });
        write(&store.db, &abc("0"));
        store.db.flush().unwrap();
        write(&store.db, &contents([("a", "1"), ("b", "1")]));
        compact(&store.db).unwrap();
        // Garbage is to be collected, and the collecting thread is about to select files.
        stop.reached();
        store.db.delete_range(b"a", b"z").unwrap();
        compact(&store.db).unwrap();
        let waiting = store.spawn("waiter", |db| db.wait_idle());
        gates.first_of(&["idle: waited for", "idle: reached"]);
        stop.open();
        waiting.join().unwrap();
        assert_eq!(store.data_files(), std::collections::BTreeSet::new());
        assert_eq!(store.finish(), all([("default", Contents::new())]));
    });
}
