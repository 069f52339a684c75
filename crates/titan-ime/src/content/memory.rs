//! The account of memory, and its limit.
//!
//! Each block of memory has a [`Charge`] for as long as it lives, so the count falls when memory is
//! freed. A charge is never refused: a writer exceeds the limit and then evicts segments; a loader
//! asks first.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use titan::invariant;

/// Bytes that the allocator is charged for a block beside its content.
pub(crate) const BLOCK: usize = 16;

/// The count and its limit.
pub(crate) struct Budget {
    limit: AtomicUsize,
    used: AtomicUsize,
    #[cfg(test)]
    refusal: Refusal,
}

/// The shortage of memory that a test asks for.
#[cfg(test)]
#[derive(Default)]
struct Refusal {
    charges: AtomicUsize,
    /// The number of the charge that exceeds the limit; none if it is zero.
    at: AtomicUsize,
    /// The limit is zero from then on, and not just found to be exceeded once.
    is_for_good: std::sync::atomic::AtomicBool,
    is_due: std::sync::atomic::AtomicBool,
}

impl Budget {
    pub(crate) fn new(limit: usize) -> Self {
        Budget {
            limit: AtomicUsize::new(limit),
            used: AtomicUsize::new(0),
            #[cfg(test)]
            refusal: Refusal::default(),
        }
    }

    /// Lets the `n`th charge exceed the limit: the next look finds that once, or always.
    #[cfg(test)]
    pub(crate) fn refuse_at(&self, n: usize, is_for_good: bool) {
        self.refusal.at.store(n, Ordering::Relaxed);
        self.refusal
            .is_for_good
            .store(is_for_good, Ordering::Relaxed);
    }

    /// The number of charges so far.
    #[cfg(test)]
    pub(crate) fn charges(&self) -> usize {
        self.refusal.charges.load(Ordering::Relaxed)
    }

    fn charge(&self, bytes: usize) {
        let before = self.used.fetch_add(bytes, Ordering::Relaxed);
        invariant!(
            before.checked_add(bytes).is_some(),
            "{bytes} bytes are charged beside {before}"
        );
        #[cfg(test)]
        {
            let n = self.refusal.charges.fetch_add(1, Ordering::Relaxed) + 1;
            if n == self.refusal.at.load(Ordering::Relaxed) {
                match self.refusal.is_for_good.load(Ordering::Relaxed) {
                    true => self.set_limit(0),
                    false => self.refusal.is_due.store(true, Ordering::Relaxed),
                }
            }
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
        #[cfg(test)]
        if self.refusal.is_due.swap(false, Ordering::Relaxed) {
            return self.used().max(1);
        }
        self.used().saturating_sub(self.limit())
    }
}

/// Bytes that stay charged until this is dropped.
pub(crate) struct Charge {
    budget: Arc<Budget>,
    bytes: AtomicUsize,
}

impl Charge {
    pub(crate) fn new(budget: &Arc<Budget>, bytes: usize) -> Self {
        budget.charge(bytes);
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
        self.budget.charge(bytes);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let bytes = self.bytes();
        let before = self.budget.used.fetch_sub(bytes, Ordering::Relaxed);
        invariant!(before >= bytes, "{bytes} bytes of {before} are given back");
    }
}
