//! A separate memory cgroup, of version 1 or 2, that is removed in any case.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const V1: &str = "/sys/fs/cgroup/memory";
const V2: &str = "/sys/fs/cgroup";

/// A memory cgroup with a limit.
pub(crate) struct MemoryGroup {
    dir: PathBuf,
    version_1: bool,
    /// The peak of the group's own memory, in bytes.
    peak: u64,
}

impl MemoryGroup {
    /// Creates a group whose processes share `limit` bytes, including the kernel's cache.
    ///
    /// # Errors
    /// The names of files and rights that are missing.
    pub(crate) fn create(limit: u64) -> Result<MemoryGroup, String> {
        let version_1 = Path::new(V1).join("memory.limit_in_bytes").exists();
        let root = Path::new(if version_1 { V1 } else { V2 });
        if !version_1 && !root.join("cgroup.controllers").exists() {
            return Err(format!(
                "there is no memory cgroup at {V1}, nor a second version at {V2}"
            ));
        }
        let dir = root.join(format!("titan-stress-{}", std::process::id()));
        fs::create_dir(&dir).map_err(|e| format!("creating {}: {e}", dir.display()))?;
        let group = MemoryGroup {
            dir,
            version_1,
            peak: 0,
        };
        let limit_file = if version_1 {
            "memory.limit_in_bytes"
        } else {
            "memory.max"
        };
        let path = group.dir.join(limit_file);
        fs::write(&path, limit.to_string()).map_err(|e| format!("{}: {e}", path.display()))?;
        // Forbids the use of swap; impossible if the kernel does not account swap.
        let swap_file = if version_1 {
            "memory.memsw.limit_in_bytes"
        } else {
            "memory.swap.max"
        };
        let swap = if version_1 { limit } else { 0 };
        let _ = fs::write(group.dir.join(swap_file), swap.to_string());
        Ok(group)
    }

    /// A command that runs `program` within the group.
    pub(crate) fn command(&self, program: &OsStr) -> Command {
        let mut command = Command::new("sh");
        let enter = "echo $$ > \"$0/cgroup.procs\" && exec \"$@\"";
        command.arg("-c").arg(enter).arg(&self.dir).arg(program);
        command
    }

    /// Samples the group's own memory: what the kernel caches for it varies.
    pub(crate) fn sample(&mut self) {
        let name = if self.version_1 { "total_rss" } else { "anon" };
        self.peak = self.peak.max(self.field("memory.stat", name));
    }

    /// The peak, in bytes.
    pub(crate) fn peak(&self) -> u64 {
        self.peak
    }

    /// Number of processes that were killed because memory ran out.
    pub(crate) fn killed(&self) -> u64 {
        let file = if self.version_1 {
            "memory.oom_control"
        } else {
            "memory.events"
        };
        self.field(file, "oom_kill")
    }

    fn field(&self, file: &str, name: &str) -> u64 {
        let text = fs::read_to_string(self.dir.join(file)).unwrap_or_default();
        let mut lines = text.lines().filter_map(|line| line.split_once(' '));
        let value = lines
            .find(|(field, _)| *field == name)
            .map(|(_, value)| value);
        value
            .and_then(|value| value.trim().parse().ok())
            .unwrap_or(0)
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // The kernel may need a moment after the last process has ended.
        for _ in 0..50 {
            if fs::remove_dir(&self.dir).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        eprintln!("{} cannot be removed", self.dir.display());
    }
}
