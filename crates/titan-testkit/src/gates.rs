//! Control of the gates at which tests stop threads.
//!
//! ```text
//! race(|gates| {
//!     let db = gates.given(|| Db::open("/db", &options)).unwrap();
//!     let stop = gates.stop_at("flush: written");
//!     let flush = gates.spawn("flush", move || db.flush());
//!     stop.reached();
//!     ...
//!     stop.open();
//!     flush.join().unwrap();
//! });
//! ```
//!
//! Nothing here sleeps, and no result depends on time. [`PATIENCE`] only ends a test in which
//! threads wait for each other: the test then fails, and says which threads stand at which gates
//! and which gates were passed. When a test ends, however it ends, all its gates are open for ever,
//! so that no thread waits for ever.

#![expect(clippy::panic, reason = "a test fails")]

use std::any::Any;
use std::cell::RefCell;
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

/// After so long a test has failed: threads wait for each other.
const PATIENCE: Duration = Duration::from_secs(60);

/// Number of the gates passed last that a failure shows.
const SHOWN: usize = 60;

thread_local! {
    static OWN: RefCell<Option<Gates>> = const { RefCell::new(None) };
}

/// The gates of one test.
#[derive(Clone, Default)]
pub struct Gates(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Signalled at every change of the state.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The gates to which threads came, in that order.
    passed: Vec<&'static str>,
    stops: Vec<StopState>,
    /// No thread stops any more: the test has ended.
    over: bool,
    /// Panics that ended threads of the test.
    panics: Vec<String>,
}

struct StopState {
    name: &'static str,
    /// The thread that came.
    thread: Option<String>,
    open: bool,
}

/// Called by `gate!`.
pub fn come_to(name: &'static str) {
    // Destructors of thread-local variables may come here when there is no set any more.
    let own = OWN.try_with(|own| own.borrow().clone());
    if let Ok(Some(gates)) = own {
        gates.come_to(name);
    }
}

/// Wraps the function that a thread runs: it has the gates of the calling thread.
pub fn inherit<T>(run: impl FnOnce() -> T + Send + 'static) -> impl FnOnce() -> T + Send + 'static {
    let own = OWN.with(|own| own.borrow().clone());
    move || {
        OWN.set(own);
        run()
    }
}

/// Runs a test, on a thread of its own: if that waits for ever, the test fails all the same.
#[track_caller]
pub fn race(body: impl FnOnce(&Gates) + Send + 'static) {
    race_within(PATIENCE * 3, body);
}

#[track_caller]
fn race_within(patience: Duration, body: impl FnOnce(&Gates) + Send + 'static) {
    let gates = Gates::default();
    let director = gates.clone();
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        let outcome = catch_unwind(AssertUnwindSafe(|| body(&director)));
        let _ = tell.send(outcome);
    });
    let outcome = told.recv_timeout(patience);
    gates.end();
    match outcome {
        Ok(Ok(())) => {}
        Ok(Err(panic)) => resume_unwind(panic),
        Err(_) => panic!("the test waits for ever: {}", gates.report()),
    }
}

impl Gates {
    /// Runs `f` on this thread with these gates, for the threads that it starts.
    pub fn given<T>(&self, f: impl FnOnce() -> T) -> T {
        let before = OWN.replace(Some(self.clone()));
        let result = f();
        OWN.set(before);
        result
    }

    /// Starts a thread that has these gates.
    pub fn spawn<T: Send + 'static>(
        &self,
        name: &'static str,
        run: impl FnOnce() -> T + Send + 'static,
    ) -> Actor<T> {
        let (tell, told) = mpsc::channel();
        let gates = self.clone();
        let body = move || {
            let outcome = catch_unwind(AssertUnwindSafe(|| gates.given(run)));
            if let Err(panic) = &outcome {
                let message = format!("{name}: {}", text_of(&**panic));
                gates.0.change(|state| state.panics.push(message));
            }
            // The test may have ended without it.
            let _ = tell.send(outcome);
        };
        let builder = thread::Builder::new().name(name.to_owned());
        let started = builder.spawn(body);
        started.unwrap_or_else(|e| panic!("starting {name:?}: {e}"));
        Actor {
            gates: self.clone(),
            outcome: told,
        }
    }

    /// Stops the next thread that comes to this gate. Others pass.
    pub fn stop_at(&self, name: &'static str) -> Stop {
        let at = self.0.change(|state| {
            state.stops.push(StopState {
                name,
                thread: None,
                open: false,
            });
            state.stops.len() - 1
        });
        Stop {
            gates: self.clone(),
            name,
            at,
        }
    }

    /// Waits until a thread has come to one of these gates since the test began; returns the first
    /// one. So a test can find out whether a thread waits for another, if there is a gate where it
    /// does and one where it goes on.
    #[track_caller]
    pub fn first_of(&self, names: &[&'static str]) -> &'static str {
        self.wait_for(&format!("a thread at one of {names:?}"), |state| {
            let mut passed = state.passed.iter();
            passed.find(|name| names.contains(name)).copied()
        })
    }

    /// The gates to which threads came so far.
    pub fn passed(&self) -> Vec<&'static str> {
        self.0.lock().passed.clone()
    }

    fn come_to(&self, name: &'static str) {
        let mut state = self.0.lock();
        state.passed.push(name);
        let waits = |stop: &StopState| stop.name == name && stop.thread.is_none() && !stop.open;
        let at = state.stops.iter().position(waits);
        if let Some(stop) = at.and_then(|at| state.stops.get_mut(at)) {
            let name = thread::current().name().unwrap_or("a thread").to_owned();
            stop.thread = Some(name);
        }
        self.0.changed.notify_all();
        let is_closed = |state: &State| {
            let stop = at.and_then(|at| state.stops.get(at));
            stop.is_some_and(|stop| !stop.open) && !state.over
        };
        while is_closed(&state) {
            let woken = self.0.changed.wait(state);
            state = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Opens all gates for ever.
    fn end(&self) {
        self.0.change(|state| state.over = true);
    }

    /// Waits until `found` returns something.
    #[track_caller]
    fn wait_for<T>(&self, what: &str, mut found: impl FnMut(&State) -> Option<T>) -> T {
        let mut result = None;
        let waits = |state: &mut State| {
            result = found(state);
            result.is_none() && state.panics.is_empty() && !state.over
        };
        let changed = &self.0.changed;
        let woken = changed.wait_timeout_while(self.0.lock(), PATIENCE, waits);
        drop(woken);
        result.unwrap_or_else(|| panic!("{what} was expected: {}", self.report()))
    }

    fn report(&self) -> String {
        let state = self.0.lock();
        let mut text = String::new();
        for panic in &state.panics {
            let _ = write!(text, "\n  panicked: {panic}");
        }
        for stop in &state.stops {
            let name = stop.name;
            let _ = match &stop.thread {
                None => write!(text, "\n  no thread came to {name:?}"),
                Some(thread) if stop.open => write!(text, "\n  {thread} has left {name:?}"),
                Some(thread) => write!(text, "\n  {thread} waits at {name:?}"),
            };
        }
        let first = state.passed.len().saturating_sub(SHOWN);
        let last = state.passed.get(first..).unwrap_or_default();
        let _ = write!(text, "\n  passed last: {last:?}");
        text
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = change(&mut self.lock());
        self.changed.notify_all();
        result
    }
}

/// A gate that stops one thread. Dropping it opens the gate.
pub struct Stop {
    gates: Gates,
    name: &'static str,
    at: usize,
}

impl Stop {
    /// Waits until a thread waits at the gate.
    #[track_caller]
    pub fn reached(&self) {
        let what = format!("a thread at {:?}", self.name);
        let came = |state: &State| state.stops[self.at].thread.as_ref().map(|_| ());
        self.gates.wait_for(&what, came);
    }

    /// Lets the thread go on.
    pub fn open(self) {}
}

impl Drop for Stop {
    fn drop(&mut self) {
        let at = self.at;
        self.gates.0.change(|state| state.stops[at].open = true);
    }
}

/// A thread of a test.
pub struct Actor<T> {
    gates: Gates,
    outcome: mpsc::Receiver<thread::Result<T>>,
}

impl<T> Actor<T> {
    /// Waits for the result. A panic of the thread goes on here.
    #[track_caller]
    pub fn join(self) -> T {
        match self.outcome.recv_timeout(PATIENCE) {
            Ok(Ok(result)) => result,
            Ok(Err(panic)) => resume_unwind(panic),
            Err(_) => panic!("a thread does not end: {}", self.gates.report()),
        }
    }
}

fn text_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("a panic")
}

#[cfg(test)]
mod tests;
