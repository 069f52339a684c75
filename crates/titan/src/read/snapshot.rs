//! Snapshots: sequence numbers that compactions must respect.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::format::SequenceNumber;
use crate::sync::Mutex;
use crate::version::Watch;

/// The snapshots alive, by sequence number.
#[derive(Default)]
pub(crate) struct SnapshotList {
    alive: Mutex<BTreeMap<SequenceNumber, LiveSnapshot>>,
    /// Called back whenever the oldest one is gone.
    pub(crate) watch: Watch,
}

/// The snapshots of one sequence number.
#[derive(Clone, Copy)]
pub(crate) struct LiveSnapshot {
    pub(crate) count: usize,
    /// When the first of them was taken, by
    /// [`SystemClock::monotonic`](crate::SystemClock::monotonic).
    pub(crate) since: Duration,
}

impl SnapshotList {
    /// Takes a snapshot, `now`, at the number that `last_sequence` returns. That function is called
    /// under the list's lock: a job that reads the list before has only inputs that the snapshot
    /// sees whole, and one that reads it after knows the snapshot.
    pub(crate) fn take(
        self: &Arc<Self>,
        now: Duration,
        last_sequence: impl FnOnce() -> SequenceNumber,
    ) -> Snapshot {
        let (mut alive, sequence) = if mutant!(snapshot_outside_the_lock) {
            let sequence = last_sequence();
            gate!("snapshot: number chosen");
            (self.alive.lock(), sequence)
        } else {
            let alive = self.alive.lock();
            let sequence = last_sequence();
            gate!("snapshot: number chosen");
            (alive, sequence)
        };
        let first = LiveSnapshot {
            count: 0,
            since: now,
        };
        // Every older one was published before.
        invariant!(
            alive
                .last_key_value()
                .is_none_or(|(newest, _)| *newest <= sequence),
            "a snapshot at {sequence} is taken after one that sees more"
        );
        alive.entry(sequence).or_insert(first).count += 1;
        Snapshot {
            inner: Arc::new(Inner {
                sequence,
                list: Arc::clone(self),
            }),
        }
    }

    /// The sequence numbers alive, ascending.
    pub(crate) fn sequences(&self) -> Vec<SequenceNumber> {
        self.alive.lock().keys().copied().collect()
    }

    /// The snapshots alive, by ascending sequence number.
    pub(crate) fn alive(&self) -> Vec<(SequenceNumber, LiveSnapshot)> {
        self.alive.lock().iter().map(|(s, l)| (*s, *l)).collect()
    }

    /// The oldest sequence number alive.
    pub(crate) fn oldest(&self) -> Option<SequenceNumber> {
        self.alive.lock().keys().next().copied()
    }

    /// Whether a thread has the list locked now.
    #[cfg(all(test, not(any(loom, shuttle))))]
    pub(crate) fn is_locked(&self) -> bool {
        self.alive.is_locked()
    }

    /// Number of snapshots that are alive.
    pub(crate) fn len(&self) -> usize {
        self.alive.lock().values().map(|at| at.count).sum()
    }
}

struct Inner {
    sequence: SequenceNumber,
    list: Arc<SnapshotList>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        let mut alive = self.list.alive.lock();
        let Some(at) = alive.get_mut(&self.sequence) else {
            // A panic in a destructor may end the process.
            invariant!(
                std::thread::panicking(),
                "a snapshot at {} ends and is not in the list",
                self.sequence
            );
            return;
        };
        invariant!(
            at.count > 0 || std::thread::panicking(),
            "a snapshot at {} ends that nobody has",
            self.sequence
        );
        at.count -= 1;
        if at.count > 0 {
            return;
        }
        alive.remove(&self.sequence);
        let was_oldest = alive.keys().next().is_none_or(|next| *next > self.sequence);
        drop(alive);
        if was_oldest {
            self.list.watch.notify();
        }
    }
}

/// The database as of one moment. Reads through it see nothing newer. While it is alive,
/// compactions keep the entries that it sees; drop all clones to release it.
#[derive(Clone)]
pub struct Snapshot {
    inner: Arc<Inner>,
}

impl Snapshot {
    /// The newest sequence number that the snapshot sees.
    pub fn sequence(&self) -> SequenceNumber {
        self.inner.sequence
    }

    /// The same, for the database that has the snapshots in `list`.
    ///
    /// # Errors
    /// `InvalidArgument` if it is not of that database.
    pub(crate) fn sequence_in(&self, list: &Arc<SnapshotList>) -> Result<SequenceNumber> {
        match Arc::ptr_eq(&self.inner.list, list) {
            true => Ok(self.inner.sequence),
            false => Err(Error::invalid_argument(
                "the snapshot is of another database, or of an earlier opening of this one",
            )),
        }
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Snapshot({})", self.inner.sequence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_counts_until_its_last_clone_is_gone() {
        let list = Arc::new(SnapshotList::default());
        let at = Duration::from_secs;
        let a = list.take(at(1), || SequenceNumber(5));
        let b = list.take(at(2), || SequenceNumber(5));
        let c = list.take(at(3), || SequenceNumber(9));
        let since: Vec<_> = list.alive().iter().map(|(_, at)| at.since).collect();
        assert_eq!(since, [at(1), at(3)]);
        assert_eq!(list.sequences(), [SequenceNumber(5), SequenceNumber(9)]);
        let a2 = a.clone();
        drop((a, b));
        assert_eq!(list.len(), 2);
        drop(a2);
        assert_eq!(list.sequences(), [SequenceNumber(9)]);
        drop(c);
        assert!(list.sequences().is_empty());
    }
}
