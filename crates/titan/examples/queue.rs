//! A queue of jobs that survives its process: each job is done at least once.
//!
//! A job that is taken moves from the family `waiting` to `running`, in one batch. An opening puts
//! jobs back that a worker took and never finished.
//!
//! `cargo run -p titandb --example queue`

use std::path::Path;
use std::sync::{Mutex, MutexGuard};

use titan::{Bytes, ColumnFamily, Db, Error, Options, Result, WriteBatch, WriteOptions};

struct Queue {
    db: Db,
    waiting: ColumnFamily,
    running: ColumnFamily,
    ends: Mutex<Ends>,
}

/// Numbers of jobs: of the next one to take, and of the next one to be added.
struct Ends {
    first: u64,
    next: u64,
}

/// A job that a worker has taken.
struct Job {
    number: u64,
    text: Bytes,
}

impl Queue {
    fn open(path: &Path) -> Result<Self> {
        let db = Db::open(path, &Options::default())?;
        let waiting = db.open_or_create_column_family("waiting", Default::default())?;
        let running = db.open_or_create_column_family("running", Default::default())?;
        let mut back = WriteBatch::new();
        for row in running.range(..) {
            let (number, text) = row?;
            back.put(&waiting, &number, text)?;
            back.delete(&running, number)?;
        }
        db.write(back, &WriteOptions::default())?;
        let last = waiting.last_key_value()?;
        let next = last.map_or(0, |(last, _)| number(&last) + 1);
        let ends = Mutex::new(Ends { first: 0, next });
        Ok(Queue {
            db,
            waiting,
            running,
            ends,
        })
    }

    fn ends(&self) -> Result<MutexGuard<'_, Ends>> {
        let ends = self.ends.lock();
        ends.map_err(|_| Error::internal("another thread panicked"))
    }

    /// Adds a job at the end. It survives a power failure once this has returned.
    fn push(&self, text: &str) -> Result<()> {
        let mut ends = self.ends()?;
        let key = ends.next.to_be_bytes(); // big-endian: numbers in the order of keys
        self.waiting.put_with(key, text, &WriteOptions::synced())?;
        ends.next += 1;
        Ok(())
    }

    /// Takes the first job.
    fn take(&self) -> Result<Option<Job>> {
        let mut ends = self.ends()?;
        // From the job that was taken last on: the deleted ones before it cost nothing.
        let Some(row) = self.waiting.range(ends.first.to_be_bytes()..).next() else {
            return Ok(None);
        };
        let (key, text) = row?;
        let mut batch = WriteBatch::new();
        batch.delete(&self.waiting, &key)?;
        batch.put(&self.running, &key, &text)?;
        self.db.write(batch, &WriteOptions::default())?;
        let number = number(&key);
        ends.first = number + 1;
        Ok(Some(Job { number, text }))
    }

    /// Forgets a job that was done.
    fn finish(&self, job: &Job) -> Result<()> {
        self.running.delete(job.number.to_be_bytes())
    }
}

fn number(key: &[u8]) -> u64 {
    key.iter()
        .fold(0, |number, &byte| number << 8 | u64::from(byte))
}

pub(crate) fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let queue = Queue::open(dir.path())?;
    for n in 0..50 {
        queue.push(&format!("job {n:02}"))?;
    }
    let first = queue.take()?.ok_or("no job")?;
    assert_eq!((first.number, &first.text[..]), (0, &b"job 00"[..]));
    queue.db.close()?; // the worker ends, and has not finished its job
    drop(queue);

    let queue = Queue::open(dir.path())?;
    let work = || {
        let mut done = Vec::new();
        while let Some(job) = queue.take()? {
            queue.finish(&job)?;
            done.push(job.text);
        }
        Ok::<_, titan::Error>(done)
    };
    let done = std::thread::scope(|scope| {
        let workers = [(); 3].map(|()| scope.spawn(work));
        let done = workers.map(|worker| worker.join().map_err(|_| "a worker panicked"));
        done.into_iter().collect::<std::result::Result<Vec<_>, _>>()
    })?;
    let mut done = done.into_iter().collect::<Result<Vec<_>>>()?.concat();
    done.sort();
    let all: Vec<String> = (0..50).map(|n| format!("job {n:02}")).collect();
    assert_eq!(done, all);
    assert_eq!(queue.running.keys(..).count(), 0);
    queue.db.close()?;
    Ok(())
}
