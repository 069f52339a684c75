//! A value that is replaced as a whole: a pointer under a lock that is held for as long as it takes to copy it.
//!
//! The lock is there because a reader must not read a pointer, and be too late to count itself:
//! see `docs/adr/0055-cells-with-locks.md`.

use parking_lot::RwLock;

/// See the module.
#[derive(Default)]
pub(crate) struct Cell<T>(RwLock<T>);

impl<T: Clone> Cell<T> {
    pub(crate) fn new(value: T) -> Self {
        Cell(RwLock::new(value))
    }

    /// The value as it is now. Cost: a lock that readers share, and a reference count.
    #[inline]
    pub(crate) fn load(&self) -> T {
        self.0.read().clone()
    }

    /// Replaces the value. Drops the old one here if nobody has it.
    pub(crate) fn store(&self, value: T) {
        let old = std::mem::replace(&mut *self.0.write(), value);
        // Not under the lock, which readers would wait for.
        drop(old);
    }
}
