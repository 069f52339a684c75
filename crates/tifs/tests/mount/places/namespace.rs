//! A mount namespace for each test.
//!
//! A test runs on a thread of its own. The namespace belongs to that thread and to the threads and
//! processes that it starts, so tests do not see each other's mounts. The kernel unmounts
//! everything when the last of them ends.

use nix::sched::{CloneFlags, unshare};
use rustix::fs::Mode;
use std::path::Path;

use rustix::mount::{MountFlags, MountPropagationFlags, mount_bind, mount_change, mount_remount};
use rustix::process::umask;
use titan_testkit::requirement;

/// Gives the calling thread a private mount namespace, in which nothing is masked from modes of new
/// files. Returns whether that was possible; if not, the test should return.
pub fn enter() -> bool {
    requirement::met("mounts: root", try_enter()).is_some()
}

fn try_enter() -> std::io::Result<()> {
    // Also separates the current directory, the root directory and the umask from other threads'.
    unshare(CloneFlags::CLONE_NEWNS)?;
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private)?;
    umask(Mode::empty());
    Ok(())
}

/// Accesses below a directory change no times: it is mounted upon itself, in the namespace.
pub fn without_access_times(directory: &Path) {
    mount_bind(directory, directory).unwrap();
    let flags = MountFlags::BIND | MountFlags::NOATIME | MountFlags::NODEV | MountFlags::NOSUID;
    mount_remount(directory, flags, "").unwrap();
}
