//! The kernel's table of mounts.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// The type of a mounted volume, as the table shows it.
pub const KIND: &str = "fuse.tifs";

/// One mount that this process can see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The number of the mount. The kernel uses it again once the mount is gone.
    pub id: u64,
    /// The number of the file system, the same for all mounts of it.
    pub device: String,
    /// The mount point.
    pub mountpoint: PathBuf,
    /// The type of the file system.
    pub kind: String,
    /// The source; for a volume, its directory when it was mounted.
    pub source: OsString,
    /// Whether the file system, not just this mount of it, refuses writes.
    pub read_only: bool,
}

impl Mount {
    /// Whether a volume is mounted there.
    pub fn is_tifs(&self) -> bool {
        self.kind == KIND
    }

    /// Whether both are mounts of one file system. Its number alone does not tell: the kernel uses
    /// it again at once when the last mount is gone, while the volume may still be being closed.
    fn is_same_file_system(&self, other: &Mount) -> bool {
        self.device == other.device && self.source == other.source
    }
}

/// All mounts that this thread can see, a later one over an earlier one at the same place.
///
/// # Errors
/// Those of reading `/proc`; so for the others.
pub fn all() -> io::Result<Vec<Mount>> {
    // Mounting and unmounting are about the namespace of the thread, too.
    of_process("thread-self")
}

/// All mounts that a process can see, by its number.
fn of_process(process: &str) -> io::Result<Vec<Mount>> {
    let table = std::fs::read(format!("/proc/{process}/mountinfo"))?;
    Ok(table
        .split(|&byte| byte == b'\n')
        .filter_map(parse)
        .collect())
}

/// The mount whose root is at `path`, if there is one.
pub fn at(path: &Path) -> io::Result<Option<Mount>> {
    let mounts = all()?.into_iter().rev();
    Ok({ mounts }.find(|mount| mount.mountpoint == path))
}

/// The mount of the volume that has `path`, if a mounted volume has it.
pub fn above(path: &Path) -> Option<Mount> {
    let path = std::path::absolute(path).ok()?;
    let above = { all().ok()?.into_iter() }.filter(|mount| path.starts_with(&mount.mountpoint));
    // The last of several at one place is over the others.
    let innermost = above.max_by_key(|mount| mount.mountpoint.as_os_str().len());
    innermost.filter(Mount::is_tifs)
}

/// Whether an operation in a mount failed because its process has ended. While it is ending, the
/// kernel reports an aborted connection.
pub fn has_ended(errno: Errno) -> bool {
    matches!(errno, Errno::NOTCONN | Errno::CONNABORTED)
}

/// Makes everything durable that has reached the volume of the mount at `path`. The kernel begins
/// to write the data that it has; newer ones (seen with 6.18.44) do not wait for it here.
///
/// # Errors
/// Those of the volume; see [`has_ended`].
pub fn sync(path: &Path) -> rustix::io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(path, flags, Mode::empty())?;
    // If a file could not be written, that is for the program to know which wrote it; all else is
    // synced.
    let _ = rustix::fs::syncfs(&root);
    rustix::fs::fsync(&root)
}

/// The mount points of a mount's file system, as a clause for messages: at another place here, or
/// in the namespace of another process. Only the superuser finds those of others. Cost: reads the
/// mounts of each process.
pub fn anywhere(of: &Mount) -> Option<String> {
    let same = |mounts: io::Result<Vec<Mount>>| {
        let mounts = mounts.unwrap_or_default().into_iter();
        { mounts }.find(|mount| mount.is_same_file_system(of))
    };
    if let Some(mount) = same(all()) {
        return Some(format!("it is mounted at {}", mount.mountpoint.display()));
    }
    let entries = std::fs::read_dir("/proc").ok()?.flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let process = names
        .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
        // A process may end meanwhile.
        .find(|process| same(of_process(process)).is_some())?;
    let name = std::fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
    Some(format!(
        "process {process} ({}) has it mounted in another namespace",
        name.trim_end()
    ))
}

/// The mount of a line of `/proc/self/mountinfo`: see proc(5).
fn parse(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|&byte| byte == b' ');
    let id = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    let device = unescaped(fields.nth(1)?);
    let mountpoint = unescaped(fields.nth(1)?);
    // Optional fields follow until a hyphen.
    fields.find(|field| *field == b"-")?;
    let kind = unescaped(fields.next()?);
    let source = unescaped(fields.next()?);
    let mut options = fields
        .next()
        .unwrap_or_default()
        .split(|&byte| byte == b',');
    Some(Mount {
        id,
        device: String::from_utf8_lossy(&device).into_owned(),
        mountpoint: OsString::from_vec(mountpoint).into(),
        kind: String::from_utf8_lossy(&kind).into_owned(),
        source: OsString::from_vec(source),
        read_only: options.any(|option| option == b"ro"),
    })
}

/// Blanks and the like are written as a backslash and three octal digits.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| byte == b'\\');
        let code = digits
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(code) => {
                bytes.push(code);
                rest = &after[3..];
            }
            None => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_table_is_understood_with_its_escapes() {
        let line =
            b"44 25 0:39 / /mnt/a\\040b rw,nosuid shared:5 master:2 - fuse.tifs /srv/x\\134y rw";
        let mount = parse(line).unwrap_or_else(|| unreachable!("the line is complete"));
        assert_eq!((mount.id, mount.device.as_str()), (44, "0:39"));
        assert_eq!(mount.mountpoint, Path::new("/mnt/a b"));
        assert_eq!(mount.source, "/srv/x\\y");
        assert!(mount.is_tifs() && !mount.read_only);
        let read_only = b"44 25 0:39 / /mnt rw - fuse.tifs /srv/x ro,user_id=0";
        assert!(parse(read_only).is_some_and(|mount| mount.read_only));
    }

    #[test]
    fn a_number_that_is_used_again_is_another_file_system() {
        let mount = |line: &str| parse(line.as_bytes()).unwrap_or_else(|| unreachable!("{line}"));
        let own = mount("44 25 0:39 / /mnt rw - fuse.tifs /srv/x rw");
        let moved = mount("45 25 0:39 / /other rw - fuse.tifs /srv/x rw");
        let reused = mount("44 25 0:39 / /mnt rw - fuse.tifs /srv/y rw");
        assert!(own.is_same_file_system(&moved));
        assert!(!own.is_same_file_system(&reused));
    }

    #[test]
    fn incomplete_lines_are_no_mounts() {
        assert_eq!(parse(b""), None);
        assert_eq!(parse(b"44 25 0:39 / /mnt rw shared:5"), None);
    }

    #[test]
    fn what_is_no_escape_stays() {
        assert_eq!(unescaped(b"a\\9b\\"), b"a\\9b\\");
    }
}
