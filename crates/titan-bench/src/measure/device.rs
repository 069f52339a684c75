//! The block device under a directory: its counters, and the kernel's caches of it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Bytes of a sector in `/sys/block`, for devices with sectors of any size.
const SECTOR: u64 = 512;

const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";

/// A mounted file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mount {
    pub(crate) file_system: String,
    pub(crate) device: String,
    /// `major:minor`.
    number: String,
    point: PathBuf,
}

/// The file system of a directory; `None` if the kernel does not report it.
pub(crate) fn mount_of(dir: &Path) -> Option<Mount> {
    let dir = dir.canonicalize().ok()?;
    let table = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let mounts = table.lines().filter_map(mount);
    mounts
        .filter(|mount| dir.starts_with(&mount.point))
        // Of two with the same mount point the later one covers the earlier.
        .max_by_key(|mount| mount.point.components().count())
}

/// A line of `mountinfo`: number, parent, device, root, point, options ..., `-`, type, source.
fn mount(line: &str) -> Option<Mount> {
    let (head, tail) = line.split_once(" - ")?;
    let head: Vec<&str> = head.split(' ').collect();
    let mut tail = tail.split(' ');
    Some(Mount {
        file_system: tail.next()?.to_owned(),
        device: tail.next()?.to_owned(),
        number: (*head.get(2)?).to_owned(),
        point: PathBuf::from(head.get(4)?.replace("\\040", " ")),
    })
}

/// Bytes that a device read and wrote since the machine started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DeviceCounts {
    pub(crate) read: u64,
    pub(crate) written: u64,
}

impl Mount {
    /// `None` if this is not a block device with counters.
    pub(crate) fn counts(&self) -> Option<DeviceCounts> {
        counts(&fs::read_to_string(format!("/sys/dev/block/{}/stat", self.number)).ok()?)
    }
}

fn counts(stat: &str) -> Option<DeviceCounts> {
    let fields: Vec<&str> = stat.split_whitespace().collect();
    let bytes = |at: usize| Some(fields.get(at)?.parse::<u64>().ok()? * SECTOR);
    Some(DeviceCounts {
        read: bytes(2)?,
        written: bytes(6)?,
    })
}

/// Writes all dirty data to its device.
pub(crate) fn sync() {
    rustix::fs::sync();
}

/// Fails if [`drop_caches`] would, but drops nothing.
pub(crate) fn may_drop_caches() -> Result<()> {
    let file = fs::OpenOptions::new().write(true).open(DROP_CACHES);
    file.map(drop).context("dropping the kernel's caches")
}

/// Makes the kernel drop its caches of files.
pub(crate) fn drop_caches() -> Result<()> {
    fs::write(DROP_CACHES, "3").context("dropping the kernel's caches")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_counts_are_read() {
        let line = "29 1 254:1 / /mnt/a\\040b rw,noatime shared:1 - ext4 /dev/vda1 rw";
        let mount = mount(line).unwrap();
        assert_eq!(mount.file_system, "ext4");
        assert_eq!(mount.point, Path::new("/mnt/a b"));
        assert_eq!(mount.number, "254:1");
        let stat = "  10 0 8 1 20 0 16 1 0 1 1";
        let expected = DeviceCounts {
            read: 4096,
            written: 8192,
        };
        assert_eq!(counts(stat), Some(expected));
        assert_eq!(counts("1 2 3"), None);
        assert_eq!(super::mount("nothing"), None);
    }
}
