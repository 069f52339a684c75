//! Detects a thread that would wait for itself: code of the user that runs while its thread leads a
//! commit queue, in a hook or a barrier, and calls something that waits for the same lead.

use std::cell::RefCell;

thread_local! {
    /// The queues whose lead this thread has while it runs code of the user, by address.
    static LED: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// Code of the user runs on this thread until this is dropped, and the thread leads a queue.
pub(crate) struct UserCode {
    queue: usize,
}

impl UserCode {
    /// `queue` is led by this thread.
    pub(super) fn under<Q>(queue: &Q) -> Self {
        let queue = address(queue);
        LED.with_borrow_mut(|led| led.push(queue));
        UserCode { queue }
    }

    /// Whether code of the user runs on this thread while the thread leads `queue`.
    pub(super) fn is_under<Q>(queue: &Q) -> bool {
        LED.with_borrow(|led| led.contains(&address(queue)))
    }
}

impl Drop for UserCode {
    fn drop(&mut self) {
        LED.with_borrow_mut(|led| {
            if let Some(at) = led.iter().rposition(|queue| *queue == self.queue) {
                led.remove(at);
            }
        });
    }
}

fn address<Q>(queue: &Q) -> usize {
    std::ptr::from_ref(queue).addr()
}
