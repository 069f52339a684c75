//! The commit queue with threads.

use super::*;
use crate::format::ColumnFamilyId;
use crate::stats::{PerfContext, PerfLevel};
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn every_batch_is_committed_once_and_nobody_overtakes_an_exclusive_turn() {
    let queue = CommitQueue::default();
    let (committed, inside) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (queue, committed, inside) = (&queue, &committed, &inside);
            scope.spawn(move || {
                for i in 0..500 {
                    if i % 50 == thread {
                        let alone = queue.exclusive(|_| {
                            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                            inside.fetch_sub(1, Ordering::SeqCst);
                            Ok(())
                        });
                        alone.unwrap();
                    }
                    let mut batch = WriteBatch::new();
                    batch.put(ColumnFamilyId::DEFAULT, b"k", b"v").unwrap();
                    let commit = |_: &Lead<'_>, group: &mut Group| {
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        committed.fetch_add(group.batches.len(), Ordering::SeqCst);
                        inside.fetch_sub(1, Ordering::SeqCst);
                        Ok(())
                    };
                    queue
                        .submit(&mut batch, None, WriteOptions::default(), commit)
                        .unwrap();
                }
            });
        }
    });
    assert_eq!(committed.load(Ordering::SeqCst), 2000);
}

#[test]
fn a_group_is_synced_if_any_of_it_asks() {
    let queue = CommitQueue::default();
    let waiting = |n| {
        while queue.line.lock().waiting.len() < n {
            std::thread::yield_now();
        }
    };
    let submit = |sync, commit: &dyn Fn(&Lead<'_>, &mut Group) -> Result<()>| {
        let mut batch = WriteBatch::new();
        batch.put(ColumnFamilyId::DEFAULT, b"k", b"v").unwrap();
        let options = WriteOptions {
            sync,
            ..WriteOptions::default()
        };
        queue.submit(&mut batch, None, options, commit).unwrap();
    };
    let groups = std::sync::Mutex::new(Vec::new());
    let note = |_: &Lead<'_>, group: &mut Group| {
        let seen = (group.batches.len(), group.options.sync);
        groups.lock().unwrap().push(seen);
        Ok(())
    };
    let alone = std::thread::scope(|scope| {
        queue.exclusive(|_| {
            // The first in line, which will lead, does not ask for a sync; another one of its
            // group does.
            for (n, sync) in [(1, false), (2, true), (3, false)] {
                scope.spawn(move || submit(sync, &note));
                waiting(n);
            }
            Ok(())
        })
    });
    alone.unwrap();
    assert_eq!(*groups.lock().unwrap(), [(3, true)]);
}

#[test]
fn a_leader_that_waits_refuses_those_that_do_not_want_to() {
    let queue = CommitQueue::default();
    let waiting = |n| {
        while queue.line.lock().waiting.len() != n {
            std::thread::yield_now();
        }
    };
    std::thread::scope(|scope| {
        let mut writers = Vec::new();
        let led = queue.exclusive(|lead| {
            for (n, no_slowdown) in [(1, true), (2, false), (3, true)] {
                let queue = &queue;
                writers.push(scope.spawn(move || {
                    let options = WriteOptions {
                        no_slowdown,
                        ..WriteOptions::default()
                    };
                    let mut batch = WriteBatch::new();
                    batch.put(ColumnFamilyId::DEFAULT, b"k", b"v").unwrap();
                    let as_before = batch.clone();
                    let result = queue.submit(&mut batch, None, options, |_, _| Ok(()));
                    assert_eq!(batch, as_before);
                    result
                }));
                waiting(n);
            }
            let busy = Error::new(crate::ErrorKind::Busy, "stalled");
            lead.refuse_waiting(|options| options.no_slowdown, &busy);
            waiting(1);
            Ok(())
        });
        led.unwrap();
        let results = writers.into_iter().map(|writer| writer.join().unwrap());
        let refused: Vec<bool> = results.map(|result| result.is_err()).collect();
        assert_eq!(refused, [true, false, true]);
    });
}

#[test]
fn a_refused_batch_fails_alone() {
    let queue = CommitQueue::default();
    let refused = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for bad in [false, true, false, true] {
            let (queue, refused) = (&queue, &refused);
            scope.spawn(move || {
                for _ in 0..500 {
                    let mut batch = WriteBatch::new();
                    let value: &[u8] = if bad { b"bad" } else { b"good" };
                    batch.put(ColumnFamilyId::DEFAULT, b"k", value).unwrap();
                    let commit = |_: &Lead<'_>, group: &mut Group| {
                        for index in 0..group.batches.len() {
                            if group.batches[index].data().ends_with(b"bad") {
                                group.refuse(index, Error::invalid_argument("bad"));
                                assert!(group.batches[index].is_empty());
                                refused.fetch_add(1, Ordering::SeqCst);
                            }
                        }
                        Ok(())
                    };
                    let result = queue.submit(&mut batch, None, WriteOptions::default(), commit);
                    assert_eq!(result.is_err(), bad);
                }
            });
        }
    });
    assert_eq!(refused.load(Ordering::SeqCst), 1000);
}

#[test]
fn a_batch_comes_back_with_the_sequence_number_that_it_had() {
    let queue = CommitQueue::default();
    for committed in [Ok(()), Err(Error::corruption("no"))] {
        let mut batch = WriteBatch::new();
        batch.put(ColumnFamilyId::DEFAULT, b"k", b"v").unwrap();
        batch.set_sequence(SequenceNumber(7));
        let before = batch.clone();
        let ended = queue.submit(&mut batch, None, WriteOptions::default(), |_, group| {
            group.batches[0].set_sequence(SequenceNumber(9));
            committed.clone()
        });
        assert_eq!(ended.is_ok(), committed.is_ok());
        assert_eq!(batch, before);
    }
}

#[test]
fn a_failure_reaches_the_whole_group_and_the_queue_goes_on() {
    let queue = CommitQueue::default();
    let batch = &mut WriteBatch::new();
    let failed = queue.submit(batch, None, WriteOptions::default(), |_, _| {
        Err(Error::corruption("no"))
    });
    assert!(failed.unwrap_err().is_corruption());
    queue
        .submit(batch, None, WriteOptions::default(), |_, _| Ok(()))
        .unwrap();
}

#[test]
fn a_writer_that_does_not_lead_has_its_wait_counted() {
    let queue = CommitQueue::default();
    let submit = || {
        let mut recorder = PerfContext::start(PerfLevel::EnableTime);
        let mut batch = WriteBatch::new();
        batch.put(ColumnFamilyId::DEFAULT, b"k", b"v").unwrap();
        let commit = |_: &Lead<'_>, _: &mut Group| Ok(());
        let done = queue.submit(&mut batch, None, WriteOptions::default(), commit);
        done.unwrap();
        recorder.take().write_thread_wait_nanos
    };
    assert_eq!(submit(), 0, "it leads at once");
    let waited = std::thread::scope(|scope| {
        let writer = queue.exclusive(|_| {
            let writer = scope.spawn(submit);
            while queue.waiting() == 0 {
                std::thread::yield_now();
            }
            Ok(writer)
        });
        writer.unwrap().join().unwrap()
    });
    assert!(waited > 0);
}
