//! Mounting, serving threads, unmounting.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use fuser::{Config, SessionACL};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};

use super::adapter::Adapter;
use super::kernel_cache::KernelCache;
use crate::file_system::FileSystem;

/// The type of a mounted volume, as the table of mounts shows it.
pub const KIND: &str = "fuse.tifs";

/// How to mount.
#[derive(Clone, Debug)]
pub struct Options {
    /// What the table of mounts shows as the source.
    pub source: String,
    /// Refuse writes.
    pub read_only: bool,
    /// Honour device files.
    pub devices: bool,
    /// Honour set-user-ID and set-group-ID bits.
    pub set_user_id: bool,
    /// Allow programs to be executed.
    pub execute: bool,
    /// Write directly instead of gathering in the kernel's cache.
    pub synchronous: bool,
    /// Threads that serve requests.
    pub threads: usize,
    /// Keep idle processors awake while programs wait for one answer after the other: faster in virtual
    /// machines, for the processor time of the host. Not given: in virtual machines with at most 16
    /// processors.
    pub fast_wakeups: Option<bool>,
    /// The most that the kernel may have accepted and not yet written, in bytes.
    pub max_dirty: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            source: "tifs".to_owned(),
            read_only: false,
            devices: true,
            set_user_id: true,
            execute: true,
            synchronous: false,
            threads: 4,
            fast_wakeups: None,
            max_dirty: None,
        }
    }
}

impl Options {
    fn flags(&self) -> MountFlags {
        let flags = [
            (self.read_only, MountFlags::RDONLY),
            (!self.devices, MountFlags::NODEV),
            (!self.set_user_id, MountFlags::NOSUID),
            (!self.execute, MountFlags::NOEXEC),
            (self.synchronous, MountFlags::SYNCHRONOUS),
        ];
        let set = flags.into_iter().filter(|(set, _)| *set);
        set.map(|(_, flag)| flag).collect()
    }

    fn config(&self) -> Config {
        let mut config = Config::default();
        config.acl = SessionACL::All;
        config.n_threads = Some(self.threads.max(1));
        config.clone_fd = true;
        config
    }
}

/// Connects a mount point to a new connection with the kernel, over which requests arrive.
fn connect(mountpoint: &Path, options: &Options) -> io::Result<OwnedFd> {
    let device = OwnedFd::from(File::options().read(true).write(true).open("/dev/fuse")?);
    let root_mode = mountpoint.metadata()?.mode();
    let data = format!(
        "fd={},rootmode={root_mode:o},user_id={},group_id={},default_permissions,allow_other",
        device.as_raw_fd(),
        rustix::process::getuid().as_raw(),
        rustix::process::getgid().as_raw(),
    );
    let data = CString::new(data)?;
    rustix::mount::mount(
        options.source.as_str(),
        mountpoint,
        KIND,
        options.flags(),
        &*data,
    )?;
    Ok(device)
}

/// A mounted file system that is being served.
#[derive(Debug)]
pub struct Session {
    threads: JoinHandle<io::Result<()>>,
    unmounter: Unmounter,
}

impl Session {
    /// Mounts a file system and begins to serve it. Once this returns, the mount answers.
    ///
    /// # Errors
    /// The mount point is no directory, the process may not mount, or the kernel lacks what is needed.
    pub fn mount(
        file_system: Arc<dyn FileSystem>,
        mountpoint: &Path,
        options: &Options,
    ) -> io::Result<Session> {
        let mountpoint = mountpoint.canonicalize()?;
        let kernel_cache = KernelCache::default();
        let adapter = Adapter::new(file_system, kernel_cache.clone(), options.fast_wakeups)?;
        let device = connect(&mountpoint, options)?;
        if let Some(bytes) = options.max_dirty {
            limit_dirty(&mountpoint, bytes);
        }
        let unmounter = Unmounter { mountpoint };
        let served = serve(adapter, device, options, &kernel_cache);
        if served.is_err() {
            // What made it fail is the error to report.
            let _ = unmounter.detach();
        }
        Ok(Session {
            threads: served?,
            unmounter,
        })
    }

    /// What ends the session from another thread.
    pub fn unmounter(&self) -> Unmounter {
        self.unmounter.clone()
    }

    /// Waits until the file system was unmounted, by whomever, and the last request was answered. The
    /// kernel has then written its cache.
    ///
    /// # Errors
    /// The connection to the kernel failed.
    pub fn wait(self) -> io::Result<()> {
        match self.threads.join() {
            Ok(result) => ended(result),
            Err(_) => Err(io::Error::other("a thread that serves requests panicked")),
        }
    }
}

/// Lets the kernel have only so much that it has accepted and not yet written. Kernels before 6.2 cannot, and
/// have about a hundredth of what they let all file systems together have.
fn limit_dirty(mountpoint: &Path, bytes: u64) {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let Some(device) = table.lines().rev().find_map(|l| {
        let f: Vec<_> = l.split(' ').collect();
        (Path::new(f[4]) == mountpoint).then(|| f[2].to_owned())
    }) else {
        return;
    };
    let setting = format!("/sys/class/bdi/{device}/max_bytes");
    let smaller = std::fs::read_to_string(&setting)
        .is_ok_and(|now| now.trim().parse().is_ok_and(|now: u64| bytes < now));
    if smaller {
        let _ = std::fs::write(setting, bytes.to_string());
    }
}

/// How a session ended. If the last mount goes while a thread takes a request that nobody waits for, such
/// as the one that closes a directory, the kernel says that the connection was aborted, where it
/// usually says that there is no device. `fuser` takes the former for a failure.
fn ended(served: io::Result<()>) -> io::Result<()> {
    let aborted = Some(Errno::CONNABORTED.raw_os_error());
    served.or_else(|error| match error.raw_os_error() {
        os_error if os_error == aborted => Ok(()),
        _ => Err(error),
    })
}

/// Answers the first request, which negotiates, and starts the threads for the others.
fn serve(
    adapter: Adapter,
    device: OwnedFd,
    options: &Options,
    kernel_cache: &KernelCache,
) -> io::Result<JoinHandle<io::Result<()>>> {
    let session = fuser::Session::from_fd(adapter, device, SessionACL::All, options.config())?;
    kernel_cache.connect(session.notifier());
    std::thread::Builder::new()
        .name("tifs-session".to_owned())
        .spawn(move || session.run())
}

/// Unmounts from any thread.
#[derive(Clone, Debug)]
pub struct Unmounter {
    mountpoint: PathBuf,
}

impl Unmounter {
    /// Unmounts. The kernel writes its cache first.
    ///
    /// # Errors
    /// `EBUSY` if files are open in the mount, or a process works in it.
    pub fn unmount(&self) -> io::Result<()> {
        Ok(rustix::mount::unmount(
            &self.mountpoint,
            UnmountFlags::empty(),
        )?)
    }

    /// Takes the mount point away. Files that are open remain usable, and the session ends when the
    /// last of them is closed.
    pub fn detach(&self) -> io::Result<()> {
        Ok(rustix::mount::unmount(
            &self.mountpoint,
            UnmountFlags::DETACH,
        )?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_that_goes_while_a_request_is_taken_has_ended_well() {
        let failed = |errno: Errno| Err(io::Error::from(errno));
        assert!(ended(Ok(())).is_ok());
        assert!(ended(failed(Errno::CONNABORTED)).is_ok());
        assert!(ended(failed(Errno::IO)).is_err());
    }
}
