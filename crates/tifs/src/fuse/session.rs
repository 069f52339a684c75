//! Mounting, serving threads, unmounting.

use std::ffi::{CString, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use fuser::{Config, SessionACL};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};

use super::adapter::Adapter;
use super::kernel_cache::KernelCache;
use crate::file_system::FileSystem;
use crate::mounts::{self, KIND, Mount};

/// The kernel's readahead for a program that reads in order, in KiB. With its own 128 KiB such a
/// program waits for one small request after the other.
const READ_AHEAD_KIB: u32 = 2048;

/// The options of a mount.
#[derive(Clone, Debug)]
pub struct Options {
    /// The source in the table of mounts.
    pub source: OsString,
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
    /// Keep idle processors awake while programs wait for one answer after the other: faster in
    /// virtual machines, for the processor time of the host. Not given: in virtual machines with at
    /// most 16 processors.
    pub fast_wakeups: Option<bool>,
    /// The most that the kernel may have accepted and not yet written, in bytes.
    pub max_dirty: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            source: "tifs".into(),
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
        options.source.as_os_str(),
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
    /// The mount point is no directory, the process may not mount, or the kernel lacks a feature
    /// that is needed.
    pub fn mount(
        file_system: Arc<dyn FileSystem>,
        mountpoint: &Path,
        options: &Options,
    ) -> io::Result<Session> {
        let mountpoint = mountpoint.canonicalize()?;
        let kernel_cache = KernelCache::default();
        let adapter = Adapter::new(file_system, kernel_cache.clone(), options.fast_wakeups)?;
        let device = connect(&mountpoint, options)?;
        let mounted = find(&mountpoint).and_then(|mount| {
            // Answers the first request, which negotiates.
            let session =
                fuser::Session::from_fd(adapter, device, SessionACL::All, options.config())?;
            set_cache_limits(&mount, options.max_dirty);
            kernel_cache.connect(session.notifier());
            let threads = std::thread::Builder::new()
                .name("tifs-session".to_owned())
                .spawn(move || session.run())?;
            let unmounter = Unmounter { mount };
            Ok(Session { threads, unmounter })
        });
        mounted.inspect_err(|_| {
            // The first failure is the error to report.
            let _ = rustix::mount::unmount(&mountpoint, UnmountFlags::DETACH);
        })
    }

    /// A handle that ends the session from another thread.
    pub fn unmounter(&self) -> Unmounter {
        self.unmounter.clone()
    }

    /// Waits until the file system was unmounted, by anyone, and the last request was answered. The
    /// kernel has written its cache then.
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

/// The result of a session. If the last mount goes while a thread takes a request that nobody waits
/// for, such as the close of a directory, the kernel reports an aborted connection where it usually
/// reports that there is no device. `fuser` takes the former for a failure.
fn ended(served: io::Result<()>) -> io::Result<()> {
    let aborted = Some(Errno::CONNABORTED.raw_os_error());
    served.or_else(|error| match error.raw_os_error() {
        os_error if os_error == aborted => Ok(()),
        _ => Err(error),
    })
}

/// The mount that was just made. The table shows it before the mount answers anything.
fn find(mountpoint: &Path) -> io::Result<Mount> {
    let gone = || io::Error::other("the mount is not in the table of mounts");
    mounts::at(mountpoint)?.ok_or_else(gone)
}

/// Sets two limits that the protocol cannot: [`READ_AHEAD_KIB`] of readahead, and the most bytes
/// that the kernel has accepted and not yet written. Where the system forbids that, and for the
/// latter before Linux 6.2, the kernel's own values stay.
///
/// The device comes from the table of mounts. The mount cannot be asked for it before it is served,
/// and asking later could wait forever, if the process is killed meanwhile.
fn set_cache_limits(mount: &Mount, max_dirty: Option<u64>) {
    let device = Path::new("/sys/class/bdi").join(&mount.device);
    let _ = std::fs::write(device.join("read_ahead_kb"), READ_AHEAD_KIB.to_string());
    let limit = device.join("max_bytes");
    let current = std::fs::read_to_string(&limit).ok();
    let current = current.and_then(|current| current.trim().parse::<u64>().ok());
    if let (Some(max), Some(current)) = (max_dirty, current)
        && max < current
    {
        let _ = std::fs::write(limit, max.to_string());
    }
}

/// Unmounts from any thread, and never another mount that is at the same place now.
#[derive(Clone, Debug)]
pub struct Unmounter {
    mount: Mount,
}

impl Unmounter {
    /// Unmounts. The kernel writes its cache first.
    ///
    /// # Errors
    /// `EBUSY` if files are open in the mount, or a process works in it. The mount is gone already,
    /// or another is over it.
    pub fn unmount(&self) -> io::Result<()> {
        self.unmount_with(UnmountFlags::empty())
    }

    /// Takes the mount point away. Files that are open remain usable, and the session ends when the
    /// last of them is closed.
    ///
    /// # Errors
    /// The mount is gone already, or another is over it.
    pub fn detach(&self) -> io::Result<()> {
        self.unmount_with(UnmountFlags::DETACH)
    }

    fn unmount_with(&self, flags: UnmountFlags) -> io::Result<()> {
        Ok(rustix::mount::unmount(
            place_of(&self.mount, &mounts::all()?)?,
            flags,
        )?)
    }
}

/// The present mount point: the mount may have been moved.
fn place_of<'a>(mount: &Mount, all: &'a [Mount]) -> io::Result<&'a Path> {
    let same = |other: &&Mount| other.id == mount.id && other.device == mount.device;
    let Some(found) = all.iter().find(same) else {
        return Err(io::Error::other("it is not mounted there any more"));
    };
    let at_place = |other: &&Mount| other.mountpoint == found.mountpoint;
    match all.iter().rfind(at_place) {
        Some(top) if !same(&top) => Err(io::Error::other(format!(
            "{} is mounted over it",
            Path::new(&top.source).display()
        ))),
        _ => Ok(&found.mountpoint),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_own_mount_is_unmounted() {
        let mount = |id, device: &str, place: &str| Mount {
            id,
            device: device.to_owned(),
            mountpoint: place.into(),
            kind: KIND.to_owned(),
            source: "/volume".into(),
            read_only: false,
        };
        let own = mount(3, "0:50", "/mnt");
        let place = |all: &[Mount]| place_of(&own, all).map(Path::to_owned).ok();
        let below = mount(1, "0:40", "/mnt");
        assert_eq!(place(&[below.clone(), own.clone()]), Some("/mnt".into()));
        let moved = mount(3, "0:50", "/other");
        assert_eq!(place(&[below.clone(), moved]), Some("/other".into()));
        assert_eq!(place(&[own.clone(), mount(4, "0:51", "/mnt")]), None);
        assert_eq!(place(&[below, mount(4, "0:51", "/mnt")]), None);
        // The number of a mount that is gone is used again.
        assert_eq!(place(&[mount(3, "0:51", "/mnt")]), None);
    }

    #[test]
    fn a_mount_that_goes_while_a_request_is_taken_has_ended_well() {
        let failed = |errno: Errno| Err(io::Error::from(errno));
        assert!(ended(Ok(())).is_ok());
        assert!(ended(failed(Errno::CONNABORTED)).is_ok());
        assert!(ended(failed(Errno::IO)).is_err());
    }
}
