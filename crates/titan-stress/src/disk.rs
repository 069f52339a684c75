//! A separate file system, in a file, that is unmounted in any case.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::shutdown::shut_down;

/// The programs for mounting, and where they may be if not on the user's path.
const TOOLS: [&str; 3] = ["mkfs.ext4", "mount", "umount"];
const SYSTEM_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// An ext4 file system in a file.
pub(crate) struct Disk {
    image: PathBuf,
    mount: PathBuf,
    mounted: bool,
}

impl Disk {
    /// First need that is missing to create one.
    pub(crate) fn missing() -> Option<String> {
        if !rustix::process::geteuid().is_root() {
            return Some("mounting a file system needs root".to_owned());
        }
        if !Path::new("/dev/loop-control").exists() {
            return Some("this kernel has no loop devices (/dev/loop-control)".to_owned());
        }
        let found = |tool: &&&str| {
            SYSTEM_PATH
                .split(':')
                .any(|dir| Path::new(dir).join(tool).exists())
        };
        let missing = TOOLS.iter().find(|tool| !found(tool));
        missing.map(|tool| format!("there is no command {tool}"))
    }

    /// Creates a file system of this many bytes in `work` and mounts it there.
    pub(crate) fn create(work: &Path, bytes: u64) -> Result<Disk, String> {
        let (image, mount) = (work.join("image"), work.join("mount"));
        let file = File::create(&image).and_then(|file| file.set_len(bytes));
        file.map_err(|e| format!("creating {}: {e}", image.display()))?;
        std::fs::create_dir(&mount).map_err(|e| format!("creating {}: {e}", mount.display()))?;
        run(Command::new("mkfs.ext4")
            .args(["-q", "-F", "-m", "0"])
            .arg(&image))?;
        let mut disk = Disk {
            image,
            mount,
            mounted: false,
        };
        disk.mount()?;
        Ok(disk)
    }

    /// Where it is mounted.
    pub(crate) fn path(&self) -> &Path {
        &self.mount
    }

    fn mount(&mut self) -> Result<(), String> {
        run(Command::new("mount")
            .args(["-t", "ext4", "-o", "loop"])
            .arg(&self.image)
            .arg(&self.mount))?;
        self.mounted = true;
        Ok(())
    }

    /// Loses unsynced data. Every later use of the file system fails.
    pub(crate) fn fail(&self) -> Result<(), String> {
        shut_down(&self.mount).map_err(|e| format!("shutting down {}: {e}", self.mount.display()))
    }

    /// Mounts it again; it must not be in use.
    pub(crate) fn recover(&mut self) -> Result<(), String> {
        run(Command::new("umount").arg(&self.mount))?;
        self.mounted = false;
        self.mount()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.mounted && run(Command::new("umount").arg(&self.mount)).is_err() {
            // If it is still in use, it is unmounted when that ends.
            if let Err(e) = run(Command::new("umount").arg("-l").arg(&self.mount)) {
                eprintln!("{e}");
            }
        }
        let _ = std::fs::remove_file(&self.image);
    }
}

/// Runs a command and waits for it.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let path = match std::env::var("PATH") {
        Ok(path) => format!("{path}:{SYSTEM_PATH}"),
        Err(_) => SYSTEM_PATH.to_owned(),
    };
    // An interruption from the terminal is handled by the campaign.
    let output = command
        .env("PATH", path)
        .process_group(0)
        .stdin(Stdio::null())
        .output();
    let output = output.map_err(|e| format!("{name}: {e}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!(
            "{name}: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        )),
    }
}
