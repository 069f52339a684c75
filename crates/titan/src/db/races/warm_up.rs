//! The thread that reads the database into the kernel's cache, beside jobs.

use std::collections::BTreeSet;

use super::store::{Contents, Store, abc, all, compact, write};
use crate::gates::control::race;
use crate::options::DataInMemory;

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
