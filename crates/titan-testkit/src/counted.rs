//! An allocator that counts: the system's, with counters.
//!
//! A test program uses it with
//!
//! ```
//! use titan_testkit::counted::{self, Counted};
//!
//! #[global_allocator]
//! static COUNTED: Counted = Counted;
//!
//! let before = counted::live_bytes();
//! let block = vec![0_u8; 1000];
//! assert!(counted::live_bytes() >= before + 1000);
//! # drop(block);
//! ```
//!
//! All threads of the program share the counters, so what is compared must be allocated while no
//! other thread works.

#![allow(unsafe_code, reason = "an allocator has no safe interface")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicI64, Ordering};

static REQUESTED: AtomicI64 = AtomicI64::new(0);
static TAKEN: AtomicI64 = AtomicI64::new(0);
static PEAK: AtomicI64 = AtomicI64::new(0);

/// See the module.
pub struct Counted;

/// Bytes that are allocated now, as requested.
pub fn live_bytes() -> i64 {
    REQUESTED.load(Ordering::SeqCst)
}

/// The most bytes that were allocated at once, as requested, since the last call or the start.
pub fn take_peak_bytes() -> i64 {
    PEAK.swap(live_bytes(), Ordering::SeqCst)
}

/// [`live_bytes`] with what the allocator itself needs: glibc's keeps the size before each block,
/// and gives out blocks of multiples of 16 bytes, at least 32.
pub fn live_bytes_taken() -> i64 {
    TAKEN.load(Ordering::SeqCst)
}

fn taken(bytes: usize) -> i64 {
    ((bytes + 8).next_multiple_of(16).max(32)) as i64
}

fn add(bytes: usize) {
    let before = REQUESTED.fetch_add(bytes as i64, Ordering::SeqCst);
    PEAK.fetch_max(before + bytes as i64, Ordering::SeqCst);
    TAKEN.fetch_add(taken(bytes), Ordering::SeqCst);
}

fn subtract(bytes: usize) {
    REQUESTED.fetch_sub(bytes as i64, Ordering::SeqCst);
    TAKEN.fetch_sub(taken(bytes), Ordering::SeqCst);
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
