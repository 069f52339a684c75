//! A value that is replaced as a whole: a pointer under a lock that is held while it is copied.
//!
//! Without the lock a reader could read a pointer and be too late to count itself:
//! `docs/adr/0055-cells-with-locks.md`.

use std::ops::{Deref, DerefMut};

#[cfg(any(loom, shuttle))]
use super::Mutex as Lock;
#[cfg(not(any(loom, shuttle)))]
use parking_lot::RwLock as Lock;

/// The value under its lock.
pub(crate) struct Cell<T>(Lock<T>);

impl<T: Clone> Cell<T> {
    pub(crate) fn new(value: T) -> Self {
        Cell(Lock::new(value))
    }

    /// The current value. Cost: a lock that readers share, and a reference count.
    #[inline]
    pub(crate) fn load(&self) -> T {
        self.read().clone()
    }

    /// Replaces the value. Drops the old one here if it has no other owner.
    pub(crate) fn store(&self, value: T) {
        let old = std::mem::replace(&mut *self.write(), value);
        // Not under the lock, which readers would wait for.
        drop(old);
    }

    #[cfg(not(any(loom, shuttle)))]
    fn read(&self) -> impl Deref<Target = T> {
        self.0.read()
    }

    #[cfg(not(any(loom, shuttle)))]
    fn write(&self) -> impl DerefMut<Target = T> {
        self.0.write()
    }

    /// A model needs no readers that read at once.
    #[cfg(any(loom, shuttle))]
    fn read(&self) -> impl Deref<Target = T> {
        self.0.lock()
    }

    #[cfg(any(loom, shuttle))]
    fn write(&self) -> impl DerefMut<Target = T> {
        self.0.lock()
    }
}
