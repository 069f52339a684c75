//! The parts that races of compactions and collections share.

use super::store::{
    Contents, DIR, Store, all, assert_reads, at, contents, ended_by_closing, ended_by_dropping,
    now, scan, shown, write,
};
use crate::{ColumnFamily, Db, ErrorKind, ReadOptions, Result};
use titan_testkit::gates::{Gates, race};

/// Gates at which a job has the lock of the version set; at the last one that of the state, too.
pub(super) const LOCKED: [&str; 3] = [
    "install: edit made",
    "install: edit durable",
    "install: between memtables and version",
];

/// A job that installs files, on the thread of a user.
#[derive(Clone, Copy)]
pub(super) struct RacedJob {
    pub(super) name: &'static str,
    /// The gates at which it has no lock, in their order.
    pub(super) unlocked: [&'static str; 2],
    /// Makes a family for which it has something to do.
    pub(super) with_family: fn(&Gates) -> (Store, ColumnFamily),
    pub(super) run: fn(&ColumnFamily) -> Result<()>,
}

impl RacedJob {
    /// The family is dropped meanwhile, and another one of its name created. A value that was
    /// looked up before can be read.
    pub(super) fn may_lose_its_family_before_it_installs(self) {
        for gate in self.unlocked {
            race(move |gates| {
                let (store, family) = (self.with_family)(gates);
                let stop = gates.stop_at(gate);
                let job = store.spawn_with(self.name, &family, self.run);
                stop.reached();
                let lazy = family.get_lazy(b"c").unwrap().unwrap();
                store.db.drop_column_family(&family).unwrap();
                let again = store.create("f");
                write(&again, &contents([("b", "3")]));
                again.flush().unwrap();
                stop.open();
                assert!(ended_by_dropping(&job.join()));
                assert_eq!(now(&again), contents([("b", "3")]));
                assert_eq!(shown(&lazy.fetch().unwrap()), "0");
                drop((family, again, lazy));
                let expected = all([("default", Contents::new()), ("f", contents([("b", "3")]))]);
                assert_eq!(store.finish(), expected);
            });
        }
    }

    /// The family is dropped meanwhile.
    pub(super) fn may_lose_its_family_while_it_installs(self) {
        for gate in LOCKED {
            race(move |gates| {
                let (store, family) = (self.with_family)(gates);
                let stop = gates.stop_at(gate);
                let job = store.spawn_with(self.name, &family, self.run);
                stop.reached();
                let dropped = family.clone();
                let dropping = store.spawn("drop", move |db| db.drop_column_family(&dropped));
                stop.open();
                dropping.join().unwrap();
                // It may have ended before the drop.
                let result = job.join();
                assert!(result.is_ok() || ended_by_dropping(&result));
                drop(family);
                assert_eq!(store.finish(), all([("default", Contents::new())]));
            });
        }
    }

    /// Iterators that were created before read the files that the job replaces; so does an opening
    /// after the process was killed.
    pub(super) fn loses_nothing_at_any_step(self, before: fn() -> Contents) {
        for gate in self.unlocked.into_iter().chain(LOCKED) {
            race(move |gates| {
                let (store, family) = (self.with_family)(gates);
                let snapshot = store.db.snapshot();
                let mut older = family.iter(&ReadOptions::default()).unwrap();
                let stop = gates.stop_at(gate);
                let job = store.spawn_with(self.name, &family, self.run);
                stop.reached();
                assert_reads(&family, &ReadOptions::default(), &before());
                assert_reads(&family, &at(&snapshot), &before());
                let expected = all([("default", Contents::new()), ("f", before())]);
                assert_eq!(store.after_a_kill(), expected, "{gate}");
                let mut newer = family.iter(&ReadOptions::default()).unwrap();
                stop.open();
                job.join().unwrap();
                assert_eq!(scan(&mut older).unwrap(), before());
                assert_eq!(scan(&mut newer).unwrap(), before());
                assert_reads(&family, &at(&snapshot), &before());
                drop((snapshot, older, newer, family));
                assert_eq!(store.finish(), expected);
            });
        }
    }

    /// The database is closed meanwhile, which waits for the job and ends it.
    pub(super) fn is_waited_for_by_closing(self, before: fn() -> Contents) {
        for gate in self.unlocked.into_iter().chain([LOCKED[0], LOCKED[1]]) {
            race(move |gates| {
                let (store, family) = (self.with_family)(gates);
                let stop = gates.stop_at(gate);
                let job = store.spawn_with(self.name, &family, self.run);
                stop.reached();
                let close = store.spawn("close", |db| db.close());
                let next = gates.first_of(&["jobs: waited for", "close: jobs have ended"]);
                assert_eq!(next, "jobs: waited for", "{gate}");
                let opened = Db::open(DIR, &store.options);
                assert_eq!(opened.unwrap_err().kind(), ErrorKind::Locked);
                stop.open();
                close.join().unwrap();
                assert!(ended_by_closing(&job.join()), "{gate}");
                drop(family);
                let expected = all([("default", Contents::new()), ("f", before())]);
                store.finish_closed(&expected);
            });
        }
    }
}
