//! Jobs that meet conflicts, and jobs that fail.

use titan_mvcc::StoreOptions;

use super::*;

/// All jobs add to the same counter, so that many meet conflicts.
struct Adds;

impl Work for Adds {
    fn read(&self, _: u64, store: &Store) -> Result<Job> {
        let mut transaction = store.begin();
        let count = transaction.get(b"count")?.map_or(0, |count| count[0]);
        transaction.put(b"count", &[count.wrapping_add(1)]);
        Ok(Job {
            scans: false,
            transaction: Some(transaction),
        })
    }
}

#[test]
fn every_job_is_done_once_whatever_its_conflicts() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), &StoreOptions::default()).unwrap();
    let shift = Shift {
        store: &store,
        work: &Adds,
        rate: 1_000.0,
        seconds: 0.2,
        first: 0,
        interrupted: &AtomicBool::new(false),
    };
    let mut looks = Vec::new();
    let done = run(&shift, &mut |at| {
        looks.push(at);
        Ok(())
    });
    let done = done.unwrap();
    assert_eq!(done.reads.len() as u64 + done.missed, 200);
    assert_eq!((done.commits.len(), done.next), (done.reads.len(), 200));
    let count = store.snapshot().get(b"count").unwrap().unwrap()[0];
    assert_eq!(usize::from(count), done.commits.len());
    assert!(!looks.is_empty());
    store.close().unwrap();
}

#[test]
fn an_error_ends_the_run() {
    struct Fails;
    impl Work for Fails {
        fn read(&self, number: u64, _: &Store) -> Result<Job> {
            anyhow::ensure!(number < 3, "no more");
            Ok(Job {
                scans: false,
                transaction: None,
            })
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), &StoreOptions::default()).unwrap();
    let shift = Shift {
        store: &store,
        work: &Fails,
        rate: 10_000.0,
        seconds: 3_600.0,
        first: 0,
        interrupted: &AtomicBool::new(false),
    };
    let failed = run(&shift, &mut |_| Ok(())).err().unwrap();
    assert_eq!(failed.to_string(), "no more");
    store.close().unwrap();
}
