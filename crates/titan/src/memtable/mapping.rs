//! Memory mapped for the chunks of arenas, apart from the allocator's heap.
//!
//! Owns: mappings in use and idle ones, of the whole process. Promises: a mapping is nobody else's
//! until it is dropped. Assumes nothing.
//!
//! Chunks come and go by the dozen as memtables do. In one heap with the blocks of the cache, which
//! are small and stay, they leave holes that blocks settle in, so that the next memtable makes the
//! heap grow: it was seen at two and a half times of what was allocated. Pages from the system come
//! cleared, though, which costs as much as filling them; so mappings of one size are kept for the
//! next memtables, for as long as any memtable has some.

#![expect(
    unsafe_code,
    reason = "maps and unmaps memory; the comments give the argument"
)]

use std::ptr::{self, NonNull};

use parking_lot::Mutex;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// The size of mappings that are kept.
pub(super) const KEPT_BYTES: usize = 2 << 20;
/// How many are kept at most, idle.
const MAX_IDLE: usize = 32;

/// The mutex of the models is not to be had in statics, and the lock is held for moments in which
/// nothing else is waited for.
static KEPT: Mutex<Kept> = Mutex::new(Kept {
    in_use: 0,
    idle: Vec::new(),
});

struct Kept {
    in_use: usize,
    idle: Vec<Pages>,
}

/// Zeroed or used before, page-aligned, for its owner alone.
pub(super) struct Mapping(Option<Pages>);

impl Mapping {
    /// None if the system has no memory.
    pub(super) fn new(len: usize) -> Option<Self> {
        if len != KEPT_BYTES {
            return Pages::map(len).map(|pages| Mapping(Some(pages)));
        }
        let mut kept = KEPT.lock();
        let idle = kept.idle.pop();
        let pages = idle.or_else(|| Pages::map(len))?;
        kept.in_use += 1;
        Some(Mapping(Some(pages)))
    }

    /// Where it begins; it stays there.
    pub(super) fn base(&self) -> NonNull<u8> {
        self.0
            .as_ref()
            .map_or(NonNull::dangling(), |pages| pages.base)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let Some(pages) = self.0.take() else { return };
        if pages.len != KEPT_BYTES {
            return;
        }
        let mut kept = KEPT.lock();
        kept.in_use -= 1;
        let unmapped = if kept.in_use == 0 {
            std::mem::take(&mut kept.idle)
        } else if kept.idle.len() < MAX_IDLE {
            kept.idle.push(pages);
            Vec::new()
        } else {
            vec![pages]
        };
        // The system takes its time.
        drop(kept);
        drop(unmapped);
    }
}

struct Pages {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: it owns the memory that it points to, which no thread has more to do with than another.
unsafe impl Send for Pages {}

impl Pages {
    fn map(len: usize) -> Option<Self> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: without a wish where, the kernel maps what is not in use.
        let base = unsafe { mmap_anonymous(ptr::null_mut(), len, access, MapFlags::PRIVATE) };
        let base = NonNull::new(base.ok()?.cast())?;
        Some(Pages { base, len })
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: `map` made a mapping of just this range, and its owner has given it up. It can
        // fail only for a range that is none.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_are_apart_and_used_again() {
        for len in [128 << 10, KEPT_BYTES] {
            let mappings: Vec<Mapping> = (0..4).map(|_| Mapping::new(len).unwrap()).collect();
            for (tag, mapping) in (1..).zip(&mappings) {
                // SAFETY: the mapping has that many bytes and is this test's.
                unsafe { mapping.base().as_ptr().write_bytes(tag, len) };
            }
            for (tag, mapping) in (1..).zip(&mappings) {
                // SAFETY: as above; they were all just written.
                let bytes = unsafe { std::slice::from_raw_parts(mapping.base().as_ptr(), len) };
                assert!(bytes.iter().all(|&byte| byte == tag));
            }
        }
        // Other tests have memtables, too: how many are idle is not to be told.
        let held = Mapping::new(KEPT_BYTES).unwrap();
        drop(Mapping::new(KEPT_BYTES));
        assert!(KEPT.lock().idle.len() <= MAX_IDLE);
        drop(held);
    }
}
