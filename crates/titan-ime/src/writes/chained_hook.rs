//! The commit hook of a program, called after that of the cache.
//!
//! The engine has one hook and stops calling it after a panic. So a panic of the program's hook
//! turns the cache off before the group is visible.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use titan::{BypassedRange, CommitHook, CommittedOps, SequenceNumber};

use crate::segments::shared::Shared;

/// The hook of a cache, then that of the program.
pub(crate) struct ChainedHook {
    shared: Arc<Shared>,
    other: Arc<dyn CommitHook>,
}

impl ChainedHook {
    pub(crate) fn new(shared: Arc<Shared>, other: Arc<dyn CommitHook>) -> Self {
        ChainedHook { shared, other }
    }

    /// Turns the cache off and passes the panic of the program's hook on to the engine.
    fn give_up(&self, panic: Box<dyn Any + Send>) {
        self.shared.faults.turn_off();
        resume_unwind(panic);
    }
}

impl CommitHook for ChainedHook {
    fn before_publish(&self, first: SequenceNumber, operations: &CommittedOps<'_>) {
        self.shared.before_publish(first, operations);
        // ORDER: the cache is off before the group is visible, since its hook is not called any
        // more then.
        let ran = catch_unwind(AssertUnwindSafe(|| {
            self.other.before_publish(first, operations);
        }));
        ran.unwrap_or_else(|panic| self.give_up(panic));
    }

    fn on_bypass(&self, range: &BypassedRange<'_>, sequence: SequenceNumber) {
        self.shared.on_bypass(range, sequence);
        let ran = catch_unwind(AssertUnwindSafe(|| self.other.on_bypass(range, sequence)));
        ran.unwrap_or_else(|panic| self.give_up(panic));
    }

    fn refuses_files(&self) -> Option<String> {
        self.other.refuses_files()
    }
}

#[cfg(test)]
#[cfg(workspace)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use titan::BatchOp;
    use titan_mvcc::{StoreOptions, codec};
    use titan_testkit::sim::SimVfs;

    use super::*;
    use crate::{CacheOptions, RangeCache};

    /// Counts operations on the versions, and panics when it is told.
    #[derive(Default)]
    struct Counts {
        operations: AtomicUsize,
        panics: AtomicBool,
    }

    impl CommitHook for Counts {
        fn before_publish(&self, _: SequenceNumber, operations: &CommittedOps<'_>) {
            let panics = self.panics.load(Ordering::SeqCst);
            assert!(!panics, "as a test asked");
            let puts = operations.iter().filter(
                |(_, op)| matches!(op, BatchOp::Put { key, .. } if codec::decode(key).is_ok()),
            );
            self.operations.fetch_add(puts.count(), Ordering::SeqCst);
        }

        fn on_bypass(&self, _: &BypassedRange<'_>, _: SequenceNumber) {}
    }

    #[test]
    fn the_hook_of_the_program_is_called_beside_that_of_the_cache() {
        let counts = Arc::new(Counts::default());
        let mut options = StoreOptions::default();
        options.db.vfs = Arc::new(SimVfs::new());
        options.db.commit_hook = Some(Arc::clone(&counts) as _);
        let cache_options = CacheOptions {
            maintenance: None,
            ..CacheOptions::default()
        };
        let cache = RangeCache::open("/store", &options, &cache_options).unwrap();
        cache.load(None, None).unwrap();
        let put = |value: &[u8]| {
            let mut transaction = cache.store().begin();
            transaction.put(b"a", value);
            transaction.commit()
        };
        let read = || cache.store().snapshot().get(b"a").unwrap();
        put(b"1").unwrap();
        put(b"2").unwrap();
        assert_eq!(read().as_deref(), Some(&b"2"[..]));
        let operations = || counts.operations.load(Ordering::SeqCst);
        assert_eq!((operations(), cache.stats().points.hits), (2, 1));
        cache.audit().unwrap();
        // Neither is called after a panic, so memory is not read any more.
        counts.panics.store(true, Ordering::SeqCst);
        put(b"3").unwrap();
        assert_eq!(read().as_deref(), Some(&b"3"[..]));
        put(b"4").unwrap();
        assert_eq!(read().as_deref(), Some(&b"4"[..]));
        assert!(cache.is_off());
        assert_eq!(operations(), 2);
    }
}
