//! A mounted volume, and the process that serves it.

use std::fs::File;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::mount::{UnmountFlags, unmount};
use tempfile::TempDir;
use titan_testkit::requirement;

/// The built command.
pub const TIFS: &str = env!("CARGO_BIN_EXE_tifs");

/// A volume in a temporary directory, mounted. When this is dropped, it is unmounted, and its process is
/// killed.
pub struct Volume {
    directory: TempDir,
    options: String,
    server: Option<Child>,
}

#[allow(dead_code, reason = "tests of kills use all of it")]
impl Volume {
    /// Makes and mounts a volume, in a [namespace](super::enter) of the test. `None` if this machine
    /// cannot; then the test should return.
    pub fn new() -> Option<Volume> {
        Volume::with_options("")
    }

    /// The same, with options as `tifs mount` takes them after `-o`.
    pub fn with_options(options: &str) -> Option<Volume> {
        let device = File::options().read(true).write(true).open("/dev/fuse");
        requirement::met("/dev/fuse", device)?;
        let directory = TempDir::new().unwrap();
        std::fs::create_dir(directory.path().join("mount")).unwrap();
        let mut volume = Volume {
            directory,
            options: options.to_owned(),
            server: None,
        };
        volume.mount();
        Some(volume)
    }

    /// The root directory of the mount.
    pub fn path(&self) -> PathBuf {
        self.directory.path().join("mount")
    }

    /// The directory that has the volume's files.
    pub fn store(&self) -> PathBuf {
        self.directory.path().join("volume")
    }

    /// Mounts the volume again, after [`Volume::unmount`] or [`Volume::kill`].
    pub fn mount(&mut self) {
        assert!(self.server.is_none(), "mounted already");
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.log_path())
            .unwrap();
        // A file that shows the mounts, and changes when they do.
        let mounts = File::open("/proc/thread-self/mountinfo").unwrap();
        let mut command = Command::new(TIFS);
        command
            .arg("mount")
            .args([self.store(), self.path()])
            .arg("--foreground")
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        if !self.options.is_empty() {
            command.args(["-o", &self.options]);
        }
        let mut server = command.spawn().unwrap();
        while !self.is_mounted() {
            if let Some(status) = server.try_wait().unwrap() {
                panic!("tifs mount ended with {status}: {}", self.log());
            }
            let mut change = [PollFd::new(&mounts, PollFlags::PRI)];
            let while_running = Timespec {
                tv_sec: 0,
                tv_nsec: 100_000_000,
            };
            poll(&mut change, Some(&while_running)).unwrap();
        }
        self.server = Some(server);
        // Waits until the process answers.
        rustix::fs::stat(self.path()).unwrap();
    }

    /// Unmounts with `tifs umount`, and waits for the end of the process.
    pub fn unmount(&mut self) {
        let output = Command::new(TIFS)
            .arg("umount")
            .arg(self.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "tifs umount failed: {said}");
        let mut server = self.server.take().unwrap();
        let status = server.wait().unwrap();
        assert!(
            status.success(),
            "the process ended with {status}: {}",
            self.log()
        );
    }

    /// Kills the process that serves the mount, as `kill -9` does, and takes the dead mount away.
    pub fn kill(&mut self) {
        let mut server = self.server.take().unwrap();
        server.kill().unwrap();
        let status = server.wait().unwrap();
        assert_eq!(
            status.signal(),
            Some(9),
            "the process ended before it was killed, with {status}: {}",
            self.log()
        );
        unmount(self.path(), UnmountFlags::DETACH).unwrap();
    }

    /// Runs `tifs fsck`. It must find nothing.
    pub fn check(&self) {
        assert!(self.server.is_none(), "mounted");
        let output = Command::new(TIFS)
            .arg("fsck")
            .arg(self.store())
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "tifs fsck: {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }

    fn is_mounted(&self) -> bool {
        let device = |path: &Path| rustix::fs::stat(path).map(|stat| stat.st_dev);
        device(&self.path()) != device(self.directory.path())
    }

    fn log_path(&self) -> PathBuf {
        self.directory.path().join("log")
    }

    /// What the processes said.
    fn log(&self) -> String {
        std::fs::read_to_string(self.log_path()).unwrap_or_else(|e: io::Error| e.to_string())
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        let _ = unmount(self.path(), UnmountFlags::DETACH);
        if let Some(mut server) = self.server.take() {
            let _ = server.kill();
            let _ = server.wait();
        }
        if std::thread::panicking() {
            print!("{}", self.log());
        }
    }
}
