//! A tmpfs: the file system of the kernel with which a volume is compared.

use std::ffi::CString;
use std::path::Path;

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use tempfile::TempDir;

/// A mounted tmpfs. It is unmounted when this is dropped.
pub struct Tmpfs {
    directory: TempDir,
}

impl Tmpfs {
    /// Mounts one, in a [namespace](super::enter) of the test. Accesses change no times.
    pub fn new() -> Tmpfs {
        Tmpfs::with_options("mode=755")
    }

    /// The same, with options as `mount` takes them after `-o`.
    pub fn with_options(options: &str) -> Tmpfs {
        let directory = TempDir::new().unwrap();
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOATIME;
        let options = CString::new(options).unwrap();
        mount(
            c"tmpfs",
            directory.path(),
            c"tmpfs",
            flags,
            Some(options.as_c_str()),
        )
        .unwrap();
        Tmpfs { directory }
    }

    /// Its root directory.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = unmount(self.directory.path(), UnmountFlags::DETACH);
    }
}
