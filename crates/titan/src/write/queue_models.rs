//! The commit queue under every schedule of a few writers. A lost wake-up, or a lead that is not
//! passed on, leaves a writer waiting, which the model checker reports.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::queue::{CommitQueue, Group, Lead};
use crate::batch::WriteBatch;
use crate::error::{Error, ErrorKind, Result};
use crate::format::ColumnFamilyId;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Mutex, model, spawn, thread};
use crate::write::WriteOptions;

/// The queue, and the state that its leaders share: the last sequence number. It is relaxed and not
/// added to in one step: only the order that the queue itself makes lets two leaders see each
/// other's number.
#[derive(Default)]
struct Committed {
    queue: CommitQueue,
    last_sequence: AtomicU64,
    /// The marks of batches in groups that succeeded.
    succeeded: Mutex<Vec<u8>>,
}

/// The key of a batch's only operation; its empty value is the last byte.
fn mark_of(batch: &WriteBatch) -> u8 {
    let data = batch.data();
    data[data.len() - 2]
}

fn batch(mark: u8) -> WriteBatch {
    let mut batch = WriteBatch::new();
    batch.put(ColumnFamilyId::DEFAULT, [mark], b"").unwrap();
    batch
}

impl Committed {
    fn next(&self) -> u64 {
        let next = self.last_sequence.load(Ordering::Relaxed) + 1;
        self.last_sequence.store(next, Ordering::Relaxed);
        next
    }

    /// Commits a batch; its whole group fails if this writer leads it and `fails`.
    fn submit(&self, mark: u8, fails: bool) -> Result<()> {
        let commit = |_: &Lead<'_>, group: &mut Group| {
            for batch in &group.batches {
                assert_eq!(batch.count(), 1, "a batch that another leader took");
                self.next();
            }
            match fails {
                true => Err(Error::new(ErrorKind::Io, "the leader failed")),
                false => {
                    let marks = group.batches.iter().map(mark_of);
                    self.succeeded.lock().extend(marks);
                    Ok(())
                }
            }
        };
        self.queue
            .submit(&mut batch(mark), None, WriteOptions::default(), commit)
    }
}

fn two_writers(committed: &Arc<Committed>) -> [thread::JoinHandle<()>; 2] {
    [0, 1].map(|mark| {
        let committed = Arc::clone(committed);
        spawn(move || committed.submit(mark, false).unwrap())
    })
}

#[test]
fn each_batch_is_committed_once_by_one_leader_at_a_time() {
    model(3, || {
        let committed = Arc::new(Committed::default());
        let writers = two_writers(&committed);
        committed.submit(2, false).unwrap();
        writers.into_iter().for_each(|w| w.join().unwrap());
        assert_eq!(committed.last_sequence.load(Ordering::Relaxed), 3);
        assert_eq!(
            committed.queue.exclusive(|_| Ok(committed.next())).unwrap(),
            4
        );
    });
}

#[test]
fn an_exclusive_section_excludes_all_others() {
    model(3, || {
        let committed = Arc::new(Committed::default());
        let writers = two_writers(&committed);
        let alone = committed.queue.exclusive(|_| {
            let first = committed.next();
            thread::yield_now();
            assert_eq!(committed.next(), first + 1, "somebody committed meanwhile");
            Ok(())
        });
        alone.unwrap();
        writers.into_iter().for_each(|w| w.join().unwrap());
        assert_eq!(committed.last_sequence.load(Ordering::Relaxed), 4);
    });
}

#[test]
fn a_leader_that_fails_or_panics_passes_the_lead_on() {
    model(2, || {
        let committed = Arc::new(Committed::default());
        let failing = Arc::clone(&committed);
        let failing = spawn(move || failing.submit(0, true));
        let panicking = Arc::clone(&committed);
        let panicking = spawn(move || {
            let commit = |_: &Lead<'_>, _: &mut Group| -> Result<()> {
                std::panic::resume_unwind(Box::new(()))
            };
            let submit = || {
                panicking
                    .queue
                    .submit(&mut batch(1), None, WriteOptions::default(), commit)
            };
            catch_unwind(AssertUnwindSafe(submit))
        });
        // In a group with others, each has the leader's result.
        let own = committed.submit(2, false);
        let failed = failing.join().unwrap();
        let panicked = panicking.join().unwrap();
        let succeeded = committed.succeeded.lock().clone();
        let results = [Some(failed), panicked.ok(), Some(own)];
        for (mark, result) in (0..).zip(results) {
            let told = result.map(|result| result.map_err(|e| e.kind()));
            match succeeded.contains(&mark) {
                true => assert_eq!(told, Some(Ok(()))),
                false => assert!(
                    matches!(told, None | Some(Err(ErrorKind::Io | ErrorKind::Internal))),
                    "{mark}: {told:?}"
                ),
            }
        }
        committed.queue.exclusive(|_| Ok(())).unwrap();
    });
}
