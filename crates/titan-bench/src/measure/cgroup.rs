//! A memory cgroup for one process, which limits heap and page cache together.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// The memory controller of version 1, and the root of version 2.
const VERSION_1: &str = "/sys/fs/cgroup/memory";
const VERSION_2: &str = "/sys/fs/cgroup";

/// A cgroup; it is removed when this is dropped, after the processes in it have ended.
pub(crate) struct MemoryCgroup {
    dir: PathBuf,
    version_2: bool,
    /// Processes killed in it before: it may remain from an earlier run.
    kills_before: u64,
}

impl MemoryCgroup {
    /// Creates one with this limit in bytes, without swap if the kernel permits it.
    pub(crate) fn new(name: &str, limit: u64) -> Result<Self> {
        let version_2 = Path::new(VERSION_2).join("cgroup.controllers").exists();
        let root = Path::new(if version_2 { VERSION_2 } else { VERSION_1 });
        if !root.is_dir() {
            bail!("there is no memory controller in {}", root.display());
        }
        if version_2 {
            // If it is on already, or controlled by another program, setting the limit
            // below shows it.
            let _ = fs::write(root.join("cgroup.subtree_control"), "+memory");
        }
        let mut cgroup = MemoryCgroup {
            dir: root.join(name),
            version_2,
            kills_before: 0,
        };
        fs::create_dir_all(&cgroup.dir)
            .with_context(|| format!("making the cgroup {}", cgroup.dir.display()))?;
        let (limited, swap) = match version_2 {
            true => ("memory.max", ("memory.swap.max", 0)),
            false => (
                "memory.limit_in_bytes",
                ("memory.memsw.limit_in_bytes", limit),
            ),
        };
        let file = cgroup.dir.join(limited);
        fs::write(&file, limit.to_string())
            .with_context(|| format!("setting {}", file.display()))?;
        // Not every kernel accounts swap.
        let _ = fs::write(cgroup.dir.join(swap.0), swap.1.to_string());
        cgroup.kills_before = cgroup.kills();
        Ok(cgroup)
    }

    /// Whether the kernel killed a process in it because memory ran out.
    pub(crate) fn has_killed(&self) -> bool {
        self.kills() > self.kills_before
    }

    /// The file to which a process writes its number to join.
    pub(crate) fn members(&self) -> PathBuf {
        self.dir.join("cgroup.procs")
    }

    fn kills(&self) -> u64 {
        let file = if self.version_2 {
            "memory.events"
        } else {
            "memory.oom_control"
        };
        let text = fs::read_to_string(self.dir.join(file)).unwrap_or_default();
        let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        count
            .and_then(|count| count.trim().parse().ok())
            .unwrap_or(0)
    }
}

impl Drop for MemoryCgroup {
    fn drop(&mut self) {
        // If this fails, the cgroup is empty, and will be used again under the same name.
        let _ = fs::remove_dir(&self.dir);
    }
}
