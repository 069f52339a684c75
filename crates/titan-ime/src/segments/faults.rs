//! Faults: panics, differences between memory and engine, and whether the cache is off.
//!
//! A panic on the path of writes, or a difference, turns the cache off for good. A panic of
//! maintenance is counted and survived. It may leave segments without content, which are dropped; a
//! segment with content is complete, because content is replaced as a whole. Five panics in a row
//! turn the cache off, because nothing is pruned any more.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64};

use parking_lot::Mutex;

use crate::sync::atomic::{AtomicBool, Ordering};

/// Passes in a row that may panic; the next one turns the cache off.
const MOST: u32 = 4;

/// The faults of a cache.
pub(crate) struct FaultState {
    is_off: AtomicBool,
    panics: AtomicU64,
    panics_in_a_row: AtomicU32,
    last_panic: Mutex<Option<String>>,
    difference: OnceLock<String>,
}

/// The faults of a cache, for users.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Faults {
    /// Whether the cache is off.
    pub is_off: bool,
    /// Passes of maintenance that panicked.
    pub panics: u64,
    /// The reason why it is off; else the text of the last panic, if there was one.
    pub what: Option<String>,
}

impl FaultState {
    pub(crate) fn new() -> Self {
        FaultState {
            is_off: AtomicBool::new(false),
            panics: AtomicU64::new(0),
            panics_in_a_row: AtomicU32::new(0),
            last_panic: Mutex::default(),
            difference: OnceLock::new(),
        }
    }

    /// Whether nothing may be read from memory any more, for good.
    pub(crate) fn is_off(&self) -> bool {
        self.is_off.load(Ordering::Acquire)
    }

    /// Turns the cache off for good. Cost: one store. `Shared::give_back` frees the memory.
    pub(crate) fn turn_off(&self) {
        // ORDER: a hook that panicked does this before its group is published, so no reader that
        // must see the group takes memory for complete.
        self.is_off.store(true, Ordering::Release);
    }

    /// Runs a step of the path of writes. If it panics, the cache is off when this returns.
    ///
    /// # Errors
    /// The panic.
    pub(crate) fn off_on_panic(&self, run: impl FnOnce()) -> std::thread::Result<()> {
        let ran = catch_unwind(AssertUnwindSafe(run));
        if let Err(panic) = &ran
            && !mutant!(hook_panics_unnoticed)
        {
            self.turn_off();
            self.keep("the path of writes", &**panic);
        }
        ran
    }

    /// Counts a pass of maintenance that did not panic.
    pub(crate) fn passed(&self) {
        self.panics_in_a_row.store(0, Ordering::Relaxed);
    }

    /// Counts a pass of maintenance that panicked. Returns whether that was one too many.
    pub(crate) fn panicked(&self, panic: &(dyn Any + Send)) -> bool {
        self.keep("maintenance", panic);
        self.panics.fetch_add(1, Ordering::Relaxed);
        self.panics_in_a_row.fetch_add(1, Ordering::Relaxed) >= MOST
    }

    /// Turns the cache off because memory and engine differ. The first difference is kept.
    pub(crate) fn differs(&self, difference: String) {
        let _ = self.difference.set(difference);
        self.turn_off();
    }

    fn keep(&self, what: &str, panic: &(dyn Any + Send)) {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        let text = text.unwrap_or_else(|| "no message".to_owned());
        *self.last_panic.lock() = Some(format!("{what} panicked: {text}"));
    }

    /// The number of passes of maintenance that panicked.
    pub(crate) fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }

    /// The difference between memory and engine, if an audit found one.
    pub(crate) fn difference(&self) -> Option<&str> {
        self.difference.get().map(String::as_str)
    }

    /// The state for users and for the hot set.
    pub(crate) fn report(&self) -> Faults {
        let is_off = self.is_off();
        let difference = self.difference().map(str::to_owned);
        let what = difference.or_else(|| self.last_panic.lock().clone());
        Faults {
            is_off,
            panics: self.panics(),
            what: what.or_else(|| is_off.then(|| "the commit hook panicked".to_owned())),
        }
    }
}
