//! The allocator of this program: the system's, with a counter.

#![allow(unsafe_code, reason = "an allocator has no safe interface")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicI64, Ordering};

static LIVE: AtomicI64 = AtomicI64::new(0);

#[global_allocator]
static COUNTED: Counted = Counted;

struct Counted;

/// Bytes that are allocated now, as requested.
pub(crate) fn live_bytes() -> i64 {
    LIVE.load(Ordering::SeqCst)
}

fn add(bytes: usize) {
    LIVE.fetch_add(bytes as i64, Ordering::SeqCst);
}

fn subtract(bytes: usize) {
    LIVE.fetch_sub(bytes as i64, Ordering::SeqCst);
}

// SAFETY: every call is passed on to the system's allocator, unchanged; counting does not allocate.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: what the caller promises is what the system's allocator requires.
        let memory = unsafe { System.alloc(layout) };
        if !memory.is_null() {
            add(layout.size());
        }
        memory
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        let memory = unsafe { System.alloc_zeroed(layout) };
        if !memory.is_null() {
            add(layout.size());
        }
        memory
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above; the memory came from the system's allocator.
        unsafe { System.dealloc(memory, layout) };
        subtract(layout.size());
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        let moved = unsafe { System.realloc(memory, layout, size) };
        if !moved.is_null() {
            add(size);
            subtract(layout.size());
        }
        moved
    }
}
