//! The commit pipeline without a database: memtables, a WAL file, and an environment that records
//! the stages.

use std::cmp::Ordering;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering as Memory};

use super::WriteOptions;
use super::conditions::{Checked, Condition};
use super::pipeline::{CommitEnv, CommitPipeline, Target};
use super::queue::{Group, Lead};
use super::wal_set::WalSet;
use crate::batch::WriteBatch;
use crate::error::{Error, ErrorKind, Result};
use crate::format::file_name::FileKind;
use crate::format::internal_key::InternalKeyComparator;
use crate::format::{BytewiseComparator, ColumnFamilyId, Comparator, FileNumber, SequenceNumber};
use crate::memtable::Memtable;
use crate::number_map::NumberMap;
use crate::stats::Statistics;
use crate::version::Counters;
use crate::vfs::{Access, StdVfs, Vfs};
use crate::wal::{LogReader, TailMode};

pub(super) const FAMILY: ColumnFamilyId = ColumnFamilyId(3);
pub(super) const WAL: FileNumber = FileNumber(7);

/// Panics at the key "panic" once it is told to.
#[derive(Default)]
pub(super) struct Panicking(pub(super) AtomicBool);

impl Comparator for Panicking {
    fn name(&self) -> &'static str {
        "panicking"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        let panics = self.0.load(Memory::Relaxed) && [a, b].contains(&&b"panic"[..]);
        assert!(!panics, "a comparison fails");
        BytewiseComparator.compare(a, b)
    }
}

/// A database that consists of one memtable.
pub(super) struct Env {
    memtables: NumberMap<ColumnFamilyId, Arc<Memtable>>,
    counters: Arc<Counters>,
    stopped: Mutex<Option<Error>>,
    /// The stages that have run, with the newest visible sequence number at that moment.
    stages: Mutex<Vec<(&'static str, u64)>>,
}

impl Env {
    fn note(&self, stage: &'static str) {
        let visible = self.counters.last_sequence().0;
        self.stages.lock().unwrap().push((stage, visible));
    }

    pub(super) fn stages(&self) -> Vec<(&'static str, u64)> {
        std::mem::take(&mut *self.stages.lock().unwrap())
    }
}

impl CommitEnv for Env {
    type Family = ();

    fn check_writable(&self) -> Result<()> {
        match &*self.stopped.lock().unwrap() {
            Some(_) => Err(Error::new(ErrorKind::WritesStopped, "stopped")),
            None => Ok(()),
        }
    }

    fn admit(&self, _: &Lead<'_>, _: &Group) -> Result<()> {
        self.note("admit");
        Ok(())
    }

    fn target(&self, id: ColumnFamilyId) -> Result<Target<()>> {
        self.note("resolve");
        let memtable = self.memtables.get(&id);
        let memtable = memtable.ok_or_else(|| Error::invalid_argument("no such family"))?;
        Ok(Target {
            id,
            family: (),
            memtable: Arc::clone(memtable),
        })
    }

    fn check_merges(&self, (): &()) -> Result<()> {
        Err(Error::invalid_argument("no merge operator"))
    }

    fn validate(&self, condition: &Condition, _: SequenceNumber, is_newer: bool) -> Result<()> {
        self.note("validate");
        match is_newer {
            true => Err(self.conflict(condition)),
            false => Ok(()),
        }
    }

    fn conflict(&self, _: &Condition) -> Error {
        Error::new(ErrorKind::Conflict, "conflict")
    }

    fn stop(&self, error: Error) -> Error {
        self.note("stop");
        *self.stopped.lock().unwrap() = Some(error.clone());
        error
    }

    fn stop_after_panic(&self) {
        self.stop(Error::internal("a panic"));
    }

    fn inserted(&self, targets: &[Target<()>], group: &Group, last: SequenceNumber) {
        assert_eq!(targets.len(), 1);
        assert!(last >= group.batches[0].sequence());
        self.note(match group.options.disable_wal {
            true => "not logged",
            false => "logged",
        });
    }

    fn published(&self, _: &[Target<()>]) {
        self.note("published");
    }
}

pub(super) struct World {
    pub(super) dir: tempfile::TempDir,
    pub(super) pipeline: CommitPipeline,
    pub(super) env: Env,
    pub(super) comparator: Arc<Panicking>,
    memtable: Arc<Memtable>,
}

impl World {
    pub(super) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let statistics = Arc::new(Statistics::default());
        let counters = Arc::new(Counters::default());
        let wal = WalSet::new(
            Arc::new(StdVfs),
            dir.path().to_owned(),
            true,
            Arc::clone(&statistics),
        );
        let mut pipeline = CommitPipeline::new(wal, Arc::clone(&counters), statistics, None);
        pipeline.start_first_wal(WAL).unwrap();
        let comparator = Arc::new(Panicking::default());
        let order = InternalKeyComparator::new(Arc::clone(&comparator) as _);
        let memtable = Memtable::new(order, 1 << 20);
        let env = Env {
            memtables: NumberMap::from([(FAMILY, Arc::clone(&memtable))]),
            counters,
            stopped: Mutex::default(),
            stages: Mutex::default(),
        };
        World {
            dir,
            pipeline,
            env,
            comparator,
            memtable,
        }
    }

    pub(super) fn write(&self, mut batch: WriteBatch, options: WriteOptions) -> Result<()> {
        self.pipeline.write(&self.env, &mut batch, None, options)
    }

    /// The value of a key that readers see.
    pub(super) fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        let entry = self.memtable.get(key, self.env.counters.last_sequence())?;
        Some(entry.value.to_vec())
    }

    /// Number of groups in the WAL.
    fn groups_logged(&self) -> usize {
        let path = FileKind::Wal(WAL).path(self.dir.path());
        let file = StdVfs.open(&path, Access::Sequential).unwrap();
        let mut log = LogReader::new(file, &path, WAL, TailMode::PointInTime);
        let mut records = 0;
        while log.next().unwrap().is_some() {
            records += 1;
        }
        // Less the record of the predecessor.
        records - 1
    }
}

fn batch(family: ColumnFamilyId, keys: &[&[u8]]) -> WriteBatch {
    let mut batch = WriteBatch::new();
    for key in keys {
        batch.put(family, key, b"value").unwrap();
    }
    batch
}

#[test]
fn a_group_is_logged_and_inserted_before_it_is_published() {
    let world = World::new();
    let keys: [&[u8]; 2] = [b"a", b"b"];
    let plain = WriteOptions::default();
    world.write(batch(FAMILY, &keys), plain).unwrap();
    let stages = [
        ("admit", 0),
        ("resolve", 0),
        ("logged", 0),
        ("published", 2),
    ];
    assert_eq!(world.env.stages(), stages);
    assert_eq!(world.get(b"b").as_deref(), Some(&b"value"[..]));
    assert_eq!(world.groups_logged(), 1);

    let unlogged = WriteOptions {
        disable_wal: true,
        ..plain
    };
    world.write(batch(FAMILY, &[b"c"]), unlogged).unwrap();
    assert_eq!(
        world.env.stages()[2..],
        [("not logged", 2), ("published", 3)]
    );
    assert_eq!(world.groups_logged(), 1);
    assert!(world.get(b"c").is_some());
}

#[test]
fn a_batch_that_cannot_be_applied_is_refused_before_it_is_logged() {
    let world = World::new();
    let refused = world.write(batch(ColumnFamilyId(4), &[b"a"]), WriteOptions::default());
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(world.env.stages(), [("admit", 0), ("resolve", 0)]);
    let mut backwards = WriteBatch::new();
    backwards.delete_range(FAMILY, b"b", b"a").unwrap();
    let refused = world.write(backwards, WriteOptions::default());
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(world.groups_logged(), 0);
    world
        .write(batch(FAMILY, &[b"a"]), WriteOptions::default())
        .unwrap();
    assert_eq!(world.env.counters.last_sequence().0, 1);
}

#[test]
fn a_failed_append_stops_writes_and_nothing_is_visible() {
    let world = World::new();
    world.pipeline.close_wal();
    let failed = world.write(batch(FAMILY, &[b"a"]), WriteOptions::default());
    assert!(failed.is_err());
    assert_eq!(world.env.stages().last(), Some(&("stop", 0)));
    assert_eq!(world.get(b"a"), None);
    let stopped = world.write(batch(FAMILY, &[b"a"]), WriteOptions::default());
    assert_eq!(stopped.unwrap_err().kind(), ErrorKind::WritesStopped);
    assert_eq!(world.env.stages(), []);
}

#[test]
fn a_panic_while_inserting_stops_writes_and_nothing_is_ever_visible() {
    let world = World::new();
    world
        .write(batch(FAMILY, &[b"before"]), WriteOptions::default())
        .unwrap();
    world.env.stages();
    world.comparator.0.store(true, Memory::Relaxed);
    let keys: [&[u8]; 2] = [b"half", b"panic"];
    let half = || world.write(batch(FAMILY, &keys), WriteOptions::default());
    assert!(catch_unwind(AssertUnwindSafe(half)).is_err());
    assert_eq!(world.env.stages().last(), Some(&("stop", 1)));
    // Not even once its sequence number is visible.
    world
        .env
        .counters
        .publish_sequence(crate::format::SequenceNumber(9));
    let accepted_to = world.memtable.accepted_to();
    assert_eq!(accepted_to.0, 1);
    let seen = world.memtable.get(b"half", accepted_to);
    assert!(seen.is_none());
    // The queue goes on.
    assert!(world.pipeline.exclusive(|_| Ok(())).is_ok());
}

/// A destructor may write while its thread unwinds, from any panic.
#[test]
fn a_commit_while_the_thread_unwinds_does_not_stop_writes() {
    struct WritesWhenDropped<'a>(&'a World);

    impl Drop for WritesWhenDropped<'_> {
        fn drop(&mut self) {
            let last_words = batch(FAMILY, &[b"last"]);
            self.0.write(last_words, WriteOptions::default()).unwrap();
        }
    }

    let world = World::new();
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        let _writes = WritesWhenDropped(&world);
        panic!("something else");
    }));
    assert!(unwound.is_err());
    assert!(world.get(b"last").is_some());
    world
        .write(batch(FAMILY, &[b"next"]), WriteOptions::default())
        .unwrap();
}

#[test]
fn a_batch_whose_condition_fails_is_refused_before_it_is_logged() {
    let world = World::new();
    let plain = WriteOptions::default();
    world.write(batch(FAMILY, &[b"a"]), plain).unwrap();
    world.env.stages();
    let if_unchanged = |checked_to| {
        let conditions = Arc::new(vec![Condition {
            family: FAMILY,
            key: b"a".to_vec(),
            since: SequenceNumber(0),
        }]);
        let checked_to = SequenceNumber(checked_to);
        Some(Box::new(Checked {
            conditions,
            checked_to,
        }))
    };
    let write = |keys: &[&[u8]], checked_to| {
        let (env, mut batch) = (&world.env, batch(FAMILY, keys));
        let as_before = batch.clone();
        let written = world
            .pipeline
            .write(env, &mut batch, if_unchanged(checked_to), plain);
        assert_eq!(batch, as_before);
        written.map_err(|e| e.kind())
    };
    assert_eq!(write(&[b"b"], 0), Err(ErrorKind::Conflict));
    let stages = [("admit", 1), ("resolve", 1), ("validate", 1)];
    assert_eq!(world.env.stages(), stages);
    assert_eq!((world.get(b"b"), world.groups_logged()), (None, 1));
    // It took no sequence number.
    assert_eq!(write(&[b"b"], 1), Ok(()));
    assert_eq!(world.env.counters.last_sequence().0, 2);
    // A batch with conditions and nothing else is validated, too.
    assert_eq!(write(&[], 1), Err(ErrorKind::Conflict));
    assert_eq!(write(&[], 2), Ok(()));
    assert_eq!(world.groups_logged(), 2);
}
