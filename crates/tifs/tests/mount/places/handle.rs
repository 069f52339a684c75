//! File handles: what a server of NFS keeps of a file.

#![allow(unsafe_code, reason = "no safe interface has file handles")]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::libc;

/// Bytes that a handle may have.
const MAX: usize = 128;

/// A file, known by its number. In the layout of the kernel's `struct file_handle`.
#[repr(C)]
pub struct Handle {
    bytes: libc::c_uint,
    kind: libc::c_int,
    handle: [u8; MAX],
}

impl Handle {
    /// The handle of what is at `path`.
    pub fn of(path: &Path) -> Handle {
        let path = std::ffi::CString::new(path.as_os_str().as_bytes()).unwrap();
        let mut handle = Handle {
            bytes: MAX as libc::c_uint,
            kind: 0,
            handle: [0; MAX],
        };
        let mut mount: libc::c_int = 0;
        let into: *mut Handle = &raw mut handle;
        // SAFETY: the path is a string that ends with a zero, the handle has the room that it says,
        // and there is room for the number of the mount.
        let result = unsafe {
            libc::name_to_handle_at(
                libc::AT_FDCWD,
                path.as_ptr(),
                into.cast(),
                &raw mut mount,
                0,
            )
        };
        assert_eq!(result, 0, "{}", io::Error::last_os_error());
        handle
    }

    /// Opens the file in the mount that has `root`.
    pub fn open(&mut self, root: &Path) -> io::Result<File> {
        let root = File::open(root).unwrap();
        let handle: *mut Handle = &raw mut *self;
        // SAFETY: the descriptor is open, and the handle is one that the kernel made.
        let opened =
            unsafe { libc::open_by_handle_at(root.as_raw_fd(), handle.cast(), libc::O_RDONLY) };
        if opened < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just opened it, for nobody else.
        Ok(unsafe { OwnedFd::from_raw_fd(opened) }.into())
    }
}
