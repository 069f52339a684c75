//! Models of a reader while memtables are switched, flushed and replaced by a version.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::db::core::family::Family;
use crate::db::core::new_family::family_state;
use crate::db::core::state::{FamilyState, Immutable};
use crate::format::internal_key::{InternalKeyComparator, ValueType};
use crate::format::{BytewiseComparator, ColumnFamilyId, FileNumber, SequenceNumber};
use crate::memtable::Memtable;
use crate::options::ColumnFamilyOptions;
use crate::read::{SnapshotList, SuperVersion};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Mutex, model, spawn};
use crate::version::{self, Counters, Version};

fn comparator() -> InternalKeyComparator {
    InternalKeyComparator::new(Arc::new(BytewiseComparator))
}

fn version() -> Arc<Version> {
    Arc::new(Version::empty(ColumnFamilyId::DEFAULT, comparator(), 2))
}

fn state() -> FamilyState {
    let name = "default".to_owned();
    let recorded = version::FamilyVersions::new(name, comparator(), FileNumber(1), version());
    let options = Arc::new(ColumnFamilyOptions::default());
    family_state(
        ColumnFamilyId::DEFAULT,
        &recorded,
        options,
        FileNumber(1),
        None,
    )
}

/// A key written again with each sequence number; the first entry is flushed in between.
struct Model {
    family: Arc<Family>,
    state: Mutex<FamilyState>,
    /// Stands for the table that the flush of the first memtable writes.
    flushed: Arc<Version>,
    counters: Counters,
    acknowledged: AtomicU64,
}

impl Model {
    fn new() -> Arc<Self> {
        let state = state();
        Arc::new(Model {
            family: Arc::clone(&state.family),
            state: Mutex::new(state),
            flushed: version(),
            counters: Counters::default(),
            acknowledged: AtomicU64::new(0),
        })
    }

    /// As the leader of the commit queue does it.
    fn write(&self, sequence: u64) {
        let memtable = Arc::clone(&self.family.super_version.load().memtable);
        let sequence = SequenceNumber(sequence);
        memtable
            .add(sequence, ValueType::Value, b"key", b"")
            .unwrap();
        self.counters.publish_sequence(sequence);
        self.acknowledged.store(sequence.0, Ordering::Release);
    }

    /// As `Shared::start_wal`.
    fn switch(&self) {
        let mut state = self.state.lock();
        let fresh = Memtable::new(comparator(), 0);
        let full = std::mem::replace(&mut state.memtable, fresh);
        state.immutables.push_back(Immutable {
            memtable: full,
            log_number: FileNumber(1),
        });
        drop(state.publish());
    }

    /// As `Shared::install_flushes`.
    fn install(&self) {
        let mut state = self.state.lock();
        if state.immutables.is_empty() {
            return;
        }
        state.immutables = VecDeque::new();
        state.version = Arc::clone(&self.flushed);
        drop(state.publish());
    }

    /// The newest entry of the key that a reader with this super version sees.
    fn newest(&self, taken: &SuperVersion, visible: SequenceNumber) -> u64 {
        let in_memory = taken.memtables().find_map(|m| m.get(b"key", visible));
        let in_memory = in_memory.map(|entry| entry.sequence.0);
        let in_tables = u64::from(Arc::ptr_eq(&taken.version, &self.flushed));
        in_memory.unwrap_or(in_tables)
    }
}

#[test]
fn a_reader_finds_what_was_acknowledged_before_it_came() {
    model(2, || {
        let model = Model::new();
        let writer = Arc::clone(&model);
        let writer = spawn(move || {
            writer.write(1);
            writer.switch();
            writer.write(2);
        });
        let flusher = Arc::clone(&model);
        let flusher = spawn(move || flusher.install());
        let acknowledged = model.acknowledged.load(Ordering::Acquire);
        let taken = model.family.super_version.load();
        let visible = model.counters.last_sequence();
        let newest = model.newest(&taken, visible);
        assert!(
            newest >= acknowledged,
            "{acknowledged} was acknowledged, found is {newest}"
        );
        writer.join().unwrap();
        flusher.join().unwrap();
        let taken = model.family.super_version.load();
        assert_eq!(model.newest(&taken, SequenceNumber(2)), 2);
    });
}

/// A job reads the list of snapshots and drops entries that none of them sees. A snapshot taken
/// meanwhile must be in that list, or see the entry that has replaced the dropped one.
#[test]
fn a_snapshot_never_sees_what_a_job_drops() {
    model(3, || {
        let counters = Arc::new(Counters::default());
        let list = Arc::new(SnapshotList::default());
        counters.publish_sequence(SequenceNumber(1));
        let job = {
            let (counters, list) = (Arc::clone(&counters), Arc::clone(&list));
            spawn(move || {
                // The first entry is overwritten; the flush or compaction that meets both:
                counters.publish_sequence(SequenceNumber(2));
                !list.sequences().contains(&SequenceNumber(1))
            })
        };
        let snapshot = list.take(std::time::Duration::ZERO, || counters.last_sequence());
        let dropped = job.join().unwrap();
        assert!(
            !dropped || snapshot.sequence() == SequenceNumber(2),
            "the snapshot sees an entry that is gone"
        );
    });
}
