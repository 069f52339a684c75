//! A value that is replaced as a whole.
//!
//! Promises that a reader has the value that was there at one moment of its call, and keeps it for
//! as long as it wants: it takes a reference of its own. So a value is dropped by the last one that
//! has it, at once. A reader waits only for as long as another thread copies or exchanges a
//! pointer.
//!
//! The lock is there because a reader must not read a pointer, and be too late to count itself:
//! see `docs/adr/0055-cells-with-locks.md`.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

#[cfg(any(loom, shuttle))]
use super::Mutex as Lock;
#[cfg(not(any(loom, shuttle)))]
use parking_lot::RwLock as Lock;

/// An `Arc` that is replaced.
pub(crate) type ArcSwap<T> = Cell<Arc<T>>;

/// An `Arc`, or none, that is replaced.
pub(crate) type ArcSwapOption<T> = Cell<Option<Arc<T>>>;

/// See the module.
pub(crate) struct Cell<T>(Lock<T>);

impl<T: Clone> Cell<T> {
    pub(crate) fn new(value: T) -> Self {
        Cell(Lock::new(value))
    }

    /// The value as it is now.
    #[inline]
    pub(crate) fn load(&self) -> T {
        self.read().clone()
    }

    /// Replaces the value. Drops the old one here if nobody has it.
    pub(crate) fn store(&self, value: T) {
        // Not under the lock: dropping the last reference to a version runs code of its own.
        drop(self.swap(value));
    }

    /// Replaces the value, and returns the old one.
    pub(crate) fn swap(&self, value: T) -> T {
        std::mem::replace(&mut *self.write(), value)
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

impl<T> ArcSwap<T> {
    pub(crate) fn from_pointee(value: T) -> Self {
        Cell::new(Arc::new(value))
    }

    /// Whether it is this one now.
    #[inline]
    pub(crate) fn is(&self, value: &Arc<T>) -> bool {
        Arc::ptr_eq(&self.read(), value)
    }
}

impl<T> ArcSwapOption<T> {
    pub(crate) fn empty() -> Self {
        Cell::new(None)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// Two cells take turns with the same memory. A reader that is interrupted between the look at
    /// a pointer and the count would have the content that the other cell put there.
    #[test]
    fn a_reader_never_has_what_was_in_another_cell() {
        let (ours, others) = (ArcSwap::from_pointee([1; 6]), ArcSwap::from_pointee([2; 6]));
        let has_ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !has_ended.load(Ordering::Relaxed) {
                        assert_eq!(*ours.load(), [1_u64; 6]);
                    }
                });
            }
            scope.spawn(|| {
                for _ in 0..100_000 {
                    ours.store(Arc::new([1; 6]));
                    others.store(Arc::new([2; 6]));
                }
                has_ended.store(true, Ordering::Relaxed);
            });
        });
        assert_eq!(*others.load(), [2_u64; 6]);
    }

    #[test]
    fn a_value_is_dropped_with_its_last_reference() {
        let (first, second) = (Arc::new(1), Arc::new(2));
        let cell = Cell::new(Some(Arc::clone(&first)));
        let loaded = cell.load();
        cell.store(Some(Arc::clone(&second)));
        assert_eq!(
            (loaded.as_deref(), Arc::strong_count(&first)),
            (Some(&1), 2)
        );
        drop(loaded);
        assert_eq!(Arc::strong_count(&first), 1);
        assert_eq!(cell.swap(None).as_deref(), Some(&2));
        assert_eq!((cell.load(), Arc::strong_count(&second)), (None, 1));
    }
}
