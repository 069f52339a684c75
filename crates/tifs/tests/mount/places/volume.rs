//! A mounted volume, and the process that serves it.

use std::fs::File;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::getxattr;
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tifs::volume::STATISTICS;
use titan_testkit::requirement;

use super::process::{run, start};

/// The built command.
pub const TIFS: &str = env!("CARGO_BIN_EXE_tifs");

/// A volume in a temporary directory, mounted. When this is dropped, it is unmounted, and its
/// process is killed.
pub struct Volume {
    directory: TempDir,
    /// The volume, as commands name it.
    source: PathBuf,
    options: String,
    server: Option<Child>,
    killed: Option<Child>,
}

impl Volume {
    /// Makes and mounts a volume, in a [namespace](super::enter) of the test. `None` if this
    /// machine cannot; then the test should return.
    pub fn new() -> Option<Volume> {
        Volume::with_options("")
    }

    /// The same, with options as `tifs mount` takes them after `-o`.
    pub fn with_options(options: &str) -> Option<Volume> {
        let device = File::options().read(true).write(true).open("/dev/fuse");
        requirement::met("mounts: /dev/fuse", device)?;
        Some(Volume::on(std::env::temp_dir(), options))
    }

    /// The same, with a directory in which the volume is to be. There must be `/dev/fuse`.
    pub fn on(place: impl AsRef<Path>, options: &str) -> Volume {
        let directory = TempDir::new_in(place).unwrap();
        let source = directory.path().join("volume");
        Volume::mounted(directory, source, options)
    }

    /// The same, of a volume that is elsewhere and exists. There must be `/dev/fuse`.
    #[cfg(any(feature = "etcd", feature = "tikv"))]
    pub fn of(source: &str) -> Volume {
        Volume::mounted(TempDir::new().unwrap(), source.into(), "")
    }

    fn mounted(directory: TempDir, source: PathBuf, options: &str) -> Volume {
        std::fs::create_dir(directory.path().join("mount")).unwrap();
        let mut volume = Volume {
            directory,
            source,
            options: options.to_owned(),
            server: None,
            killed: None,
        };
        volume.mount();
        volume
    }

    /// Makes and mounts a volume in a namespace of its own, for a test. Where this machine cannot,
    /// the test says so and passes.
    pub fn with(test: impl FnOnce(&mut Volume)) {
        if !super::enter() {
            return;
        }
        if let Some(mut volume) = Volume::new() {
            test(&mut volume);
        }
    }

    /// Options for the next time that it is mounted.
    pub fn set_options(&mut self, options: &str) {
        self.options = options.to_owned();
    }

    /// The directory in which the volume and the mount point are.
    pub fn home(&self) -> &Path {
        self.directory.path()
    }

    /// A path in the mount.
    pub fn join(&self, path: impl AsRef<Path>) -> PathBuf {
        self.path().join(path)
    }

    /// The root directory of the mount.
    pub fn path(&self) -> PathBuf {
        self.directory.path().join("mount")
    }

    /// The directory that has the volume's files, or its address.
    pub fn store(&self) -> PathBuf {
        self.source.clone()
    }

    /// Begins to mount the volume, and kills the process after a while, at any point of that.
    pub fn mount_and_kill_after(&self, moment: Duration) {
        assert!(self.server.is_none(), "mounted already");
        let mut server = start(&mut self.mount_command());
        std::thread::sleep(moment);
        server.kill().unwrap();
        server.wait().unwrap();
        if self.is_mounted() {
            unmount(self.path(), UnmountFlags::DETACH).unwrap();
        }
    }

    /// Mounts the volume again, after [`Volume::unmount`] or [`Volume::kill`].
    pub fn mount(&mut self) {
        assert!(self.server.is_none(), "mounted already");
        if let Some(mut killed) = self.killed.take() {
            killed.wait().unwrap();
        }
        // A file that shows the mounts, and changes when they do.
        let mounts = File::open("/proc/thread-self/mountinfo").unwrap();
        let mut server = start(&mut self.mount_command());
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

    /// Mounts the volume, and asks its process to end as soon as there is a mount. Returns how it
    /// ended.
    pub fn mount_and_terminate(&mut self) -> ExitStatus {
        assert!(self.server.is_none(), "mounted already");
        self.server = Some(start(&mut self.mount_command()));
        let place = format!(" {} ", self.path().to_str().unwrap());
        // The mount itself may not answer yet.
        while !std::fs::read_to_string("/proc/thread-self/mountinfo")
            .unwrap()
            .contains(&place)
        {
            std::thread::yield_now();
        }
        self.terminate();
        self.wait_for_any_end()
    }

    /// Unmounts with `tifs umount`, and waits for the end of the process.
    pub fn unmount(&mut self) {
        let output = run(Command::new(TIFS).arg("umount").arg(self.path()));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "tifs umount failed: {said}");
        self.wait();
    }

    /// Asks the process that serves the mount to end, as `kill` does.
    pub fn terminate(&self) {
        let server = self.server.as_ref().unwrap();
        let process = Pid::from_child(server);
        kill_process(process, Signal::TERM).unwrap();
    }

    /// The number of the process that serves the mount.
    pub fn process(&self) -> u32 {
        self.server.as_ref().unwrap().id()
    }

    /// Waits for the end of the process, which must be a good one.
    pub fn wait(&mut self) {
        let status = self.wait_for_any_end();
        assert!(status.success(), "{status}: {}", self.log());
    }

    /// Waits for the end of the process.
    pub fn wait_for_any_end(&mut self) -> ExitStatus {
        self.server.take().unwrap().wait().unwrap()
    }

    /// Waits until the mount point is free.
    pub fn wait_until_unmounted(&self) {
        let mounts = File::open("/proc/thread-self/mountinfo").unwrap();
        while self.is_mounted() {
            let mut change = [PollFd::new(&mounts, PollFlags::PRI)];
            poll(&mut change, None).unwrap();
        }
    }

    /// Kills the process that serves the mount, as `kill -9` does, and takes the dead mount away.
    pub fn kill(&mut self) {
        self.kill_and_leave_mounted();
        self.detach();
    }

    /// Takes a dead mount away.
    pub fn detach(&self) {
        unmount(self.path(), UnmountFlags::DETACH).unwrap();
    }

    /// Kills the process that serves the mount. What is left is a mount that nobody serves.
    pub fn kill_and_leave_mounted(&mut self) {
        let mut server = self.server.take().unwrap();
        server.kill().unwrap();
        let status = server.wait().unwrap();
        assert_eq!(
            status.signal(),
            Some(9),
            "the process ended before it was killed, with {status}: {}",
            self.log()
        );
    }

    /// Kills the process that serves the mount, which may still be ending when this returns.
    pub fn kill_without_waiting(&mut self) {
        self.killed = self.server.take();
        self.killed.as_mut().unwrap().kill().unwrap();
    }

    /// The bytes in files, and the files still to be reclaimed, by `tifs stats`.
    pub fn accounts(&self) -> (u64, u64) {
        let statistics = self.statistics();
        let number = |name: &str| statistics[name].as_u64().unwrap();
        (number("bytes"), number("to_reclaim"))
    }

    /// The count of an operation since the volume was mounted.
    pub fn count_of(&self, operation: &str) -> u64 {
        let count = &self.statistics()["operations"][operation]["count"];
        count.as_u64().unwrap_or(0)
    }

    /// The description of a mounted volume.
    fn statistics(&self) -> serde_json::Value {
        let mut text = vec![0; 64 << 10];
        let length = getxattr(self.path(), STATISTICS, &mut text).unwrap();
        serde_json::from_slice(&text[..length]).unwrap()
    }

    /// Runs `tifs fsck`. It must find nothing.
    pub fn check(&self) {
        assert!(self.server.is_none(), "mounted");
        let output = run(Command::new(TIFS).arg("fsck").arg(self.store()));
        assert!(
            output.status.success(),
            "tifs fsck: {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }

    fn mount_command(&self) -> Command {
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.log_path())
            .unwrap();
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
        command
    }

    /// Whether something is mounted at the mount point.
    pub fn is_mounted(&self) -> bool {
        let device = |path: &Path| rustix::fs::stat(path).map(|stat| stat.st_dev);
        // The root of a dead mount cannot be asked: that differs, too.
        device(&self.path()) != device(self.directory.path())
    }

    fn log_path(&self) -> PathBuf {
        self.directory.path().join("log")
    }

    /// The messages of the processes.
    pub fn log(&self) -> String {
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
