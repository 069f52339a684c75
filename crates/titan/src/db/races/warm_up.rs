//! The thread that reads the database into the kernel's cache, beside jobs.

use std::collections::BTreeSet;

use super::store::{Contents, Store, abc, all, compact, write};
use crate::error::{Error, ErrorKind};
use crate::options::DataInMemory;
use titan_testkit::gates::race;

/// The thread pins versions while it lists their files, and with them files that may become
/// obsolete.
#[test]
fn waiting_until_idle_includes_the_list_of_what_to_read() {
    race(|gates| {
        let begun = gates.stop_at("warm-up: begun");
        let pinned = gates.stop_at("warm-up: versions pinned");
        let store = Store::open_with(gates, |options| {
            options.db.data_in_memory = DataInMemory::Always;
        });
        begun.reached();
        write(&store.db, &abc("0"));
        store.db.flush().unwrap();
        begun.open();
        pinned.reached();
        store.db.delete_range(b"a", b"z").unwrap();
        compact(&store.db).unwrap();
        let waiting = store.spawn("waiter", |db| db.wait_idle());
        gates.first_of(&["idle: waited for", "idle: reached"]);
        pinned.open();
        waiting.join().unwrap();
        assert_eq!(store.data_files(), BTreeSet::new());
        assert_eq!(store.finish(), all([("default", Contents::new())]));
    });
}

/// It waits like the other jobs until there are file descriptors, and its success does not say that
/// there are.
#[test]
fn a_warm_up_waits_for_file_descriptors_and_does_not_say_that_there_are_any() {
    race(|gates| {
        let store = Store::open_with(gates, |options| {
            options.db.data_in_memory = DataInMemory::Never;
        });
        let shared = std::sync::Arc::clone(&store.db.core.shared);
        let none_left = || {
            let error = Error::new(ErrorKind::TooManyOpenFiles, "open file");
            shared.postpone_jobs(&error);
        };
        none_left();
        shared.state.lock().warm_up_due = true;
        let waits = shared.find_warm_up().err().unwrap();
        assert!(waits.is_some_and(|wait| !wait.is_zero()));
        assert!(shared.state.lock().warm_up_due);
        shared.failure.postponed.end();
        let (job, _) = shared.find_warm_up().ok().unwrap();
        // Descriptors are short again while it runs.
        none_left();
        job(&shared);
        assert!(!shared.state.lock().warm_up_due);
        let (_, is_postponed) = shared.failure.postponed.retry_now();
        assert!(is_postponed, "the warm-up says that jobs can open files");
        drop(shared);
        assert_eq!(store.finish(), all([("default", Contents::new())]));
    });
}
