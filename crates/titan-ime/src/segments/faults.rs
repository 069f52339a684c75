//! Panics: those of maintenance are caught, counted and survived; one on the way of writes turns the cache off.
//!
//! Owns the count, and what the last one said. A pass of maintenance that panics may leave segments that have no content, and
//! those are dropped; what has content is complete, because content is replaced as a whole. If one pass after the other
//! panics, the cache is turned off: what is held would not be pruned any more.

use std::any::Any;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;

/// Passes in a row that may panic; the next one turns the cache off.
const MOST: u32 = 4;

/// See the module.
#[derive(Default)]
pub(crate) struct Panics {
    all: AtomicU64,
    in_a_row: AtomicU32,
    last: Mutex<Option<String>>,
}

/// How a cache fares.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Trouble {
    /// Whether the cache is off.
    pub is_off: bool,
    /// Passes of maintenance that panicked.
    pub panics: u64,
    /// Why it is off; else what the last panic said, if there was one.
    pub what: Option<String>,
}

impl Panics {
    /// A pass has ended without a panic.
    pub(crate) fn none(&self) {
        self.in_a_row.store(0, Ordering::Relaxed);
    }

    /// A pass has panicked. Returns whether that was one too many.
    pub(crate) fn note(&self, panic: &(dyn Any + Send)) -> bool {
        self.keep("maintenance", panic);
        self.all.fetch_add(1, Ordering::Relaxed);
        self.in_a_row.fetch_add(1, Ordering::Relaxed) >= MOST
    }

    /// What follows the commits has panicked.
    pub(crate) fn note_following(&self, panic: &(dyn Any + Send)) {
        self.keep("following the commits", panic);
    }

    fn keep(&self, what: &str, panic: &(dyn Any + Send)) {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        let text = text.unwrap_or_else(|| "without a text".to_owned());
        *self.last.lock() = Some(format!("{what} panicked: {text}"));
    }

    /// Passes of maintenance that panicked.
    pub(crate) fn count(&self) -> u64 {
        self.all.load(Ordering::Relaxed)
    }

    /// What the last one said.
    pub(crate) fn last(&self) -> Option<String> {
        self.last.lock().clone()
    }
}
