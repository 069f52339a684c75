//! The commit hook: code of the user that learns of every commit before readers can see it.
//!
//! Owns the hook and whether it can still be called. Promises: a hook sees each published operation
//! exactly once, in the order of sequence numbers, after the operation is in the memtable and
//! before any reader can see it; and nothing that is not published afterwards. It is told the
//! tickets of batches after they are visible, and before their writers return. A hook that panics
//! harms no commit; it is never called again.

use std::sync::Arc;

use super::queue::Lead;
use crate::batch::WriteBatch;
use crate::commit_hook::{BypassedRange, CommitHook, CommittedOps};
use crate::format::SequenceNumber;
use crate::panics::contain;
use crate::sync::atomic::{AtomicBool, Ordering};

/// The hook of a database, while it can be called.
pub(crate) struct Hook {
    hook: Arc<dyn CommitHook>,
    poisoned: AtomicBool,
    /// To be called once, when the hook has panicked.
    on_poison: Box<dyn Fn() + Send + Sync>,
}

impl Hook {
    pub(crate) fn new(hook: Arc<dyn CommitHook>, on_poison: Box<dyn Fn() + Send + Sync>) -> Self {
        Hook {
            hook,
            poisoned: AtomicBool::new(false),
            on_poison,
        }
    }

    /// The owner of the entries, if files made elsewhere would damage them. A hook that panics
    /// counts as one that refuses.
    pub(crate) fn refuses_files(&self) -> Option<String> {
        let asked = contain(|| self.hook.refuses_files());
        asked.unwrap_or_else(|_| Some("a commit hook that panicked".to_owned()))
    }

    pub(crate) fn is_poisoned(&self) -> bool {
        self.poisoned.load(Ordering::Acquire)
    }

    /// Shows the hook a group whose first operation has the number `first`.
    pub(crate) fn before_publish(
        &self,
        lead: &Lead<'_>,
        first: SequenceNumber,
        batches: &[WriteBatch],
    ) {
        let operations = CommittedOps::new(batches, first);
        self.call(lead, |hook| hook.before_publish(first, &operations));
    }

    /// Tells the hook the tickets of a group that is visible now.
    pub(crate) fn after_publish(&self, lead: &Lead<'_>, batches: &[WriteBatch]) {
        let mut tickets = batches.iter().filter_map(WriteBatch::ticket).peekable();
        if tickets.peek().is_some() {
            self.call(lead, |hook| hook.after_publish(&mut tickets));
        }
    }

    /// Shows the hook a change that is no operation.
    pub(crate) fn on_bypass(
        &self,
        lead: &Lead<'_>,
        range: &BypassedRange<'_>,
        sequence: SequenceNumber,
    ) {
        self.call(lead, |hook| hook.on_bypass(range, sequence));
    }

    fn call(&self, lead: &Lead<'_>, call: impl FnOnce(&dyn CommitHook)) {
        if self.is_poisoned() {
            return;
        }
        let _user_code = lead.user_code();
        if contain(|| call(&*self.hook)).is_ok() {
            return;
        }
        // ORDER: before the next change is visible that the hook does not see, so that no reader
        // takes the copy for complete.
        self.poisoned.store(true, Ordering::Release);
        (self.on_poison)();
    }
}
