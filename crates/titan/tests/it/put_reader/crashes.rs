//! Crashes of the machine and of the process at each operation of a call.

use std::collections::BTreeMap;

use titan::{Db, WriteBatch, WriteOptions};
use titan_testkit::sim::{Loss, SimVfs};
use titan_tools::check;

use super::{LONG, Source, manually, read};
use crate::support::{DIR, manual, value};

/// The states after each step of the history below, by the value of each key in each family.
type State = BTreeMap<String, usize>;

/// Seeds of the values of readers are above this.
const READERS: usize = 100;

fn bytes(seed: usize) -> Vec<u8> {
    value(seed, if seed > READERS { LONG + seed } else { 200 })
}

/// The state of a database; panics if a value is none of the history.
fn state(db: &Db) -> State {
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
    let from = vfs.journal().len();
    let mut states = vec![state(&db)];
    let mut done = |step: &dyn Fn()| {
        step();
        states.push(state(&db));
        vfs.mark(states.len() as u64 - 1);
    };
    done(&|| put(1));
    done(&|| read_in(101));
    done(&|| put(2));
    done(&|| put(3));
    done(&|| read_in(102));
    done(&|| read_in(103));
    // Then no memtable of the value's family is to be flushed.
    done(&|| other.put("b", bytes(5)).unwrap());
    done(&|| read_in(104));
    done(&|| put(4));
    let journal = vfs.journal();
    // From the acknowledgement of a reader's value on, it and all before it are durable.
    let durable = |acknowledged: u64| match acknowledged {
        0 | 1 => 0,
        2..=4 => 2,
        5 => 5,
        6 | 7 => 6,
        _ => 8,
    };
    let mut found_states = vec![0; states.len()];
    for point in journal.crash_points().filter(|point| point.index() >= from) {
        let acknowledged = point.acknowledged();
        let losses = [
            Loss::None,
            Loss::Random(7),
            Loss::Random(point.index() as u64),
        ];
        for (loss, is_process) in losses.iter().map(|l| (l, matches!(l, Loss::None))) {
            let image = point.crash(loss);
            let options = manually(&image);
            let db = Db::open(DIR, &options).unwrap();
            let found = state(&db);
            let at = states.iter().rposition(|state| *state == found);
            let what = format!("{} of {acknowledged}: {found:?}", point.index());
            let at = at.unwrap_or_else(|| panic!("{what}"));
            found_states[at] += 1;
            let least = match is_process {
                true => acknowledged as usize,
                false => durable(acknowledged),
            };
            assert!(at >= least && at as u64 <= acknowledged + 1, "{what}");
            // No blob file is left that nothing names.
            let named = db
                .metrics()
                .families
                .iter()
                .map(|f| f.blob_files)
                .sum::<usize>();
            let there = crate::support::files(&image, DIR, ".blob").len();
            assert_eq!(there, named, "{what}");
            // Numbers are not used twice.
            db.put("a", bytes(9)).unwrap();
            db.put_reader("b", Source::new(109, LONG + 109)).unwrap();
            db.close().unwrap();
            let report = check(DIR.as_ref(), &options, &mut |_| {}).unwrap();
            assert!(report.problems.is_empty(), "{what}: {report:?}");
            let db = Db::open(DIR, &options).unwrap();
            let mut expected = found;
            expected.insert("default a".to_owned(), 9);
            expected.insert("default b".to_owned(), 109);
            assert_eq!(state(&db), expected, "{what}");
        }
    }
    assert!(
        found_states.iter().all(|times| *times > 0),
        "{found_states:?}"
    );
}
