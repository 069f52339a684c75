//! Files mapped into memory. All unsafe code of these tests is here and in `places/handle.rs`.

#![allow(
    unsafe_code,
    reason = "no safe interface maps a file that others may change"
)]

use std::os::fd::AsFd;
use std::ptr::NonNull;

use rustix::io::Result;
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap};

/// A shared mapping of the beginning of a file, for reading and writing.
///
/// Bytes are copied in and out with volatile accesses, and no reference to them is made, so another
/// process may change them at any time. A file that becomes shorter than the mapping, or cannot be
/// read, ends the process with `SIGBUS`.
pub struct Mapping {
    start: NonNull<u8>,
    length: usize,
}

impl Mapping {
    /// Maps the first `length` bytes, which must not be 0. The file must be open for reading and
    /// writing.
    pub fn new(file: impl AsFd, length: usize) -> Result<Mapping> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the place, so no memory in use is replaced.
        let start = unsafe {
            mmap(
                std::ptr::null_mut(),
                length,
                access,
                MapFlags::SHARED,
                file,
                0,
            )?
        };
        Ok(Mapping {
            start: NonNull::new(start.cast()).unwrap(),
            length,
        })
    }

    /// Bytes from `at` on.
    pub fn read(&self, at: usize, length: usize) -> Vec<u8> {
        assert!(at + length <= self.length);
        (at..at + length)
            // SAFETY: within the mapping, by the assertion.
            .map(|i| unsafe { self.start.add(i).read_volatile() })
            .collect()
    }

    /// Replaces bytes from `at` on.
    pub fn write(&mut self, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= self.length);
        for (i, &byte) in bytes.iter().enumerate() {
            // SAFETY: within the mapping, by the assertion.
            unsafe { self.start.add(at + i).write_volatile(byte) }
        }
    }

    /// Returns when everything that was written is in the file (`msync`).
    pub fn sync(&self) -> Result<()> {
        // SAFETY: exactly the mapping.
        unsafe { msync(self.start.as_ptr().cast(), self.length, MsyncFlags::SYNC) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping, which nothing uses any more.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.length) };
    }
}
