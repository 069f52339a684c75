//! Mounting, serving threads, unmounting.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use fuser::{Config, MountOption, SessionACL};
use rustix::mount::UnmountFlags;

use super::adapter::Adapter;
use crate::file_system::FileSystem;

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
        }
    }
}

impl Options {
    fn config(&self) -> Config {
        let mut options = vec![
            MountOption::FSName(self.source.clone()),
            MountOption::Subtype("tifs".to_owned()),
            MountOption::DefaultPermissions,
        ];
        let flags = [
            (self.read_only, MountOption::RO, MountOption::RW),
            (self.devices, MountOption::Dev, MountOption::NoDev),
            (self.set_user_id, MountOption::Suid, MountOption::NoSuid),
            (self.execute, MountOption::Exec, MountOption::NoExec),
            (self.synchronous, MountOption::Sync, MountOption::Async),
        ];
        options.extend(flags.map(|(set, yes, no)| if set { yes } else { no }));
        let mut config = Config::default();
        config.mount_options = options;
        config.acl = SessionACL::All;
        config.n_threads = Some(self.threads.max(1));
        config.clone_fd = true;
        config
    }
}

/// A mounted file system that is being served.
#[derive(Debug)]
pub struct Session {
    threads: JoinHandle<io::Result<()>>,
    mountpoint: PathBuf,
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
        let adapter = Adapter::new(file_system);
        let session = fuser::Session::new(adapter, &mountpoint, &options.config())?;
        let threads = std::thread::Builder::new()
            .name("tifs-session".to_owned())
            .spawn(move || session.run())?;
        Ok(Session {
            threads,
            mountpoint,
        })
    }

    /// What ends the session from another thread.
    pub fn unmounter(&self) -> Unmounter {
        Unmounter {
            mountpoint: self.mountpoint.clone(),
        }
    }

    /// Waits until the file system was unmounted, by whomever, and the last request was answered. The
    /// kernel has then written its cache.
    ///
    /// # Errors
    /// The connection to the kernel failed.
    pub fn wait(self) -> io::Result<()> {
        match self.threads.join() {
            Ok(result) => result,
            Err(_) => Err(io::Error::other("a thread that serves requests panicked")),
        }
    }
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
