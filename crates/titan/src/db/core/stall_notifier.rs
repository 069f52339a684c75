//! Notifies listeners how writes are stalled: of each change once, in the order of the changes,
//! which may happen on several threads.

use std::collections::VecDeque;

use crate::format::ColumnFamilyId;
use crate::stats::{Listeners, StallEvent, notify};
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
    pub(crate) fn push(&self, family: ColumnFamilyId, stall: StallEvent) {
        self.0.lock().waiting.push_back((family, stall));
    }

    /// Whether listeners have been notified of everything.
    pub(crate) fn is_idle(&self) -> bool {
        let notifier = self.0.lock();
        notifier.waiting.is_empty() && !notifier.notifying
    }

    /// Notifies listeners of the waiting changes, unless another thread is doing so, which then
    /// includes these. Returns whether this thread did it. No lock of the database may be held.
    pub(crate) fn notify(&self, listeners: &Listeners) -> bool {
        {
            let mut notifier = self.0.lock();
            if notifier.notifying || notifier.waiting.is_empty() {
                return false;
            }
            notifier.notifying = true;
        }
        while let Some((family, stall)) = self.next() {
            notify!(listeners, stall_changed(family, stall));
        }
        true
    }

    /// The oldest change; without one, notifying is over from this moment on.
    fn next(&self) -> Option<(ColumnFamilyId, StallEvent)> {
        let mut notifier = self.0.lock();
        invariant!(
            notifier.notifying,
            "a change is taken by a thread that does not notify"
        );
        let next = notifier.waiting.pop_front();
        notifier.notifying = next.is_some();
        next
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
        let listeners = Listeners::new(vec![heard.clone()], Arc::default());
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
        let listeners = Listeners::new(vec![heard.clone()], Arc::default());
        let notifier = StallNotifier::default();
        (0..3).for_each(|i| notifier.push(ColumnFamilyId(i), STALL));
        assert!(notifier.notify(&listeners));
        assert!(notifier.is_idle());
        assert_eq!(*heard.families.lock(), [0, 1, 2]);
    }
}
