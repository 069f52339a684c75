//! The background threads of an `Env`, and the choice of their next work.
//!
//! Owns: the threads, and for each [kind](Threads) of them the [line](Line) of databases that may
//! have something to do. A thread takes a database from its line, lets it [find](Member::find) a
//! job, runs that, and takes the next one. There are threads while there are databases.
//!
//! Promises: a call of [`raise`](Desk::raise) after a database looked for a job is not lost; a
//! panic ends at the database that it came from, and takes no thread; no thread is in a database
//! once [`Pool::detach`] has returned. Assumes: no lock of the engine is taken under that of the
//! pool, which is held for moments. So a destructor may raise something wherever it runs.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::line::Line;
use super::member::{Found, Member, Threads};
use super::order::{Class, Priority};
use crate::clock::{StdClock, SystemClock};
use crate::error::{Error, ErrorKind, Result};
use crate::format::OpeningId;
use crate::gates;
use crate::panics::contain;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::thread::{self, JoinHandle};
use crate::sync::{Condvar, Mutex};

/// A database that the threads serve.
struct Seat {
    member: Arc<dyn Member>,
    /// Number of workers that may serve it at once.
    max_jobs: usize,
    priority: Priority,
    /// Its writes are stalled, or soon will be.
    is_urgent: bool,
    /// No further thread serves it.
    closing: bool,
}

#[derive(Default)]
struct State {
    seats: BTreeMap<OpeningId, Seat>,
    workers: Line,
    collector: Line,
    warm_up: Line,
    /// Number of workers that there should be.
    max_workers: usize,
    /// Number of them that run long jobs, or look for one.
    long_jobs: usize,
    /// Databases that may have a long job for which no worker was left.
    held_back: BTreeSet<OpeningId>,
}

/// A thread's visit to a database.
struct Visit {
    id: OpeningId,
    member: Arc<dyn Member>,
    /// It counts as a long job until the database has said which job it has.
    may_be_long: bool,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Pool {
    state: Mutex<State>,
    raised_workers: Condvar,
    raised_collector: Condvar,
    raised_warm_up: Condvar,
    /// A thread has left a database.
    left: Condvar,
    /// Number of databases that are urgent.
    urgent: AtomicUsize,
    /// By name. Locked before the state. While it is locked, no database comes.
    threads: Mutex<BTreeMap<String, JoinHandle<()>>>,
}

#[cfg(not(any(loom, shuttle)))]
thread_local! {
    /// The pool of this thread, by address, and the database that it serves.
    static SERVES: Cell<(usize, Option<OpeningId>)> = const { Cell::new((0, None)) };
}

// The threads of a scheduler are coroutines of one thread.
#[cfg(loom)]
loom::thread_local! {
    static SERVES: Cell<(usize, Option<OpeningId>)> = Cell::new((0, None));
}
#[cfg(shuttle)]
shuttle::thread_local! {
    static SERVES: Cell<(usize, Option<OpeningId>)> = Cell::new((0, None));
}

impl State {
    fn line(&mut self, threads: Threads) -> &mut Line {
        match threads {
            Threads::Workers => &mut self.workers,
            Threads::Collector => &mut self.collector,
            Threads::WarmUp => &mut self.warm_up,
        }
    }

    /// Number of threads that there should be.
    fn wanted(&self, threads: Threads) -> usize {
        match threads {
            _ if self.seats.is_empty() => 0,
            Threads::Workers => self.max_workers,
            Threads::Collector => 1,
            Threads::WarmUp => usize::from(!self.warm_up.is_empty()),
        }
    }

    /// Number of threads that serve a database.
    fn inside_of(&self, id: OpeningId) -> usize {
        let lines = [&self.workers, &self.collector, &self.warm_up];
        lines.into_iter().map(|line| line.inside_of(id)).sum()
    }

    /// Whether one more worker may begin a long job. One of several is always left for flushes.
    fn may_begin_long(&self) -> bool {
        let most = self.max_workers.saturating_sub(1).max(1);
        self.long_jobs < most || mutant!(reserved_worker_given_away)
    }

    /// Takes the database that a thread is to serve.
    fn enter(&mut self, threads: Threads, now: Duration) -> Option<Visit> {
        let may_be_long = threads == Threads::Workers && self.may_begin_long();
        let State {
            seats,
            workers,
            collector,
            warm_up,
            ..
        } = self;
        let line = match threads {
            Threads::Workers => workers,
            Threads::Collector => collector,
            Threads::WarmUp => warm_up,
        };
        line.advance_to(now);
        let id = line.enter(|id, inside| {
            let seat = seats.get(&id).filter(|seat| !seat.closing)?;
            let most = match threads {
                Threads::Workers => seat.max_jobs,
                Threads::Collector | Threads::WarmUp => 1,
            };
            (inside < most).then_some(seat.priority)
        })?;
        let member = Arc::clone(&seats.get(&id)?.member);
        // Before the search: two workers that look at the same time must not both find one.
        self.long_jobs += usize::from(may_be_long);
        Some(Visit {
            id,
            member,
            may_be_long,
        })
    }

    /// A worker has ended a long job, or has found none.
    fn end_long(&mut self) {
        invariant!(self.long_jobs > 0, "a long job ends that did not begin");
        self.long_jobs -= 1;
        self.admit_held_back();
    }

    /// A database may have a long job, for which no worker was left when it was asked.
    fn hold_back(&mut self, id: OpeningId) {
        // One may have become free meanwhile, and nobody would tell the database.
        if self.may_begin_long() && !mutant!(held_back_too_late) {
            self.workers.raise(id);
        } else {
            self.held_back.insert(id);
        }
    }

    /// Another long job may begin: those that were held back look again.
    fn admit_held_back(&mut self) {
        for id in std::mem::take(&mut self.held_back) {
            if self.seats.contains_key(&id) {
                self.workers.raise(id);
            }
        }
    }

    /// Removes a database that no thread serves.
    fn remove(&mut self, id: OpeningId) -> Option<Seat> {
        invariant!(
            self.inside_of(id) == 0,
            "a database leaves that a thread serves"
        );
        for threads in Threads::ALL {
            self.line(threads).remove(id);
        }
        self.held_back.remove(&id);
        self.seats.remove(&id)
    }
}

impl Pool {
    /// For so many workers. No thread is started yet.
    pub(super) fn new(max_workers: usize) -> Arc<Self> {
        let pool = Arc::new(Pool::default());
        pool.state.lock().max_workers = max_workers;
        pool
    }

    /// Lets the threads serve a database, and starts those that are missing. So many workers may
    /// serve it at once.
    ///
    /// # Errors
    /// `Io` if a thread cannot be started. The caller detaches the database then, too.
    pub(super) fn attach(
        self: &Arc<Self>,
        id: OpeningId,
        member: Arc<dyn Member>,
        max_jobs: usize,
        warms_up: bool,
    ) -> Result<()> {
        let mut threads = self.threads.lock();
        let mut state = self.state.lock();
        let seat = Seat {
            member,
            max_jobs,
            priority: Priority::default(),
            is_urgent: false,
            closing: false,
        };
        let other = state.seats.insert(id, seat);
        invariant!(other.is_none(), "a database joins twice");
        state.workers.raise(id);
        state.collector.raise(id);
        if warms_up {
            state.warm_up.raise(id);
        }
        drop(state);
        self.start_missing(&mut threads)?;
        // Those that there are.
        for threads in Threads::ALL {
            self.raised(threads).notify_one();
        }
        Ok(())
    }

    /// Changes the number of workers, if that is given, and how many may serve a database at once,
    /// to `numbers` as they are when no other change is under way. Threads that are too many end by
    /// themselves.
    ///
    /// # Errors
    /// `Io` if a thread cannot be started. A later call tries again.
    pub(super) fn resize(
        self: &Arc<Self>,
        id: OpeningId,
        numbers: impl FnOnce() -> (Option<usize>, usize),
    ) -> Result<()> {
        let mut threads = self.threads.lock();
        let (max_workers, max_jobs) = numbers();
        let mut state = self.state.lock();
        state.max_workers = max_workers.unwrap_or(state.max_workers);
        if let Some(seat) = state.seats.get_mut(&id) {
            seat.max_jobs = max_jobs;
        }
        state.admit_held_back();
        drop(state);
        self.raised_workers.notify_all();
        self.start_missing(&mut threads)
    }

    fn start_missing(
        self: &Arc<Self>,
        threads: &mut BTreeMap<String, JoinHandle<()>>,
    ) -> Result<()> {
        for kind in Threads::ALL {
            let wanted = self.state.lock().wanted(kind);
            for number in 0..wanted {
                if !self.state.lock().line(kind).threads.insert(number) {
                    continue;
                }
                let (pool, name) = (Arc::clone(self), kind.name(number));
                let started = start_thread(name.clone(), move || pool.run(kind, number));
                let thread = started.map_err(|e| {
                    self.state.lock().line(kind).threads.remove(&number);
                    Error::new(ErrorKind::Io, format!("cannot start a thread: {e}"))
                })?;
                if let Some(ended) = threads.insert(name, thread) {
                    // It was one too many, and has nothing left to do.
                    let _ = ended.join();
                }
            }
        }
        Ok(())
    }

    /// Ends the service for a database that has been closed; of the last one, also the threads.
    /// Waits until no thread is in it, so the caller must not be in a job of it.
    pub(super) fn detach(&self, id: OpeningId) {
        invariant!(
            !self.is_served_here(id),
            "a database leaves in a job of its own, for which it would wait"
        );
        let mut state = self.state.lock();
        let Some(seat) = state.seats.get_mut(&id) else {
            return;
        };
        seat.closing = true;
        if std::mem::take(&mut seat.is_urgent) {
            self.urgent.fetch_sub(1, Ordering::Relaxed);
        }
        while state.inside_of(id) > 0 {
            self.left.wait(&mut state);
        }
        let removed = state.remove(id);
        drop(state);
        self.raised_warm_up.notify_all();
        // Not under the lock: it may be the last holder.
        drop(removed);
        let mut threads = self.threads.lock();
        if self.state.lock().seats.is_empty() {
            for threads in Threads::ALL {
                self.raised(threads).notify_all();
            }
            for thread in std::mem::take(&mut *threads).into_values() {
                // Nothing is left to be done about a thread that panicked.
                let _ = thread.join();
            }
        }
    }

    fn raised(&self, threads: Threads) -> &Condvar {
        match threads {
            Threads::Workers => &self.raised_workers,
            Threads::Collector => &self.raised_collector,
            Threads::WarmUp => &self.raised_warm_up,
        }
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Whether the caller is one of the threads.
    pub(super) fn is_of_this_thread(&self) -> bool {
        SERVES.with(Cell::get).0 == self.address()
    }

    /// Whether the caller is in a job of the database.
    pub(super) fn is_served_here(&self, id: OpeningId) -> bool {
        SERVES.with(Cell::get) == (self.address(), Some(id))
    }

    /// Whether the writes of any database are stalled, or soon will be. Takes no lock.
    pub(super) fn is_urgent(&self) -> bool {
        self.urgent.load(Ordering::Relaxed) > 0
    }

    /// Whether another database than this waits for the thread that collects garbage, and its
    /// writes are delayed for the space that it takes.
    pub(super) fn is_collector_awaited_beside(&self, id: OpeningId) -> bool {
        let state = self.state.lock();
        let is_near = |seat: &Seat| seat.is_urgent && seat.priority.class == Class::Space;
        let mut others = state.collector.ready().filter(|other| *other != id);
        others.any(|other| state.seats.get(&other).is_some_and(is_near))
    }

    /// Says how urgent the jobs of a database are, and whether its writes are stalled or soon will
    /// be.
    pub(super) fn set_priority(&self, id: OpeningId, priority: Priority, is_urgent: bool) {
        let mut state = self.state.lock();
        let Some(seat) = state.seats.get_mut(&id).filter(|seat| !seat.closing) else {
            return;
        };
        seat.priority = priority;
        match (std::mem::replace(&mut seat.is_urgent, is_urgent), is_urgent) {
            (false, true) => drop(self.urgent.fetch_add(1, Ordering::Relaxed)),
            (true, false) => drop(self.urgent.fetch_sub(1, Ordering::Relaxed)),
            _ => {}
        }
    }

    /// Number of databases, and of threads.
    pub(super) fn counts(&self) -> (usize, usize) {
        let mut state = self.state.lock();
        let threads = Threads::ALL.map(|threads| state.line(threads).threads.len());
        (state.seats.len(), threads.into_iter().sum())
    }

    /// Number of workers that run long jobs, or look for one.
    #[cfg(all(test, not(any(loom, shuttle))))]
    pub(super) fn long_jobs(&self) -> usize {
        self.state.lock().long_jobs
    }

    /// Numbers of the workers that there are.
    #[cfg(test)]
    pub(super) fn workers(&self) -> BTreeSet<usize> {
        self.state.lock().workers.threads.clone()
    }

    fn run(&self, threads: Threads, number: usize) {
        SERVES.with(|serves| serves.set((self.address(), None)));
        while let Some(visit) = self.next_visit(threads, number) {
            self.serve(threads, visit);
        }
    }

    /// Waits for a database that may have something to do; `None` if there are to be fewer threads.
    fn next_visit(&self, threads: Threads, number: usize) -> Option<Visit> {
        let mut state = self.state.lock();
        loop {
            // Under the lock: a caller that wants more threads finds this one, or that it has
            // ended.
            if number >= state.wanted(threads) {
                state.line(threads).threads.remove(&number);
                // It may have been woken in place of another.
                self.raised(threads).notify_one();
                return None;
            }
            let now = now();
            if let Some(visit) = state.enter(threads, now) {
                return Some(visit);
            }
            let raised = self.raised(threads);
            match state.line(threads).next_timer() {
                None => raised.wait(&mut state),
                Some(at) => {
                    raised.wait_for(&mut state, at.saturating_sub(now));
                    if cfg!(any(loom, shuttle)) {
                        state.line(threads).advance_to(at);
                    }
                }
            }
        }
    }

    /// Lets a database find a job, and runs that.
    fn serve(&self, threads: Threads, visit: Visit) {
        let Visit {
            id,
            member,
            may_be_long,
        } = visit;
        let before = SERVES.with(|serves| serves.replace((self.address(), Some(id))));
        // The database has recorded a panic that concerns it. Others are none of its business, and
        // the thread is needed by them.
        let found = contain(|| member.find(threads, may_be_long));
        match found {
            Ok(Found::Job { run, is_long }) => {
                let mut state = self.state.lock();
                invariant!(
                    may_be_long || !is_long,
                    "a database begins a long job that it may not begin"
                );
                if may_be_long && !is_long {
                    state.end_long();
                }
                // There may be another job, for another thread.
                state.line(threads).raise(id);
                self.raised(threads).notify_one();
                drop(state);
                let _ = contain(run);
                if is_long {
                    self.state.lock().end_long();
                }
            }
            Ok(Found::Nothing { look_after }) => {
                let mut state = self.state.lock();
                match threads {
                    Threads::Workers if may_be_long => state.end_long(),
                    Threads::Workers => state.hold_back(id),
                    Threads::Collector | Threads::WarmUp => {}
                }
                if let Some(after) = look_after {
                    state
                        .line(threads)
                        .raise_at(id, now().saturating_add(after));
                    // Another thread waits for the time if this one gets something to do.
                    self.raised(threads).notify_one();
                }
            }
            Err(_) if may_be_long => self.state.lock().end_long(),
            Err(_) => {}
        }
        SERVES.with(|serves| serves.set(before));
        self.leave(threads, id);
    }

    fn leave(&self, threads: Threads, id: OpeningId) {
        let mut state = self.state.lock();
        state.line(threads).leave(id);
        self.left.notify_all();
    }

    fn raise(&self, threads: Threads, id: OpeningId) {
        let mut state = self.state.lock();
        let is_served = state.seats.contains_key(&id);
        let line = state.line(threads);
        // Warming up is over once the database neither waits for it nor is being warmed up.
        let is_over = threads == Threads::WarmUp && !line.has(id) && line.inside_of(id) == 0;
        if is_served && !is_over {
            line.raise(id);
            self.raised(threads).notify_one();
        }
    }
}

/// Real time. In models it stands still, and a timed wait is over after a chance for others.
fn now() -> Duration {
    match cfg!(any(loom, shuttle)) {
        true => Duration::ZERO,
        false => StdClock.monotonic(),
    }
}

fn start_thread(name: String, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    #[cfg(test)]
    refusal::refuse(&name)?;
    thread::Builder::new().name(name).spawn(gates::inherit(run))
}

/// The work of a database for the threads of one kind.
pub(crate) struct Desk {
    pool: Arc<Pool>,
    id: OpeningId,
    threads: Threads,
}

impl Desk {
    pub(super) fn new(pool: &Arc<Pool>, id: OpeningId, threads: Threads) -> Self {
        Desk {
            pool: Arc::clone(pool),
            id,
            threads,
        }
    }

    /// There may be a job.
    pub(crate) fn raise(&self) {
        self.pool.raise(self.threads, self.id);
    }
}

/// Threads that the system does not start.
#[cfg(test)]
pub(crate) mod refusal {
    use super::{Cell, io};

    thread_local! {
        /// The name of the thread that is not started for this one.
        pub(crate) static REFUSED: Cell<&'static str> = const { Cell::new("") };
    }

    pub(super) fn refuse(name: &str) -> io::Result<()> {
        match name == REFUSED.get() {
            true => Err(io::ErrorKind::WouldBlock.into()),
            false => Ok(()),
        }
    }
}
