//! Walking through the crashes of a history, of the process and of the machine, at each operation.

use std::collections::BTreeMap;
use std::fmt::Debug;

use titan::{Db, FamilyMetrics, Options};
use titan_testkit::sim::{Loss, SimVfs};
use titan_tools::check;

use crate::support::{DIR, files};

/// The disk after a crash.
pub struct CrashState {
    pub image: SimVfs,
    /// The number of operations before the crash.
    pub at: usize,
    /// The largest mark before it.
    pub acknowledged: u64,
    /// Whether the machine went on: nothing is lost that was written.
    pub only_process: bool,
}

/// Calls `check` with the states after crashes at each operation from the number `from` on: after
/// one of the process, and two of the machine.
pub fn after_each_crash(vfs: &SimVfs, from: usize, mut check: impl FnMut(CrashState)) {
    let journal = vfs.journal();
    for point in journal.crash_points().filter(|point| point.index() >= from) {
        let losses = [
            Loss::None,
            Loss::Random(7),
            Loss::Random(point.index() as u64),
        ];
        for loss in losses {
            check(CrashState {
                image: point.crash(&loss),
                at: point.index(),
                acknowledged: point.acknowledged(),
                only_process: loss == Loss::None,
            });
        }
    }
}

/// Values by family and key.
pub type State<V> = BTreeMap<String, V>;

/// Steps on a database, and its state before the first and after each of them.
pub struct History<V> {
    vfs: SimVfs,
    db: Db,
    state_of: fn(&Db) -> State<V>,
    /// The operations before it.
    from: usize,
    states: Vec<State<V>>,
    /// For each state, the last one up to it that is durable.
    durable: Vec<usize>,
}

impl<V: Debug + PartialEq> History<V> {
    /// Begins with a database all of whose entries are durable.
    pub fn begin(vfs: &SimVfs, db: &Db, state_of: fn(&Db) -> State<V>) -> Self {
        History {
            vfs: vfs.clone(),
            db: db.clone(),
            state_of,
            from: vfs.journal().len(),
            states: vec![state_of(db)],
            durable: vec![0],
        }
    }

    /// A step that is durable by itself, with all before it, once it is acknowledged.
    pub fn durable(&mut self, step: impl FnOnce()) {
        self.step(step, true);
    }

    /// A step that a crash of the machine may lose.
    pub fn unsynced(&mut self, step: impl FnOnce()) {
        self.step(step, false);
    }

    fn step(&mut self, step: impl FnOnce(), is_durable: bool) {
        step();
        let at = self.states.len();
        self.states.push((self.state_of)(&self.db));
        let durable = match is_durable {
            true => at,
            false => self.durable[at - 1],
        };
        self.durable.push(durable);
        self.vfs.mark(at as u64);
    }

    /// After any crash, the database has one of the states, with all that is durable; no file is
    /// left that nothing names; and it goes on: `go_on` writes, and returns what it has written.
    /// Each state is found at least once.
    pub fn crash_everywhere(
        &self,
        name: &str,
        options_on: impl Fn(&SimVfs) -> Options,
        go_on: impl Fn(&Db, &Options) -> State<V>,
    ) {
        let mut times = vec![0; self.states.len()];
        after_each_crash(&self.vfs, self.from, |crash| {
            let options = options_on(&crash.image);
            let db = Db::open(DIR, &options).unwrap();
            let found = (self.state_of)(&db);
            let acknowledged = crash.acknowledged as usize;
            let shown = format!("{found:?}");
            let what = format!("{name} {} of {acknowledged}: {shown:.400}", crash.at);
            let at = self.states.iter().rposition(|state| *state == found);
            let at = at.unwrap_or_else(|| panic!("{what}"));
            times[at] += 1;
            let least = match crash.only_process {
                true => acknowledged,
                false => self.durable[acknowledged],
            };
            assert!((least..=acknowledged + 1).contains(&at), "{what}: {at}");
            assert_no_file_is_unlisted(&crash.image, &db, &what);
            let mut expected = found;
            expected.extend(go_on(&db, &options));
            db.close().unwrap();
            assert_sound(&options, &what);
            let db = Db::open(DIR, &options).unwrap();
            assert!((self.state_of)(&db) == expected, "{what}");
        });
        assert!(times.iter().all(|times| *times > 0), "{name}: {times:?}");
    }
}

/// No table and no blob file is in the directory that no version names.
fn assert_no_file_is_unlisted(vfs: &SimVfs, db: &Db, what: &str) {
    let count =
        |of: fn(&FamilyMetrics) -> usize| -> usize { db.metrics().families.iter().map(of).sum() };
    let tables = count(|f| f.levels.iter().map(|level| level.files).sum());
    assert_eq!(files(vfs, DIR, ".sst").len(), tables, "{what}");
    let blobs = count(|f| f.blob_files);
    assert_eq!(files(vfs, DIR, ".blob").len(), blobs, "{what}");
}

/// A check finds nothing wrong with the closed database.
pub fn assert_sound(options: &Options, what: &str) {
    let report = check(DIR.as_ref(), options, &mut |_| {}).unwrap();
    assert!(report.problems.is_empty(), "{what}: {report:?}");
}
