//! Memory mapped for the chunks of arenas, apart from the allocator's heap.
//!
//! Owns: mappings in use and idle ones, of the whole process. Promises: a mapping is nobody else's
//! until it is dropped. Assumes nothing.
//!
//! Chunks come and go by the dozen as memtables do. In one heap with the blocks of the cache, which
//! are small and stay, they leave holes that blocks settle in, so that the next memtable makes the
//! heap grow: it was seen at three and a half times of what was allocated. Pages from the system
//! come cleared, though, which costs time; so mappings are kept for the next memtables, for as long
//! as any are in use, and the kernel is told that it may take the pages of idle ones if it wants
//! them.
//!
//! Sanitizers do not watch over mapped memory: the small chunks of their tests are allocated.

#![expect(
    unsafe_code,
    reason = "maps and unmaps memory; the comments give the argument"
)]

use std::mem;
use std::ptr::{self, NonNull};

use parking_lot::Mutex;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// How much is kept at most, idle.
const MAX_IDLE_BYTES: usize = 64 << 20;

/// Not the mutex of the models, which statics cannot have: under it nothing is waited for.
static POOL: Mutex<Pool> = Mutex::new(Pool {
    in_use: 0,
    idle: Vec::new(),
});

/// Page-aligned memory for its owner alone, with anything in it.
pub(super) struct Mapping {
    pages: Pages,
    pool: &'static Mutex<Pool>,
}

impl Mapping {
    /// None if the system has no memory, or not in this way.
    pub(super) fn new(len: usize) -> Option<Self> {
        Self::from(&POOL, len)
    }

    fn from(pool: &'static Mutex<Pool>, len: usize) -> Option<Self> {
        let idle = pool.lock().take(len);
        let pages = match idle {
            Some(pages) => pages,
            None => Pages::map(len).or_else(|| {
                pool.lock().in_use -= 1;
                None
            })?,
        };
        Some(Mapping { pages, pool })
    }

    /// Where it begins; it stays there.
    pub(super) fn base(&self) -> NonNull<u8> {
        self.pages.base
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        self.pages.offer();
        let given_up = self.pool.lock().put(self.pages);
        given_up.into_iter().for_each(Pages::unmap);
    }
}

struct Pool {
    in_use: usize,
    idle: Vec<Pages>,
}

impl Pool {
    /// One of this length that is idle; if there is none, the caller is to make one. Either counts
    /// as in use from here on.
    fn take(&mut self, len: usize) -> Option<Pages> {
        self.in_use += 1;
        let at = self.idle.iter().rposition(|pages| pages.len == len)?;
        Some(self.idle.swap_remove(at))
    }

    /// Takes one back; gives those that are not kept.
    fn put(&mut self, pages: Pages) -> Vec<Pages> {
        self.in_use -= 1;
        let idle: usize = self.idle.iter().map(|pages| pages.len).sum();
        if self.in_use > 0 && idle + pages.len <= MAX_IDLE_BYTES {
            self.idle.push(pages);
            return Vec::new();
        }
        let mut given_up = vec![pages];
        if self.in_use == 0 {
            given_up.append(&mut mem::take(&mut self.idle));
        }
        given_up
    }
}

/// A mapping; whoever has it does not drop it but [`unmap`](Pages::unmap)s it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Pages {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: no thread has more to do with the memory than another.
unsafe impl Send for Pages {}
// SAFETY: shared, it gives an address and a length.
unsafe impl Sync for Pages {}

impl Pages {
    fn map(len: usize) -> Option<Self> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: without a wish where, the kernel maps what is not in use.
        let base = unsafe { mmap_anonymous(ptr::null_mut(), len, access, MapFlags::PRIVATE) };
        let base = NonNull::new(base.ok()?.cast())?;
        Some(Pages { base, len })
    }

    /// Lets the kernel have the pages, should it want them before they are written to again. Their
    /// content is nobody's.
    fn offer(self) {
        // SAFETY: a range that `map` made, of which nobody has a use for what is in it. Where the
        // kernel knows no such advice, it keeps the pages.
        let _ = unsafe { madvise(self.base.as_ptr().cast(), self.len, Advice::LinuxFree) };
    }

    fn unmap(self) {
        // SAFETY: a range that `map` made, which its last owner has given up. Where the process has
        // as many mappings as it may, the kernel refuses to split one: then this range stays, unused.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool() -> &'static Mutex<Pool> {
        Box::leak(Box::new(Mutex::new(Pool {
            in_use: 0,
            idle: Vec::new(),
        })))
    }

    #[test]
    fn mappings_are_apart() {
        let pool = pool();
        let len = 256 << 10;
        let mappings: Vec<Mapping> = (0..4).map(|_| Mapping::from(pool, len).unwrap()).collect();
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

    #[test]
    fn idle_ones_are_used_again_while_any_is_in_use() {
        let (pool, len) = (pool(), 1 << 20);
        let held = Mapping::from(pool, len).unwrap();
        let first = Mapping::from(pool, len).unwrap();
        let base = first.base();
        drop(first);
        let other = Mapping::from(pool, 2 * len).unwrap();
        assert_ne!(other.base(), base, "of another length");
        let again = Mapping::from(pool, len).unwrap();
        assert_eq!(again.base(), base);

        let many: Vec<_> = (0..80).map(|_| Mapping::from(pool, len).unwrap()).collect();
        drop(many);
        assert_eq!(pool.lock().idle.len(), MAX_IDLE_BYTES / len);
        drop((again, other));
        assert_eq!(pool.lock().in_use, 1);
        drop(held);
        assert!(pool.lock().idle.is_empty(), "nobody needs them");
    }
}
