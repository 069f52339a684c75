//! The types of a model checker, with the interface of the types that they replace.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, PoisonError};

#[cfg(loom)]
use loom as checker;
#[cfg(shuttle)]
use shuttle as checker;

use checker::sync;

pub(crate) use checker::sync::atomic;

/// As `parking_lot::Mutex`.
pub(crate) struct Mutex<T>(sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Mutex(sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard(self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// As `parking_lot::MutexGuard`.
pub(crate) struct MutexGuard<'a, T>(sync::MutexGuard<'a, T>);

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

/// As `arc_swap::ArcSwap`.
pub(crate) type ArcSwap<T> = Cell<Arc<T>>;

/// As `arc_swap::ArcSwapOption`.
pub(crate) type ArcSwapOption<T> = Cell<Option<Arc<T>>>;

/// A value that is replaced as a whole. A lock, held briefly, orders operations as the atomic swap does.
pub(crate) struct Cell<T>(Mutex<T>);

impl<T: Clone> Cell<T> {
    pub(crate) fn load(&self) -> Guard<T> {
        Guard(self.0.lock().clone())
    }

    pub(crate) fn store(&self, value: T) {
        // What is replaced is freed without the lock.
        drop(std::mem::replace(&mut *self.0.lock(), value));
    }
}

impl<T> ArcSwap<T> {
    pub(crate) fn from_pointee(value: T) -> Self {
        Cell(Mutex::new(Arc::new(value)))
    }

    pub(crate) fn load_full(&self) -> Arc<T> {
        Arc::clone(&*self.0.lock())
    }
}

impl<T> ArcSwapOption<T> {
    pub(crate) fn empty() -> Self {
        Cell(Mutex::new(None))
    }

    pub(crate) fn from_pointee(value: T) -> Self {
        Cell(Mutex::new(Some(Arc::new(value))))
    }
}

/// As `arc_swap::Guard`.
pub(crate) struct Guard<T>(T);

impl<T> Guard<T> {
    pub(crate) fn into_inner(guard: Self) -> T {
        guard.0
    }
}

impl<T> Deref for Guard<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}
