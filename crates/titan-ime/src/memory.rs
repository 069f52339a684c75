//! How much memory the copy takes, against its limit.
//!
//! Owns the count. What takes memory has a [`Charge`] for as long as it lives, so the count goes down when memory
//! is given back and not when that is decided. A charge is never refused: who writes goes on, and then makes
//! room by dropping segments; who loads asks first.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What the allocator needs for a block beside its bytes, as charged.
pub(crate) const BLOCK: usize = 16;

/// The count and its limit.
pub(crate) struct Budget {
    limit: AtomicUsize,
    used: AtomicUsize,
}

impl Budget {
    pub(crate) fn new(limit: usize) -> Self {
        Budget {
            limit: AtomicUsize::new(limit),
            used: AtomicUsize::new(0),
        }
    }

    /// Bytes that are charged.
    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    pub(crate) fn limit(&self) -> usize {
        self.limit.load(Ordering::Relaxed)
    }

    pub(crate) fn set_limit(&self, limit: usize) {
        self.limit.store(limit, Ordering::Relaxed);
    }

    /// By how many bytes the count is over the limit.
    pub(crate) fn excess(&self) -> usize {
        self.used().saturating_sub(self.limit())
    }
}

/// Bytes that are charged until it is dropped.
pub(crate) struct Charge {
    budget: Arc<Budget>,
    bytes: AtomicUsize,
}

impl Charge {
    pub(crate) fn new(budget: &Arc<Budget>, bytes: usize) -> Self {
        budget.used.fetch_add(bytes, Ordering::Relaxed);
        Charge {
            budget: Arc::clone(budget),
            bytes: AtomicUsize::new(bytes),
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Charges more.
    pub(crate) fn add(&self, bytes: usize) {
        self.budget.used.fetch_add(bytes, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes(), Ordering::Relaxed);
    }
}
