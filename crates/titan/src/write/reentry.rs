//! Detects a thread that would wait for itself: code of the user that runs while its thread leads a
//! commit queue, in a hook or a barrier, and calls something that waits for the same lead.

use std::cell::Cell;

/// Largest number of queues that a thread can lead at once for all of them to be known: a hook may
/// write to another database that has a hook.
const DEPTH: usize = 4;

#[cfg(not(shuttle))]
thread_local! {
    /// The queues whose lead this thread has while it runs code of the user, by address, the last
    /// one first; zeros after them. Plain numbers, so that a hook costs a commit next to nothing.
    static LED: Cell<[usize; DEPTH]> = const { Cell::new([0; DEPTH]) };
}

// The threads of the scheduler are coroutines of one thread.
#[cfg(shuttle)]
shuttle::thread_local! {
    static LED: Cell<[usize; DEPTH]> = Cell::new([0; DEPTH]);
}

/// Code of the user runs on this thread until this is dropped, and the thread leads a queue.
pub(crate) struct UserCode {
    before: [usize; DEPTH],
}

impl UserCode {
    /// `queue` is led by this thread.
    #[inline]
    pub(super) fn under<Q>(queue: &Q) -> Self {
        let before = LED.with(Cell::get);
        let [first, second, third, _] = before;
        LED.with(|led| led.set([address(queue), first, second, third]));
        UserCode { before }
    }

    /// Whether code of the user runs on this thread while the thread leads `queue`.
    pub(super) fn is_under<Q>(queue: &Q) -> bool {
        LED.with(Cell::get).contains(&address(queue))
    }
}

impl Drop for UserCode {
    #[inline]
    fn drop(&mut self) {
        LED.with(|led| led.set(self.before));
    }
}

fn address<Q>(queue: &Q) -> usize {
    std::ptr::from_ref(queue).addr()
}
