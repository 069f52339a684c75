//! Runs jobs on all cores and watches each: a job without progress for too long is reported as a
//! hang and abandoned.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use titan_testkit::failure::{self, CheckFailure, Checked};

use crate::run::Run;

/// A job without progress for this long is taken to hang.
const HANG: Duration = Duration::from_secs(120);
/// The interval at which the jobs are checked.
const LOOK: Duration = Duration::from_millis(200);

type Describe = Box<dyn Fn() -> String + Send>;

/// A job's connection to the run.
pub struct Task {
    /// When the current step started, and its description.
    step: Mutex<(Instant, Describe)>,
    passed: AtomicU64,
    cancelled: AtomicBool,
    tell: Sender<(usize, Told)>,
    id: usize,
}

enum Told {
    Failure(String),
    Done,
}

impl Task {
    /// Starts a new step. `describe` returns all that is needed to reproduce it, in case it
    /// hangs.
    pub fn step(&self, describe: impl Fn() -> String + Send + 'static) {
        *self.step.lock() = (Instant::now(), Box::new(describe));
    }

    /// Notes progress within the current step.
    pub fn advance(&self) {
        self.step.lock().0 = Instant::now();
    }

    /// Counts `n` more passes.
    pub fn pass(&self, n: u64) {
        self.passed.fetch_add(n, Ordering::Relaxed);
    }

    /// Reports a failure. `what` has all that is needed to reproduce it.
    pub fn fail(&self, what: String) {
        // If this job was abandoned, the report is dropped.
        let _ = self.tell.send((self.id, Told::Failure(what)));
    }

    /// Whether the run continues, and the job with it.
    pub fn goes_on(&self) -> bool {
        !self.cancelled.load(Ordering::Relaxed)
    }

    fn hangs(&self, limit: Duration) -> Option<String> {
        let (since, describe) = &*self.step.lock();
        (since.elapsed() >= limit).then(describe)
    }
}

/// Runs jobs on all cores until none are left or the run ends, and reports to the run.
pub fn run_all<J: Send + 'static>(
    run: &Run,
    jobs: impl Iterator<Item = J>,
    work: impl Fn(J, &Task) + Send + Sync + 'static,
) {
    run_within(run, HANG, jobs, work);
}

fn run_within<J: Send + 'static>(
    run: &Run,
    limit: Duration,
    jobs: impl Iterator<Item = J>,
    work: impl Fn(J, &Task) + Send + Sync + 'static,
) {
    let work = Arc::new(work);
    let workers = thread::available_parallelism().map_or(2, usize::from);
    let mut jobs = jobs.take_while(|_| run.goes_on());
    let (tell, told) = channel();
    let mut busy: Vec<Arc<Task>> = Vec::new();
    let mut started = 0;
    loop {
        while busy.len() < workers
            && let Some(job) = jobs.next()
        {
            let task = Arc::new(Task {
                step: Mutex::new((Instant::now(), Box::new(String::new))),
                passed: AtomicU64::new(0),
                cancelled: AtomicBool::new(false),
                tell: tell.clone(),
                id: started,
            });
            if let Err(e) = start(job, Arc::clone(&task), Arc::clone(&work)) {
                return run.fail(format!("no thread for a job: {e}"));
            }
            busy.push(task);
            started += 1;
        }
        if busy.is_empty() {
            return;
        }
        let message = told.recv_timeout(LOOK);
        for task in &busy {
            match task.passed.swap(0, Ordering::Relaxed) {
                0 => {}
                passed => run.pass(passed),
            }
            task.cancelled.store(!run.goes_on(), Ordering::Relaxed);
        }
        match message {
            Ok((id, Told::Done)) => busy.retain(|task| task.id != id),
            Ok((_, Told::Failure(what))) => run.fail(what),
            Err(RecvTimeoutError::Timeout) => busy.retain(|task| match task.hangs(limit) {
                Some(what) => {
                    run.fail(format!("no progress for {limit:?}\n{what}"));
                    false
                }
                None => true,
            }),
            // Not possible: `tell` is here.
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

fn start<J: Send + 'static>(
    job: J,
    task: Arc<Task>,
    work: Arc<impl Fn(J, &Task) + Send + Sync + 'static>,
) -> std::io::Result<()> {
    let job = move || {
        let done = catch(|| {
            work(job, &task);
            Ok(())
        });
        if let Err(failure) = done {
            let (_, describe) = &*task.step.lock();
            task.fail(format!("{failure}\n{}", describe()));
        }
        let _ = task.tell.send((task.id, Told::Done));
    };
    thread::Builder::new().spawn(job).map(drop)
}

/// The result of `check`; turns a panic into a failure.
pub fn catch<T>(check: impl FnOnce() -> Checked<T>) -> Checked<T> {
    failure::catch(check, CheckFailure::Wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_job_is_done_once_and_failures_and_panics_are_told() {
        let run = Run::once(1);
        run_all(&run, 0..100u64, |job, task| {
            task.step(move || job.to_string());
            match job {
                98 => task.fail("ninety-eight".to_owned()),
                99 => panic!("ninety-nine"),
                _ => task.pass(job),
            }
        });
        let tally = run.tally();
        assert_eq!((tally.passed, tally.failed), ((0..98).sum(), 2));
    }

    #[test]
    fn a_job_that_stands_still_is_reported_and_left_behind() {
        let run = Run::once(1);
        let (keep, held) = channel::<()>();
        let held = Mutex::new(held);
        run_within(&run, Duration::from_millis(300), 0..4, move |job, task| {
            task.step(move || format!("job {job}"));
            match job {
                2 => drop(held.lock().recv()),
                _ => task.pass(1),
            }
        });
        drop(keep);
        let tally = run.tally();
        assert_eq!((tally.passed, tally.failed), (3, 1));
    }
}
