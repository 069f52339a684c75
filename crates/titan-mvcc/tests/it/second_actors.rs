//! A second actor in the middle of a read or of a commit.
//!
//! The interfaces that programs give to a store are gates. A range source is asked after a read has
//! resolved its locks and before it searches the engine; a commit hook is called before the engine
//! publishes a commit. There another actor acts, and the first one goes on.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use parking_lot::Mutex;
use titan::{BypassedRange, CommitHook, CommittedOps, SequenceNumber};
use titan_mvcc::{
    Direction, Error, Found, Mutation, Part, PartRequest, Prewrite, RangeSource, Result, Snapshot,
    SourceRow, Store, Timestamp,
};

use super::percolator::request;
use super::setup::{Place, put};

type Act = Box<dyn FnOnce() + Send>;

/// Acts once, when it is passed.
#[derive(Default)]
struct Gate(Mutex<Option<Act>>);

impl Gate {
    fn pass(&self) {
        let act = self.0.lock().take();
        if let Some(act) = act {
            act();
        }
    }
}

impl RangeSource for Gate {
    fn get(&self, _: &[u8], _: Timestamp) -> Option<Found> {
        self.pass();
        None
    }

    fn part(&self, _: &PartRequest<'_>, _: &mut Vec<SourceRow>) -> Part {
        self.pass();
        Part::Engine { end: None }
    }
}

impl CommitHook for Gate {
    fn before_publish(&self, _: SequenceNumber, _: &CommittedOps<'_>) {
        self.pass();
    }

    fn on_bypass(&self, _: &BypassedRange<'_>, _: SequenceNumber) {}
}

/// The state of a transaction that writes `p` and `s` when a read begins.
#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    /// It has not begun.
    None,
    /// It is prewritten, and its client has a commit timestamp.
    Running,
    /// Its primary key is committed.
    Committed,
    /// It is an async commit whose secondary key is not prewritten.
    AsyncPart,
    /// It is an async commit that has committed.
    AsyncWhole,
}

const STATES: [State; 5] = [
    State::None,
    State::Running,
    State::Committed,
    State::AsyncPart,
    State::AsyncWhole,
];

/// A store with the transaction in one of the states.
#[derive(Clone)]
struct World {
    store: Store,
    gate: Arc<Gate>,
    state: State,
    start: Timestamp,
    /// The timestamp at which the client may commit.
    commit: Timestamp,
}

impl World {
    fn new(state: State) -> Self {
        let mut place = Place::new(1);
        let gate = Arc::new(Gate::default());
        place.options.range_source = Some(Arc::clone(&gate) as _);
        place.options.transactions.lock_wait = Duration::ZERO;
        let store = place.open();
        let mut first = store.begin();
        first.put(b"p", b"old");
        first.put(b"s", b"old");
        first.commit().unwrap();
        let start = store.oracle().next().unwrap();
        let mut world = World {
            store,
            gate,
            state,
            start,
            commit: Timestamp::ZERO,
        };
        let whole: &[&[u8]] = &[b"p", b"s"];
        let last = match state {
            State::None => None,
            State::Running | State::Committed => Some(world.prewrite(whole, None).unwrap()),
            State::AsyncPart => Some(world.prewrite(&[b"p"], Some(&[b"s"])).unwrap()),
            State::AsyncWhole => {
                world.prewrite(&[b"p"], Some(&[b"s"])).unwrap();
                Some(world.prewrite(&[b"s"], Some(&[])).unwrap())
            }
        };
        world.commit = match state {
            State::AsyncWhole => last.unwrap(),
            _ => world.store.oracle().next().unwrap(),
        };
        if state == State::Committed {
            world.commit(&[b"p"], world.commit).unwrap();
        }
        world
    }

    fn prewrite(&self, keys: &[&[u8]], secondaries: Option<&[&[u8]]>) -> Result<Timestamp> {
        let puts = keys.iter().map(|key| Mutation::Put { key, value: b"new" });
        let mutations: Vec<_> = puts.collect();
        let secondaries = secondaries.map(|keys| {
            let keys = keys.iter().map(|key| bytes::Bytes::copy_from_slice(key));
            keys.collect::<Vec<_>>()
        });
        let request = Prewrite {
            secondaries: secondaries.as_deref(),
            ..request(self.start, b"p", &mutations)
        };
        let prewritten = self.store.percolator().prewrite(&request)?;
        Ok(prewritten.min_commit)
    }

    fn commit(&self, keys: &[&[u8]], at: Timestamp) -> Result<()> {
        self.store.percolator().commit(keys, self.start, at)
    }
}

/// An act by its name.
type NamedAct = (&'static str, fn(&World));

/// The acts of a second actor. Each may fail: then it came too late, or too early.
const ACTS: [NamedAct; 9] = [
    ("nothing", |_| {}),
    ("a commit", |world| {
        if world.state != State::AsyncPart {
            let _ = world.commit(&[b"p", b"s"], world.commit);
        }
    }),
    (
        "a commit that is repeated if a reader has pushed it",
        |world| {
            if world.state == State::AsyncPart {
                return;
            }
            if let Err(Error::CommitTsExpired { .. }) = world.commit(&[b"p"], world.commit) {
                let at = world.store.oracle().next().unwrap();
                world.commit(&[b"p", b"s"], at).unwrap();
            }
        },
    ),
    ("a status check that finds it expired", |world| {
        let calls = world.store.percolator();
        let (never, max) = (Timestamp::ZERO, Timestamp::MAX);
        let _ = calls.check_transaction_status(b"p", world.start, never, max, true);
    }),
    ("a check of the secondary key", |world| {
        let calls = world.store.percolator();
        let _ = calls.check_secondary_locks(&[b"s"], world.start);
    }),
    ("the prewrite of the secondary key", |world| {
        let _ = world.prewrite(&[b"s"], Some(&[]));
    }),
    ("a reader of the present", |world| {
        let now = world.store.snapshot();
        let (p, s) = (now.get(b"p").unwrap(), now.get(b"s").unwrap());
        assert_eq!(p, s);
    }),
    ("a writer of the same keys", |world| {
        let mut writer = world.store.begin();
        writer.put(b"p", b"newer");
        writer.put(b"s", b"newer");
        let _ = writer.commit();
    }),
    ("the safe point and a compaction", |world| {
        put(&world.store, b"other", b"");
        world.store.advance_safe_point(world.store.now()).unwrap();
        world.store.db().flush_all().unwrap();
        world.store.drop_old_versions().unwrap();
    }),
];

/// The values of `p` and `s`, where one read is the one in whose middle the second actor acts.
type Read = fn(&Snapshot) -> [Option<bytes::Bytes>; 2];

const READS: [(&str, Read); 4] = [
    ("p, then s", |at| {
        let p = at.get(b"p").unwrap();
        [p, at.get(b"s").unwrap()]
    }),
    ("s, then p", |at| {
        let s = at.get(b"s").unwrap();
        [at.get(b"p").unwrap(), s]
    }),
    ("a scan", |at| scanned(at, Direction::Forward)),
    ("a scan backward", |at| scanned(at, Direction::Backward)),
];

fn scanned(at: &Snapshot, direction: Direction) -> [Option<bytes::Bytes>; 2] {
    let mut found = [None, None];
    for row in at.scan(None, None, direction).unwrap() {
        let row = row.unwrap();
        let value = Some(row.value.fetch().unwrap());
        match &*row.key {
            b"p" => found[0] = value,
            b"s" => found[1] = value,
            _ => {}
        }
    }
    found
}

#[test]
fn a_read_finds_the_same_whatever_another_actor_does_in_its_middle() {
    for state in STATES {
        for (act_name, act) in ACTS {
            for (read_name, read) in READS {
                let context = format!("{state:?}, {act_name} within {read_name}");
                let world = World::new(state);
                let at = world.store.oracle().next().unwrap();
                let snapshot = world.store.snapshot_at(at).unwrap();
                let actor = world.clone();
                *world.gate.0.lock() = Some(Box::new(move || act(&actor)));
                let found = read(&snapshot);
                assert!(world.gate.0.lock().is_none(), "{context}: nobody acted");
                let expected = match state {
                    // A scan pushes a transaction when it comes to its lock, and a get before.
                    State::Running if read_name.contains("scan") && act_name.contains("commit") => {
                        "new"
                    }
                    State::None | State::Running | State::AsyncPart => "old",
                    State::Committed | State::AsyncWhole => "new",
                };
                for value in &found {
                    assert_eq!(value.as_deref(), Some(expected.as_bytes()), "{context}");
                }
                assert_eq!(read(&snapshot), found, "{context}");
                drop(snapshot);
                // All or nothing, in either order.
                let [p, s] = read(&world.store.snapshot());
                assert_eq!(p, s, "{context}");
                let report = world.store.check(&mut |_| {}).unwrap();
                assert_eq!(report.problems, [], "{context}");
            }
        }
    }
}

/// A commit is written and not published. Readers do not see it; a reader at a later timestamp
/// waits for it, and the safe point does not pass the visible timestamp.
#[test]
fn nobody_sees_a_commit_before_it_is_published() {
    let mut place = Place::new(2);
    let gate = Arc::new(Gate::default());
    place.options.db.commit_hook = Some(Arc::clone(&gate) as _);
    let store = place.open();
    let first = put(&store, b"k", b"old");
    let (returned, wait) = mpsc::channel();
    let actor = store.clone();
    *gate.0.lock() = Some(Box::new(move || {
        assert_eq!(actor.now(), first);
        let value = actor.snapshot().get(b"k").unwrap().unwrap();
        assert_eq!(value, "old");
        let refused = actor
            .advance_safe_point(Timestamp(first.0 + 1))
            .unwrap_err();
        assert!(matches!(refused, Error::InFuture { .. }), "{refused}");
        let (begun, begins) = mpsc::channel();
        std::thread::spawn(move || {
            begun.send(()).unwrap();
            // Not in the hook: the oracle may have to write its lease, and waits for the hook then.
            let later = actor.oracle().next().unwrap();
            let snapshot = actor.snapshot_at(later).unwrap();
            let value = snapshot.get(b"k").unwrap().unwrap();
            returned.send((value, actor.now())).unwrap();
        });
        begins.recv().unwrap();
    }));
    let commit = put(&store, b"k", b"new");
    assert!(gate.0.lock().is_none());
    let (value, now) = wait.recv_timeout(Duration::from_secs(100)).unwrap();
    assert_eq!(value, "new");
    assert!(now >= commit);
}
