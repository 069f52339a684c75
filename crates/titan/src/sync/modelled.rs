//! The types of a model checker, with the interface of the types that they replace.

use std::ops::{Deref, DerefMut};
use std::sync::PoisonError;
use std::time::Duration;

#[cfg(loom)]
use loom as checker;
#[cfg(shuttle)]
use shuttle as checker;

use checker::sync;

pub(crate) use checker::sync::atomic;
#[cfg(shuttle)]
pub(crate) use checker::thread;

/// As `std::thread`, with stacks that are large enough for background jobs; shuttle gets the size
/// when it starts.
#[cfg(loom)]
pub(crate) mod thread {
    pub(crate) use loom::thread::{JoinHandle, yield_now};

    /// In words.
    const STACK: usize = 1 << 17;

    pub(crate) struct Builder(loom::thread::Builder);

    impl Builder {
        pub(crate) fn new() -> Self {
            Builder(loom::thread::Builder::new().stack_size(STACK))
        }

        pub(crate) fn name(self, name: String) -> Self {
            Builder(self.0.name(name))
        }

        pub(crate) fn spawn<T: Send + 'static>(
            self,
            body: impl FnOnce() -> T + Send + 'static,
        ) -> std::io::Result<JoinHandle<T>> {
            self.0.spawn(body)
        }
    }
}

/// A thread of a model.
#[cfg(all(test, loom))]
pub(crate) fn spawn<T: Send + 'static>(
    body: impl FnOnce() -> T + Send + 'static,
) -> thread::JoinHandle<T> {
    loom::thread::spawn(body)
}

/// Runs `body` under every schedule with at most `preemptions` preemptions, and prints how many
/// schedules there were.
#[cfg(all(test, loom))]
#[track_caller]
pub(crate) fn model(preemptions: usize, body: impl Fn() + Send + Sync + 'static) {
    let executions = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let counted = std::sync::Arc::clone(&executions);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(move || {
        counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        body();
    });
    let name = std::thread::current().name().unwrap_or_default().to_owned();
    println!("{name}: {executions:?} schedules, up to {preemptions} preemptions each");
}

/// As `parking_lot::Mutex`.
#[derive(Default)]
pub(crate) struct Mutex<T>(sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Mutex(sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard {
            mutex: self,
            held: Some(self.hold()),
        }
    }

    fn hold(&self) -> sync::MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

/// As `parking_lot::MutexGuard`.
pub(crate) struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
    /// None only while a condition variable has it.
    held: Option<sync::MutexGuard<'a, T>>,
}

const HELD: &str = "a guard has its lock except within a wait";

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[expect(clippy::expect_used, reason = "see `HELD`")]
    fn deref(&self) -> &T {
        self.held.as_ref().expect(HELD)
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    #[expect(clippy::expect_used, reason = "see `HELD`")]
    fn deref_mut(&mut self) -> &mut T {
        self.held.as_mut().expect(HELD)
    }
}

/// As `parking_lot::Condvar`.
pub(crate) struct Condvar(sync::Condvar);

impl Default for Condvar {
    fn default() -> Self {
        Condvar::new()
    }
}

impl Condvar {
    pub(crate) fn new() -> Self {
        Condvar(sync::Condvar::new())
    }

    pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        guard.held = guard.held.take().map(|held| {
            let woken = self.0.wait(held);
            woken.unwrap_or_else(PoisonError::into_inner)
        });
    }

    /// Time does not pass in a model: a timed wait is over once other threads had a chance to run.
    pub(crate) fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, _: Duration) {
        guard.held = None;
        thread::yield_now();
        guard.held = Some(guard.mutex.hold());
    }

    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}
