//! Notifies listeners how writes are stalled: of each change once, in the order of the changes,
//! whichever threads they happen on.

use std::collections::VecDeque;

use crate::format::ColumnFamilyId;
use crate::stats::{Listeners, StallEvent};
use crate::sync::Mutex;

/// Changes of which listeners have not been notified yet.
#[derive(Default)]
pub(crate) struct StallNews(Mutex<News>);

#[derive(Default)]
struct News {
    /// Oldest first.
    untold: VecDeque<(ColumnFamilyId, StallEvent)>,
    /// A thread is notifying, and will go on until nothing is untold.
    telling: bool,
}

impl StallNews {
    /// Adds a change. To be called under the state lock, which orders the changes.
    pub(super) fn push(&self, family: ColumnFamilyId, stall: StallEvent) {
        self.0.lock().untold.push_back((family, stall));
    }

    /// Whether listeners have been notified of everything.
    pub(super) fn all_told(&self) -> bool {
        let news = self.0.lock();
        news.untold.is_empty() && !news.telling
    }

    /// Notifies listeners of what is untold, unless another thread is doing so, which then includes
    /// this. Returns whether this thread did it. No lock of the database may be held.
    pub(super) fn tell(&self, listeners: &Listeners) -> bool {
        {
            let mut news = self.0.lock();
            if news.telling || news.untold.is_empty() {
                return false;
            }
            news.telling = true;
        }
        // When a listener panics, this thread notifies no more, but the next one does.
        let mut telling = Telling {
            news: self,
            over: false,
        };
        while let Some((family, stall)) = telling.next() {
            listeners.tell(|l| l.stall_changed(family, stall));
        }
        true
    }
}

struct Telling<'a> {
    news: &'a StallNews,
    /// Listeners know everything: from then on another thread may be notifying.
    over: bool,
}

impl Telling<'_> {
    /// The oldest change; without one, notifying is over from this moment on.
    fn next(&mut self) -> Option<(ColumnFamilyId, StallEvent)> {
        let mut news = self.news.0.lock();
        let next = news.untold.pop_front();
        self.over = next.is_none();
        news.telling = !self.over;
        next
    }
}

impl Drop for Telling<'_> {
    fn drop(&mut self) {
        // Not `thread::panicking()`: this may be over within the unwinding of something else.
        if !self.over {
            self.news.0.lock().telling = false;
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
        let news = StallNews::default();
        let order = Mutex::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        {
                            let mut next = order.lock();
                            news.push(ColumnFamilyId(*next), STALL);
                            *next += 1;
                        }
                        news.tell(&listeners);
                    }
                });
            }
        });
        assert!(news.all_told());
        assert!(heard.families.lock().iter().copied().eq(0..4000));
    }

    #[test]
    fn a_listener_that_panics_does_not_silence_what_follows() {
        let heard = Arc::new(Heard {
            panics_at: Some(1),
            ..Heard::default()
        });
        let listeners = Listeners(vec![heard.clone()]);
        let news = StallNews::default();
        (0..3).for_each(|i| news.push(ColumnFamilyId(i), STALL));
        let told = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| news.tell(&listeners)));
        assert!(told.is_err());
        assert!(!news.all_told());
        assert!(news.tell(&listeners));
        assert!(news.all_told());
        assert_eq!(*heard.families.lock(), [0, 1, 2]);
    }

    /// Notifies, and ends that, while its thread unwinds.
    struct Unwinding<'a>(&'a StallNews);

    impl Drop for Unwinding<'_> {
        fn drop(&mut self) {
            let mut telling = Telling {
                news: self.0,
                over: false,
            };
            assert!(telling.next().is_none());
            // Like another thread that begins right now.
            self.0.0.lock().telling = true;
        }
    }

    #[test]
    fn telling_that_is_over_leaves_other_tellers_alone_even_while_unwinding() {
        let news = StallNews::default();
        let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _unwinding = Unwinding(&news);
            panic!("something else");
        }));
        assert!(unwound.is_err());
        assert!(!news.all_told());
    }
}
