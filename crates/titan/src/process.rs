//! Which process this is.
//!
//! A child that a process makes by `fork` has a copy of its memory, and the open files and their
//! locks in common with it. It has none of its other threads. If the child wrote to a database that
//! its parent has open, two processes would write to it. So code that changes files asks first
//! whether this is still the process that opened them.
//!
//! Owns: one page of memory that the kernel clears in each child (`MADV_WIPEONFORK`). The first
//! question in a process writes a number there that none of its ancestors had. The process id would
//! say the same, but to ask for it is a system call.
//!
//! Promises that a [`Process`] is current in the process that made it alone. Assumes that nobody
//! makes a process that shares its parent's memory and goes on to use the database in both.

#![expect(
    unsafe_code,
    reason = "maps a page that is used as an atomic number; the comments give the argument"
)]

use std::ptr::{self, NonNull};
use std::sync::OnceLock;
// Not those of the models, which statics cannot have: no thread waits for another by them.
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// The page of this process and its children, if the kernel has such pages.
static PAGE: OnceLock<Option<&'static AtomicU64>> = OnceLock::new();

/// The newest number of this process or of an ancestor.
static NEWEST: AtomicU64 = AtomicU64::new(0);

/// The process that made it.
///
/// ```
/// let here = titan::Process::current();
/// assert!(here.is_current());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Process(Known);

#[derive(Clone, Copy, Debug)]
enum Known {
    /// By the number on the page.
    Page {
        page: &'static AtomicU64,
        number: u64,
    },
    /// By the process id.
    Id(u32),
}

impl Process {
    /// This process. Cost: one system call for the first one.
    pub fn current() -> Self {
        Process(match PAGE.get_or_init(map_page) {
            Some(page) => Known::Page {
                page,
                number: number_on(page),
            },
            None => Known::Id(std::process::id()),
        })
    }

    /// Whether this is the process that called [`Process::current`], and no child of it. Cost: a
    /// read of memory; a system call where the kernel is older than Linux 4.14.
    #[inline]
    pub fn is_current(&self) -> bool {
        match self.0 {
            Known::Page { page, number } => page.load(Ordering::Relaxed) == number,
            Known::Id(id) => std::process::id() == id,
        }
    }
}

/// The number of this process. Gives it one if the page has none.
fn number_on(page: &AtomicU64) -> u64 {
    let number = page.load(Ordering::Relaxed);
    if number != 0 {
        return number;
    }
    // Larger than that of any ancestor that was there before a fork.
    let next = NEWEST.fetch_add(1, Ordering::Relaxed) + 1;
    match page.compare_exchange(0, next, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => next,
        Err(given) => given,
    }
}

/// A page that reads as zeros in each child, for as long as there are processes that have it.
fn map_page() -> Option<&'static AtomicU64> {
    // The kernel rounds it up to a page.
    let len = size_of::<AtomicU64>();
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: no address is requested, so the kernel maps a range that is not in use.
    let base = unsafe { mmap_anonymous(ptr::null_mut(), len, access, MapFlags::PRIVATE) };
    let base = NonNull::new(base.ok()?)?;
    // SAFETY: the range that was just mapped. The advice changes nothing in this process.
    let wiped = unsafe { madvise(base.as_ptr(), len, Advice::LinuxWipeOnFork) };
    if wiped.is_err() {
        // SAFETY: the range that was just mapped, to which nothing refers.
        let _ = unsafe { munmap(base.as_ptr(), len) };
        return None;
    }
    // SAFETY: the mapping is aligned to a page, readable, writable and zero, which is a valid
    // number. It is never unmapped, and nothing but this atomic refers to it. In a child it is zero
    // again: other processes change only their own copy.
    Some(unsafe { base.cast::<AtomicU64>().as_ref() })
}

#[cfg(test)]
#[cfg(workspace)]
mod tests {
    use titan_testkit::child::in_child;

    use super::*;

    fn must(holds: bool, what: &str) -> Result<(), String> {
        match holds {
            true => Ok(()),
            false => Err(what.to_owned()),
        }
    }

    #[test]
    fn a_child_is_another_process_and_so_is_its_child() {
        let here = Process::current();
        in_child(60, || {
            must(!here.is_current(), "the parent's in the child")?;
            let child = Process::current();
            must(child.is_current(), "the child's own")?;
            in_child(60, || {
                must(!here.is_current(), "the parent's in the grandchild")?;
                must(!child.is_current(), "the child's in the grandchild")?;
                must(Process::current().is_current(), "the grandchild's own")
            })?;
            must(child.is_current(), "the child's own after that")
        })
        .unwrap();
        assert!(here.is_current() && Process::current().is_current());
    }

    #[test]
    fn a_kernel_without_such_pages_is_asked_for_the_process_id() {
        let here = Process(Known::Id(std::process::id()));
        assert!(here.is_current());
        in_child(60, || must(!here.is_current(), "the parent's in the child")).unwrap();
    }
}
