//! Notifies listeners how writes are stalled: of each change once, in the order of the changes,
//! whichever threads they happen on.

use std::collections::VecDeque;

use crate::format::ColumnFamilyId;
use crate::stats::{Listeners, StallEvent};
use crate::sync::Mutex;

/// Changes of which listeners have not been notified yet.
#[derive(Default)]
pub(crate) struct StallNotifier(Mutex<Queue>);

#[derive(Default)]
struct Queue {
    /// Oldest first.
    waiting: VecDeque<(ColumnFamilyId, StallEvent)>,
    /// A thread is notifying, and will go on until nothing is waiting.
    notifying: bool,
}

impl StallNotifier {
    /// Adds a change. To be called under the state lock, which orders the changes.
    pub(super) fn push(&self, family: ColumnFamilyId, stall: StallEvent) {
        self.0.lock().waiting.push_back((family, stall));
    }

    /// Whether listeners have been notified of everything.
    pub(super) fn is_idle(&self) -> bool {
        let notifier = self.0.lock();
        notifier.waiting.is_empty() && !notifier.notifying
    }

    /// Notifies listeners of what is waiting, unless another thread is doing so, which then includes
    /// this. Returns whether this thread did it. No lock of the database may be held.
    pub(super) fn notify(&self, listeners: &Listeners) -> bool {
        {
            let mut notifier = self.0.lock();
            if notifier.notifying || notifier.waiting.is_empty() {
                return false;
            }
            notifier.notifying = true;
        }
        // When a listener panics, this thread notifies no more, but the next one does.
        let mut notifying = Notifying {
            notifier: self,
            over: false,
        };
        while let Some((family, stall)) = notifying.next() {
            listeners.notify(|l| l.stall_changed(family, stall));
        }
        true
    }
}

struct Notifying<'a> {
    notifier: &'a StallNotifier,
    /// Listeners know everything: from then on another thread may be notifying.
    over: bool,
}

impl Notifying<'_> {
    /// The oldest change; without one, notifying is over from this moment on.
    fn next(&mut self) -> Option<(ColumnFamilyId, StallEvent)> {
        let mut notifier = self.notifier.0.lock();
        let next = notifier.waiting.pop_front();
        self.over = next.is_none();
        notifier.notifying = !self.over;
        next
    }
}

impl Drop for Notifying<'_> {
    fn drop(&mut self) {
        // Not `thread::panicking()`: this may be over within the unwinding of something else.
        if !self.over {
            self.notifier.0.lock().notifying = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::stats::{EventListener, StallCause};

    /// Records families in their order; panics at one.
    #[derive(Default)]
    struct Heard {
        families: Mutex<Vec<u32>>,
        panics_at: Option<u32>,
    }

    impl EventListener for Heard {
        fn stall_changed(&self, family: ColumnFamilyId, _: StallEvent) {
            self.families.lock().push(family.0);
            assert_ne!(Some(family.0), self.panics_at);
        }
    }

    const STALL: StallEvent = StallEvent::Delayed(StallCause::Level0Files);

    #[test]
    fn changes_of_many_threads_are_told_once_and_in_order() {
        let heard = Arc::new(Heard::default());
        let listeners = Listeners(vec![heard.clone()]);
        let notifier = StallNotifier::default();
        let order = Mutex::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        {
                            let mut next = order.lock();
                            notifier.push(ColumnFamilyId(*next), STALL);
                            *next += 1;
                        }
                        notifier.notify(&listeners);
                    }
                });
            }
        });
        assert!(notifier.is_idle());
        assert!(heard.families.lock().iter().copied().eq(0..4000));
    }

    #[test]
    fn a_listener_that_panics_does_not_silence_what_follows() {
        let heard = Arc::new(Heard {
            panics_at: Some(1),
            ..Heard::default()
        });
        let listeners = Listeners(vec![heard.clone()]);
        let notifier = StallNotifier::default();
        (0..3).for_each(|i| notifier.push(ColumnFamilyId(i), STALL));
        let told =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| notifier.notify(&listeners)));
        assert!(told.is_err());
        assert!(!notifier.is_idle());
        assert!(notifier.notify(&listeners));
        assert!(notifier.is_idle());
        assert_eq!(*heard.families.lock(), [0, 1, 2]);
    }

    /// Notifies, and ends that, while its thread unwinds.
    struct Unwinding<'a>(&'a StallNotifier);

    impl Drop for Unwinding<'_> {
        fn drop(&mut self) {
            let mut notifying = Notifying {
                notifier: self.0,
                over: false,
            };
            assert!(notifying.next().is_none());
            // Like another thread that begins right now.
            self.0.0.lock().notifying = true;
        }
    }

    #[test]
    fn telling_that_is_over_leaves_other_tellers_alone_even_while_unwinding() {
        let notifier = StallNotifier::default();
        let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _unwinding = Unwinding(&notifier);
            panic!("something else");
        }));
        assert!(unwound.is_err());
        assert!(!notifier.is_idle());
    }
}
