//! The commit hook and the barrier: the needs of a copy that is never older than the database.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use titan::{
    BatchOp, BypassedRange, ColumnFamily, ColumnFamilyId, ColumnFamilyOptions, CommitHook,
    CommittedOps, Db, ErrorKind, EventListener, SequenceNumber, WriteBatch, WriteOptions,
};
use titan_testkit::sim::{Fault, OpKind, SimVfs};

use crate::support::{key, manual, open, options, value};

/// Keys and values of all families.
type Contents = BTreeMap<(ColumnFamilyId, Vec<u8>), Vec<u8>>;

/// A copy of a database that its hook maintains.
#[derive(Default)]
struct Copy {
    contents: Mutex<Contents>,
    /// The number that the next operation must have, once one has been seen.
    next: AtomicU64,
    /// The database, whose readers must not see writes that the hook has not seen.
    db: OnceLock<Db>,
    violations: AtomicU64,
    bypasses: Mutex<Vec<(ColumnFamilyId, u64)>>,
}

fn apply(contents: &mut Contents, op: &BatchOp<'_>) {
    match *op {
        BatchOp::Put { cf, key, value } => {
            contents.insert((cf, key.to_vec()), value.to_vec());
        }
        BatchOp::Delete { cf, key } | BatchOp::SingleDelete { cf, key } => {
            contents.remove(&(cf, key.to_vec()));
        }
        BatchOp::DeleteRange { cf, begin, end } => {
            contents.retain(|(family, key), _| {
                *family != cf || key.as_slice() < begin || key.as_slice() >= end
            });
        }
        _ => panic!("no test writes {op:?}"),
    }
}

impl CommitHook for Copy {
    fn before_publish(&self, first: SequenceNumber, operations: &CommittedOps<'_>) {
        let expected = self.next.load(Ordering::SeqCst);
        let mut last = first.0;
        for (index, (sequence, op)) in (0..).zip(operations.iter()) {
            last = first.0 + index;
            let is_first = index == 0 && expected != 0 && expected != first.0;
            if sequence.0 != last || is_first {
                self.violations.fetch_add(1, Ordering::SeqCst);
            }
            apply(&mut self.contents.lock(), &op);
        }
        self.next.store(last + 1, Ordering::SeqCst);
        // A snapshot of now is older than the group.
        if let Some(db) = self.db.get()
            && db.snapshot().sequence() >= first
        {
            self.violations.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn on_bypass(&self, range: &BypassedRange<'_>, sequence: SequenceNumber) {
        assert_eq!((range.begin, range.end), (None, None));
        let family = range.column_family;
        self.contents.lock().retain(|(f, _), _| *f != family);
        self.bypasses.lock().push((family, sequence.0));
    }
}

fn contents_of(db: &Db) -> Contents {
    let mut contents = Contents::new();
    for family in db.column_families() {
        let mut iter = family.iter(&titan::ReadOptions::default()).unwrap();
        iter.seek_to_first().unwrap();
        while iter.valid() {
            let value = iter.value().unwrap().to_vec();
            contents.insert((family.id(), iter.key().to_vec()), value);
            iter.next().unwrap();
        }
    }
    contents
}

fn open_with(vfs: &SimVfs, hook: &Arc<impl CommitHook + 'static>) -> Db {
    let mut options = options(vfs, manual());
    options.db.commit_hook = Some(Arc::clone(hook) as _);
    open(&options)
}

/// One of some random operations.
fn random_batch(rng: &mut fastrand::Rng, families: &[ColumnFamily]) -> WriteBatch {
    let mut batch = WriteBatch::new();
    for _ in 0..rng.usize(1..4) {
        let (family, n) = (&families[rng.usize(..families.len())], rng.usize(..50));
        match rng.u8(..10) {
            0 => batch.delete_range(family, key(n), key(n + 3)).unwrap(),
            1 | 2 => batch.delete(family, key(n)).unwrap(),
            3 => batch.put_log_data(b"no operation on data").unwrap(),
            _ => batch
                .put(family, key(n), value(rng.usize(..1000), rng.usize(8..300)))
                .unwrap(),
        }
    }
    batch
}

#[test]
fn the_hook_sees_every_operation_once_in_order_before_readers_do() {
    let vfs = SimVfs::new();
    let copy = Arc::new(Copy::default());
    let db = open_with(&vfs, &copy);
    let other = db.create_column_family("other", manual()).unwrap();
    copy.db.set(db.clone()).ok().unwrap();
    let families = [(*db).clone(), other];
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let (db, families) = (&db, &families);
            scope.spawn(move || {
                let mut rng = fastrand::Rng::with_seed(seed);
                for _ in 0..500 {
                    let options = WriteOptions {
                        disable_wal: rng.u8(..4) == 0,
                        ..WriteOptions::default()
                    };
                    db.write(random_batch(&mut rng, families), &options)
                        .unwrap();
                    if rng.u8(..50) == 0 {
                        // A batch that is refused is in the group of others.
                        let mut refused = WriteBatch::new();
                        refused.put(&families[0], b"refused", b"").unwrap();
                        refused.delete_range(&families[0], b"b", b"a").unwrap();
                        db.write(refused, &options).unwrap_err();
                        db.flush().unwrap();
                    }
                }
            });
        }
    });
    assert_eq!(copy.violations.load(Ordering::SeqCst), 0);
    assert_eq!(
        copy.next.load(Ordering::SeqCst),
        db.snapshot().sequence().0 + 1
    );
    assert_eq!(*copy.contents.lock(), contents_of(&db));
    assert!(!db.is_commit_hook_poisoned());
    db.close().unwrap();
}

#[test]
fn a_copy_that_begins_at_a_barrier_is_complete() {
    /// Takes over operations once it has begun.
    #[derive(Default)]
    struct Late {
        begun: AtomicBool,
        seen: Mutex<Vec<(u64, Contents)>>,
    }

    impl CommitHook for Late {
        fn before_publish(&self, _: SequenceNumber, operations: &CommittedOps<'_>) {
            if self.begun.load(Ordering::SeqCst) {
                for (sequence, op) in operations.iter() {
                    let mut contents = Contents::new();
                    apply(&mut contents, &op);
                    self.seen.lock().push((sequence.0, contents));
                }
            }
        }

        fn on_bypass(&self, _: &BypassedRange<'_>, _: SequenceNumber) {}
    }

    let vfs = SimVfs::new();
    let late = Arc::new(Late::default());
    let db = open_with(&vfs, &late);
    let writing = AtomicU64::new(2);
    let (snapshot, at) = std::thread::scope(|scope| {
        for thread in 0..2 {
            let (db, writing) = (&db, &writing);
            scope.spawn(move || {
                for n in 0..400 {
                    db.put(&key(n), &value(thread * 1000 + n, 20)).unwrap();
                }
                writing.fetch_sub(1, Ordering::SeqCst);
            });
        }
        while db.snapshot().sequence().0 < 100 && writing.load(Ordering::SeqCst) > 0 {}
        db.barrier(|at| {
            late.begun.store(true, Ordering::SeqCst);
            (db.snapshot(), at)
        })
        .unwrap()
    });
    assert_eq!(snapshot.sequence(), at);
    let of_snapshot = titan::ReadOptions {
        snapshot: Some(snapshot.clone()),
        ..titan::ReadOptions::default()
    };
    let mut copy = Contents::new();
    let mut iter = db.iter(&of_snapshot).unwrap();
    iter.seek_to_first().unwrap();
    while iter.valid() {
        let value = iter.value().unwrap().to_vec();
        copy.insert((db.id(), iter.key().to_vec()), value);
        iter.next().unwrap();
    }
    for (index, (sequence, contents)) in (1..).zip(&*late.seen.lock()) {
        // Nothing is missing between the snapshot and the first operation.
        assert_eq!(*sequence, at.0 + index);
        copy.extend(contents.clone());
    }
    assert_eq!(copy, contents_of(&db));
}

/// Panics at a given operation.
#[derive(Default)]
struct Panics {
    calls: AtomicU64,
    notified: AtomicU64,
}

impl CommitHook for Panics {
    fn before_publish(&self, _: SequenceNumber, operations: &CommittedOps<'_>) {
        self.calls.fetch_add(1, Ordering::SeqCst);
        for (_, op) in operations.iter() {
            assert!(
                !matches!(op, BatchOp::Put { key: b"panic", .. }),
                "the hook"
            );
        }
    }

    fn on_bypass(&self, _: &BypassedRange<'_>, _: SequenceNumber) {
        panic!("a bypass");
    }
}

impl EventListener for Panics {
    fn commit_hook_poisoned(&self) {
        self.notified.fetch_add(1, Ordering::SeqCst);
        panic!("the listener");
    }
}

#[test]
fn a_hook_that_panics_is_not_called_again_and_harms_no_commit() {
    for in_bypass in [false, true] {
        let vfs = SimVfs::new();
        let hook = Arc::new(Panics::default());
        let mut options = options(&vfs, manual());
        options.db.commit_hook = Some(Arc::clone(&hook) as _);
        options.db.listeners.push(Arc::clone(&hook) as _);
        let db = open(&options);
        let other = db.create_column_family("other", manual()).unwrap();
        db.put(b"a", b"1").unwrap();
        assert!(!db.is_commit_hook_poisoned());
        match in_bypass {
            true => db.drop_column_family(&other).unwrap(),
            false => db.put(b"panic", b"2").unwrap(),
        }
        assert!(db.is_commit_hook_poisoned());
        let calls = hook.calls.load(Ordering::SeqCst);
        db.put(b"b", b"3").unwrap();
        assert_eq!(hook.calls.load(Ordering::SeqCst), calls);
        assert_eq!(hook.notified.load(Ordering::SeqCst), 1);
        assert!(db.background_error().is_none());
        drop(other);
        db.close().unwrap();
        drop(db);
        // Batches that an opening replays are not shown, and nothing is poisoned any more.
        let calls = hook.calls.load(Ordering::SeqCst);
        let db = open(&options);
        assert_eq!(hook.calls.load(Ordering::SeqCst), calls);
        assert!(!db.is_commit_hook_poisoned());
        assert_eq!(db.get(b"panic").unwrap().is_some(), !in_bypass);
        assert_eq!(db.get(b"b").unwrap().unwrap(), "3");
    }
}

/// Calls functions that would wait for the commit that calls it.
#[derive(Default)]
struct Reenters {
    db: OnceLock<Db>,
    another: OnceLock<Db>,
    kinds: Mutex<Vec<Result<(), ErrorKind>>>,
}

fn waiting_calls(db: &Db) -> Vec<Result<(), ErrorKind>> {
    let force = titan::CompactRangeOptions::default();
    let outcomes = [
        db.put(b"k", b"within"),
        db.flush(),
        db.sync_wal(),
        db.compact_range(None, None, &force),
        db.barrier(|_| ()),
        db.close(),
        db.create_column_family("new", ColumnFamilyOptions::default())
            .map(drop),
        db.set_options(&[("min_blob_size", "7")]),
    ];
    outcomes.map(|r| r.map_err(|e| e.kind())).to_vec()
}

impl CommitHook for Reenters {
    fn before_publish(&self, _: SequenceNumber, _: &CommittedOps<'_>) {
        let (Some(db), Some(another)) = (self.db.get(), self.another.get()) else {
            return;
        };
        let mut kinds = self.kinds.lock();
        kinds.extend(waiting_calls(db));
        // Another database does not wait for this one.
        another.put(b"k", b"copied").unwrap();
        assert!(db.get(b"k").unwrap().is_none());
    }

    fn on_bypass(&self, _: &BypassedRange<'_>, _: SequenceNumber) {}
}

#[test]
fn what_would_wait_for_itself_fails_in_a_hook_and_in_a_barrier() {
    let vfs = SimVfs::new();
    let hook = Arc::new(Reenters::default());
    let db = open_with(&vfs, &hook);
    let another = open(&options(&SimVfs::new(), manual()));
    hook.another.set(another.clone()).ok().unwrap();
    hook.db.set(db.clone()).ok().unwrap();
    db.put(b"k", b"v").unwrap();
    assert!(!db.is_commit_hook_poisoned());
    let kinds = std::mem::take(&mut *hook.kinds.lock());
    assert_eq!(kinds.len(), 8);
    let refused = Err(ErrorKind::InvalidArgument);
    assert!(kinds.iter().all(|kind| *kind == refused), "{kinds:?}");
    assert_eq!(another.get(b"k").unwrap().unwrap(), "copied");

    let kinds = db.barrier(|_| waiting_calls(&db)).unwrap();
    assert!(kinds.iter().all(|kind| *kind == refused), "{kinds:?}");
    // A barrier that panics leaves the queue to others.
    let panicked = catch_unwind(AssertUnwindSafe(|| db.barrier(|_| panic!("within"))));
    assert!(panicked.is_err());
    db.put(b"after", b"v").unwrap();
    assert_eq!(db.get(b"after").unwrap().unwrap(), "v");
}

#[test]
fn a_family_that_is_dropped_is_reported_before_it_is_gone() {
    let vfs = SimVfs::new();
    let copy = Arc::new(Copy::default());
    let db = open_with(&vfs, &copy);
    let other = db.create_column_family("other", manual()).unwrap();
    db.put(b"a", b"1").unwrap();
    other.put(b"b", b"2").unwrap();
    let at = db.snapshot().sequence().0;
    db.drop_column_family(&other).unwrap();
    assert_eq!(*copy.bypasses.lock(), [(other.id(), at)]);
    assert_eq!(*copy.contents.lock(), contents_of(&db));
}

#[test]
fn the_hook_does_not_see_what_is_never_visible() {
    let vfs = SimVfs::new();
    let copy = Arc::new(Copy::default());
    let db = open_with(&vfs, &copy);
    db.put(b"a", b"1").unwrap();
    let _fault = vfs.inject(Fault::on([OpKind::Append]).path("*.log"));
    assert!(db.put(b"b", b"2").is_err());
    assert_eq!(copy.contents.lock().len(), 1);
    db.resume().unwrap();
    db.put(b"c", b"3").unwrap();
    assert_eq!(*copy.contents.lock(), contents_of(&db));
    assert_eq!(copy.violations.load(Ordering::SeqCst), 0);
}

/// Collects tickets, and looks whether their batches can be read.
#[derive(Default)]
struct Tickets {
    told: Mutex<Vec<u64>>,
    db: OnceLock<Db>,
    unseen: AtomicU64,
}

impl CommitHook for Tickets {
    fn before_publish(&self, _: SequenceNumber, _: &CommittedOps<'_>) {}

    fn after_publish(&self, tickets: &mut dyn Iterator<Item = u64>) {
        for ticket in tickets {
            let found = self.db.get().unwrap().get(&key(ticket as usize));
            if found.unwrap().is_none() {
                self.unseen.fetch_add(1, Ordering::SeqCst);
            }
            self.told.lock().push(ticket);
        }
    }

    fn on_bypass(&self, _: &BypassedRange<'_>, _: SequenceNumber) {}
}

#[test]
fn the_hook_is_told_each_ticket_once_when_its_batch_is_visible_and_before_its_writer_returns() {
    const WRITES: usize = 300;
    let vfs = SimVfs::new();
    let hook = Arc::new(Tickets::default());
    let db = open_with(&vfs, &hook);
    hook.db.set(db.clone()).ok().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (db, hook) = (&db, &hook);
            scope.spawn(move || {
                for n in (0..WRITES).map(|n| n * 4 + thread) {
                    let mut batch = WriteBatch::new();
                    batch.set_ticket(n as u64);
                    batch.put(&**db, key(n), b"v").unwrap();
                    if n % 7 == 0 {
                        batch.delete_range(&**db, b"b", b"a").unwrap();
                    }
                    let refused = db.write(batch, &WriteOptions::default()).is_err();
                    assert_eq!(refused, n % 7 == 0);
                    assert_ne!(refused, hook.told.lock().contains(&(n as u64)), "{n}");
                    // Writes without a ticket are in groups with others.
                    db.put(b"other", b"").unwrap();
                }
            });
        }
    });
    let mut told = hook.told.lock().clone();
    told.sort_unstable();
    let expected: Vec<u64> = (0..4 * WRITES as u64).filter(|n| n % 7 != 0).collect();
    assert_eq!(told, expected);
    assert_eq!(hook.unseen.load(Ordering::SeqCst), 0);
}
