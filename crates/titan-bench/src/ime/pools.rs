//! Two pools of threads that do jobs at a fixed rate: readers read, writers commit.
//!
//! The loop is open: job `n` is due at `n / rate`, whether or not those before it have ended, and
//! its latency counts from then. So a read that is slow makes those that wait for it slow too, as
//! it would for users.
//!
//! A reader takes the next job when it is due, does its reads, and hands the transaction to the
//! writers. The processor time of reads and of commits is so that of different threads. A commit
//! that meets a conflict is begun again, by the writer.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{Builder, ScopedJoinHandle, scope, sleep};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use titan_mvcc::{Error, Store, Transaction};

use super::processor::{self, READER, WRITER};

/// Threads that read.
pub(super) const READERS: usize = 2;
/// The time between two looks at a run.
pub(super) const LOOK: Duration = Duration::from_millis(500);
/// Time after the end within which jobs that were due are still begun.
const GRACE: Duration = Duration::from_secs(5);
/// Sleeps are no longer, so that a run ends soon if it is interrupted.
const LONGEST_SLEEP: Duration = Duration::from_millis(50);

/// Work of the jobs.
pub(super) trait Work: Sync {
    /// Does the reads of a job. The same number gives the same job.
    fn read(&self, number: u64, store: &Store) -> Result<Job>;
}

/// A job whose reads are done.
pub(super) struct Job {
    /// Whether it scanned rows, beside or in place of single keys.
    pub(super) scans: bool,
    /// Writes to be committed.
    pub(super) transaction: Option<Transaction>,
}

/// So much work.
pub(super) struct Shift<'a> {
    pub(super) store: &'a Store,
    pub(super) work: &'a dyn Work,
    /// Jobs a second.
    pub(super) rate: f64,
    pub(super) seconds: f64,
    /// The number of the first job.
    pub(super) first: u64,
    pub(super) interrupted: &'a AtomicBool,
}

/// Durations of one kind of step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Latency {
    /// When its job was due, in seconds since the begin.
    pub(super) due: f64,
    pub(super) micros: f64,
    /// Processor time of a reader; that of a writer is not measured for each.
    pub(super) cpu_micros: f64,
    pub(super) scans: bool,
}

/// Steps that were done.
#[derive(Default)]
pub(super) struct Done {
    /// From when a job was due until its reads were done.
    pub(super) reads: Vec<Latency>,
    /// From when a transaction was handed to the writers until it was committed.
    pub(super) commits: Vec<Latency>,
    /// Transactions that were begun again.
    pub(super) conflicts: u64,
    /// Jobs that were due and never begun.
    pub(super) missed: u64,
    /// The number after that of the last job.
    pub(super) next: u64,
}

struct Handed {
    number: u64,
    due: f64,
    at: Instant,
    transaction: Transaction,
}

/// Runs the jobs. Calls `look` before them and every [`LOOK`], with the seconds since the begin.
///
/// # Errors
/// The first one of a job, of `look`, or of starting a thread. The other jobs have ended then.
pub(super) fn run(shift: &Shift<'_>, look: &mut dyn FnMut(f64) -> Result<()>) -> Result<Done> {
    let (next, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let began = Instant::now();
    let pool = Pool {
        shift,
        next: &next,
        stop: &stop,
        began,
    };
    let mut done = Done::default();
    scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        let mut threads = Vec::new();
        let pool = &pool;
        let named = Builder::new().name(WRITER.to_owned());
        threads.push(named.spawn_scoped(scope, move || pool.guarded(|| pool.write(&receiver)))?);
        for n in 0..READERS {
            let sender = sender.clone();
            let named = Builder::new().name(format!("{READER}-{n}"));
            threads.push(named.spawn_scoped(scope, move || pool.guarded(|| pool.read(&sender)))?);
        }
        drop(sender);
        let looked = pool.guarded(|| watch(began, &threads, look));
        for thread in threads {
            let part = thread.join().map_err(|_| anyhow!("a thread panicked"))??;
            done.reads.extend(part.reads);
            done.commits.extend(part.commits);
            done.conflicts += part.conflicts;
            done.missed += part.missed;
        }
        looked
    })?;
    done.next = shift.first + (shift.seconds * shift.rate).ceil() as u64;
    Ok(done)
}

fn watch<T>(
    began: Instant,
    threads: &[ScopedJoinHandle<'_, T>],
    look: &mut dyn FnMut(f64) -> Result<()>,
) -> Result<()> {
    for n in 0.. {
        let due = began + LOOK * n;
        while Instant::now() < due {
            if threads.iter().all(|thread| thread.is_finished()) {
                return Ok(());
            }
            sleep(
                due.saturating_duration_since(Instant::now())
                    .min(LONGEST_SLEEP),
            );
        }
        look(began.elapsed().as_secs_f64())?;
    }
    Ok(())
}

/// From when something was due until a moment.
fn micros_since(began: Instant, at: Instant, due: f64) -> f64 {
    (at.duration_since(began).as_secs_f64() - due).max(0.0) * 1e6
}

struct Pool<'a> {
    shift: &'a Shift<'a>,
    next: &'a AtomicU64,
    stop: &'a AtomicBool,
    began: Instant,
}

impl Pool<'_> {
    /// Stops all threads if this one fails.
    fn guarded<T>(&self, f: impl FnOnce() -> Result<T>) -> Result<T> {
        let result = f();
        if result.is_err() {
            self.stop.store(true, Relaxed);
        }
        result
    }

    fn is_over(&self) -> bool {
        self.stop.load(Relaxed) || self.shift.interrupted.load(Relaxed)
    }

    fn read(&self, sender: &Sender<Handed>) -> Result<Done> {
        // Else the kernel may wake a thread 50 us late. Where it cannot be set, latencies have that
        // in them.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let mut done = Done::default();
        let shift = self.shift;
        loop {
            let n = self.next.fetch_add(1, Relaxed);
            let due = n as f64 / shift.rate;
            if due >= shift.seconds || !self.wait(due) {
                return Ok(done);
            }
            if self.began.elapsed().as_secs_f64() > shift.seconds + GRACE.as_secs_f64() {
                done.missed += 1;
                continue;
            }
            let number = shift.first + n;
            let cpu = processor::time_of_this_thread();
            let job = shift.work.read(number, shift.store)?;
            let at = Instant::now();
            let cpu = processor::time_of_this_thread().saturating_sub(cpu);
            done.reads.push(Latency {
                due,
                micros: micros_since(self.began, at, due),
                cpu_micros: cpu.as_secs_f64() * 1e6,
                scans: job.scans,
            });
            if let Some(transaction) = job.transaction {
                // The writer is gone only if it failed, which ends the run.
                let _ = sender.send(Handed {
                    number,
                    due,
                    at,
                    transaction,
                });
            }
        }
    }

    /// Waits until a job is due. False if the run ends before.
    fn wait(&self, due: f64) -> bool {
        loop {
            if self.is_over() {
                return false;
            }
            let left = due - self.began.elapsed().as_secs_f64();
            if left <= 0.0 {
                return true;
            }
            sleep(Duration::from_secs_f64(left).min(LONGEST_SLEEP));
        }
    }

    fn write(&self, receiver: &Receiver<Handed>) -> Result<Done> {
        let mut done = Done::default();
        for handed in receiver {
            if self.is_over() {
                continue;
            }
            let mut transaction = Some(handed.transaction);
            while let Some(now) = transaction.take() {
                match now.commit() {
                    Ok(_) => {}
                    Err(Error::Conflict { .. }) => {
                        done.conflicts += 1;
                        let again = self.shift.work.read(handed.number, self.shift.store)?;
                        transaction = again.transaction;
                    }
                    Err(e) => return Err(e.into()),
                }
            }
            done.commits.push(Latency {
                due: handed.due,
                micros: handed.at.elapsed().as_secs_f64() * 1e6,
                cpu_micros: 0.0,
                scans: false,
            });
        }
        Ok(done)
    }
}

#[cfg(test)]
mod tests;
