//! Maps memory for the chunks of arenas, outside of the allocator's heap.
//!
//! Owns: the mappings of the whole process, in use and idle. Promises: a mapping has one owner
//! until it is dropped. Assumes nothing.
//!
//! Memtables allocate and free chunks by the dozen. In one heap with the blocks of the cache, which
//! are small and stay, freed chunks leave holes that blocks fill, so that the next memtable makes
//! the heap grow: three and a half times the size allocated was observed. Pages from the system are
//! cleared, though, which costs time; so idle mappings are kept for the next memtables, for as long
//! as any are in use, and the kernel is advised that it may take the pages of idle ones if it needs
//! them.
//!
//! Sanitizers do not check mapped memory: the small chunks of their tests are allocated.

#![expect(
    unsafe_code,
    reason = "maps and unmaps memory; the comments give the argument"
)]

use std::mem;
use std::ptr::{self, NonNull};

use parking_lot::Mutex;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// Bytes of idle mappings that are kept at most.
const MAX_IDLE_BYTES: usize = 64 << 20;

/// Not the mutex of the models, which statics cannot have: no thread waits while it has this one.
static POOL: Mutex<Pool> = Mutex::new(Pool {
    in_use: 0,
    idle: Vec::new(),
});

/// Page-aligned memory with one owner and any content.
pub(super) struct Mapping {
    pages: Pages,
    pool: &'static Mutex<Pool>,
}

impl Mapping {
    /// None if the system has no memory, or cannot map it.
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

    /// The start address, which does not change.
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
    /// Takes an idle mapping of this length; `None` if the caller is to create one. Either counts
    /// as in use from here on.
    fn take(&mut self, len: usize) -> Option<Pages> {
        self.in_use += 1;
        let at = self.idle.iter().rposition(|pages| pages.len == len)?;
        Some(self.idle.swap_remove(at))
    }

    /// Takes a mapping back; returns those that are to be unmapped.
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

/// A mapping that is not unmapped on drop: its owner [`unmap`](Pages::unmap)s it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Pages {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the memory is not bound to a thread.
unsafe impl Send for Pages {}
// SAFETY: a shared reference only gives an address and a length.
unsafe impl Sync for Pages {}

impl Pages {
    fn map(len: usize) -> Option<Self> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: no address is requested, so the kernel maps a range that is not in use.
        let base = unsafe { mmap_anonymous(ptr::null_mut(), len, access, MapFlags::PRIVATE) };
        let base = NonNull::new(base.ok()?.cast())?;
        Some(Pages { base, len })
    }

    /// Lets the kernel take the pages if it needs them before they are written to again. Their
    /// content may be lost.
    fn offer(self) {
        // SAFETY: a range that `map` made, whose content nothing uses. A kernel that does not know
        // this advice keeps the pages.
        let _ = unsafe { madvise(self.base.as_ptr().cast(), self.len, Advice::LinuxFree) };
    }

    fn unmap(self) {
        // SAFETY: a range that `map` made, which its last owner has given up. If the process has
        // as many mappings as it may, the kernel refuses to split one: then this range stays,
        // unused.
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
            // SAFETY: the mapping has that many bytes and belongs to this test.
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
