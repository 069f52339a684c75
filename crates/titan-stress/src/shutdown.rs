//! Ends a file system like a power failure, without waiting for one.
//!
//! The crate's only unsafe code: a request to the kernel for which no library has a safe form.
#![expect(unsafe_code, reason = "an ioctl that no library has a safe form of")]

use std::fs::File;
use std::path::Path;

use rustix::ioctl::{Opcode, Setter, ioctl, opcode};

/// `EXT4_IOC_SHUTDOWN`.
const SHUTDOWN: Opcode = opcode::read::<u32>(b'X', 125);
/// `EXT4_GOING_FLAGS_NOLOGFLUSH`: neither data nor journal is written any more.
const WITHOUT_FLUSH: u32 = 2;

/// Shuts down the ext4 file system mounted at `mount`: everything it has not yet written to its
/// device is lost, as in a power failure. It must be unmounted next. Needs root.
pub(crate) fn shut_down(mount: &Path) -> std::io::Result<()> {
    let root = File::open(mount)?;
    // SAFETY: the kernel reads one u32 through the pointer that `Setter` passes, on any file
    // system (another one than ext4 refuses the request or reads the same), and writes nothing.
    let outcome = unsafe { ioctl(&root, Setter::<SHUTDOWN, u32>::new(WITHOUT_FLUSH)) };
    Ok(outcome?)
}
