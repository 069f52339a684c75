//! A thread that changes options is stopped between its steps. Meanwhile the database is closed,
//! and opened again.

use super::store::{DIR, Store, abc, all, all_contents, write};
use crate::{ColumnFamilyId, Db, ErrorKind};
use titan_testkit::gates::{Gates, race};

/// Changes options until the next change replaces the MANIFEST.
fn fill_manifest(db: &Db) {
    let number = || db.core.shared.versions.lock().manifest_number();
    // Every change takes the same space.
    let change = |n: usize| {
        let size = (1000 + n % 1000).to_string();
        db.set_options(&[("min_blob_size", &size)]).unwrap();
    };
    let changes_to_next = || {
        let before = number();
        (1..).find(|n| {
            change(*n);
            number() != before
        })
    };
    changes_to_next();
    let changes = changes_to_next().unwrap();
    (1..changes).for_each(change);
}

fn store(gates: &Gates) -> Store {
    Store::open_with(gates, |options| options.db.max_manifest_file_size = 4096)
}

#[test]
fn a_change_that_comes_after_the_end_of_closing_leaves_the_directory_alone() {
    race(|gates| {
        let store = store(gates);
        fill_manifest(&store.db);
        let stop = gates.stop_at("options: to be changed");
        let change = store.spawn("change", |db| db.set_options(&[("min_blob_size", "2000")]));
        stop.reached();
        store.db.close().unwrap();
        // The directory is another's.
        let next = Db::open(DIR, &store.options).unwrap();
        write(&next, &abc("1"));
        next.flush().unwrap();
        // A job may still be deleting the WAL file that the flush has emptied.
        next.wait_idle().unwrap();
        let files = || crate::db::files_of(&store.vfs, DIR.as_ref()).unwrap();
        let before = files();
        stop.open();
        assert_eq!(change.join().unwrap_err().kind(), ErrorKind::Closed);
        assert_eq!(files(), before);
        let expected = all([("default", abc("1"))]);
        assert_eq!(all_contents(&next), expected);
        assert_eq!(store.after_a_kill(), expected);
        next.close().unwrap();
        drop(next);
        store.finish_closed(&expected);
    });
}

#[test]
fn closing_waits_for_a_change() {
    race(|gates| {
        let store = store(gates);
        write(&store.db, &abc("1"));
        let stop = gates.stop_at("options: recorded");
        let change = store.spawn("change", |db| db.set_options(&[("min_blob_size", "2000")]));
        stop.reached();
        let close = store.spawn("close", |db| db.close());
        let next = gates.first_of(&["jobs: waited for", "close: jobs have ended"]);
        assert_eq!(next, "jobs: waited for");
        let opened = Db::open(DIR, &store.options);
        assert_eq!(opened.unwrap_err().kind(), ErrorKind::Locked);
        stop.open();
        change.join().unwrap();
        close.join().unwrap();
        store.finish_closed(&all([("default", abc("1"))]));
    });
}

/// A writer is stopped by memtables that wait for their flush. An option that allows more of them
/// lets it go on at once, and not when the flush ends.
#[test]
fn a_stopped_writer_goes_on_when_an_option_allows_it() {
    race(|gates| {
        let store = Store::open_with(gates, |options| {
            options.default.max_write_buffer_number = 2;
        });
        let stop = gates.stop_at("flush: written");
        let flushes = ["first", "second"].map(|name| {
            write(&store.db, &abc(name));
            let flush = store.spawn(name, |db| db.flush());
            if name == "first" {
                stop.reached();
            }
            flush
        });
        while store.db.core.shared.state.lock().families[&ColumnFamilyId::DEFAULT]
            .immutables
            .len()
            < 2
        {
            std::thread::yield_now();
        }
        let writer = store.spawn("writer", |db| db.put(b"d", b"1"));
        gates.first_of(&["stall: waited for"]);
        store
            .db
            .set_options(&[("max_write_buffer_number", "4")])
            .unwrap();
        writer.join().unwrap();
        stop.open();
        for flush in flushes {
            flush.join().unwrap();
        }
        let mut expected = abc("second");
        expected.insert("d".to_owned(), "1".to_owned());
        assert_eq!(store.finish(), all([("default", expected)]));
    });
}
