//! Crashes of the machine and of the process at each operation of a call.

use titan::{Db, WriteBatch, WriteOptions};
use titan_testkit::sim::SimVfs;

use super::{LONG, Source, manually, read};
use crate::crash_states::{History, State};
use crate::support::{DIR, manual, value};

/// Seeds of the values of readers are above this.
const READERS: usize = 100;

fn bytes(seed: usize) -> Vec<u8> {
    value(seed, if seed > READERS { LONG + seed } else { 200 })
}

/// The seed of each value of a database; panics if a value is none of the history.
fn state(db: &Db) -> State<usize> {
    let mut state = State::new();
    for family in db.column_families() {
        for key in ["a", "b"] {
            let Some(found) = family.get_lazy(key).unwrap() else {
                continue;
            };
            let found = read(&found);
            let seed = (0..READERS + 10).find(|seed| bytes(*seed) == found);
            state.insert(format!("{} {key}", family.name()), seed.unwrap());
        }
    }
    state
}

#[test]
fn after_any_crash_the_value_is_there_with_all_writes_before_it_or_not_at_all() {
    let vfs = SimVfs::new();
    let options = manually(&vfs);
    let db = Db::open(DIR, &options).unwrap();
    let other = db.create_column_family("other", manual()).unwrap();
    let put = |seed: usize| {
        // Not synced, and in both families.
        let mut batch = WriteBatch::new();
        batch.put(&*db, "a", bytes(seed)).unwrap();
        batch.put(&other, "b", bytes(seed)).unwrap();
        db.write(batch, &WriteOptions::default()).unwrap();
    };
    let read_in = |seed: usize| {
        let source = Source::new(seed, LONG + seed);
        db.put_reader("a", source).unwrap();
    };
    let mut history = History::begin(&vfs, &db, state);
    history.unsynced(|| put(1));
    history.durable(|| read_in(101));
    history.unsynced(|| put(2));
    history.unsynced(|| put(3));
    history.durable(|| read_in(102));
    history.durable(|| read_in(103));
    // Then no memtable of the value's family is to be flushed.
    history.unsynced(|| other.put("b", bytes(5)).unwrap());
    history.durable(|| read_in(104));
    history.unsynced(|| put(4));
    // Numbers are not used twice afterwards.
    history.crash_everywhere("", manually, |db, _| {
        db.put("a", bytes(9)).unwrap();
        db.put_reader("b", Source::new(109, LONG + 109)).unwrap();
        [("default a", 9), ("default b", 109)]
            .map(|(key, seed)| (key.to_owned(), seed))
            .into()
    });
}
