//! Resources of the machine for the process: memory and open files.
//!
//! The kernel reports it in `/proc` and, for a process in control groups, in the files of their
//! memory controller, version 1 or 2. A file that cannot be read or parsed imposes no limit.

use std::path::{Path, PathBuf};

/// Resources for a process, as far as known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// Files that the process may have open at the same time.
    pub open_files: Option<u64>,
    /// Memory of the process and of the kernel's cache of its files.
    pub memory: Option<Memory>,
}

/// Bytes of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// In total.
    pub total: u64,
    /// Available: free, or taken by cached files that the kernel can drop.
    pub left: u64,
}

/// Bytes of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceSpace {
    /// In total.
    pub total: u64,
    /// Those that this process may still take.
    pub available: u64,
}

impl Memory {
    /// The smaller value of each field.
    fn min(self, other: Memory) -> Memory {
        Memory {
            total: self.total.min(other.total),
            left: self.left.min(other.left),
        }
    }
}

/// The resources of this process. Reads about ten small files of the kernel's.
pub(super) fn of_this_process() -> Resources {
    Resources {
        open_files: rustix::process::getrlimit(rustix::process::Resource::Nofile).current,
        memory: memory(Path::new("/proc")),
    }
}

fn memory(proc: &Path) -> Option<Memory> {
    let machine = memory_of_machine(&read(&proc.join("meminfo"))?)?;
    let groups = read(&proc.join("self/cgroup")).unwrap_or_default();
    let mounts = read(&proc.join("self/mountinfo")).unwrap_or_default();
    let controllers = mounts.lines().filter_map(|mount| {
        let mount = Mount::parse(mount)?;
        let group = groups.lines().find_map(|group| mount.path_in(group))?;
        mount.memory(group)
    });
    Some(controllers.fold(machine, Memory::min))
}

fn read(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// Parses `/proc/meminfo`: lines of `name: number kB`.
fn memory_of_machine(meminfo: &str) -> Option<Memory> {
    let kib = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
        let number = line.strip_prefix(':')?.split_whitespace().next()?;
        number.parse::<u64>().ok()?.checked_mul(1024)
    };
    Some(Memory {
        total: kib("MemTotal")?,
        left: kib("MemAvailable")?,
    })
}

/// Names of the files of a version of the controller.
struct Names {
    /// Limits: a number of bytes, or `max`.
    limits: &'static [&'static str],
    usage: &'static str,
    /// In `memory.stat`: bytes that files take in the kernel's cache.
    cached: [&'static str; 2],
}

const VERSION_1: Names = Names {
    limits: &["memory.limit_in_bytes"],
    usage: "memory.usage_in_bytes",
    cached: ["total_inactive_file", "total_active_file"],
};

const VERSION_2: Names = Names {
    limits: &["memory.max", "memory.high"],
    usage: "memory.current",
    cached: ["inactive_file", "active_file"],
};

/// Where a hierarchy of control groups is mounted.
struct Mount<'m> {
    names: Names,
    /// The group that the mount point shows.
    root: &'m str,
    point: &'m str,
}

impl<'m> Mount<'m> {
    /// Parses a line of `/proc/self/mountinfo`; `None` unless the hierarchy may limit memory.
    fn parse(line: &'m str) -> Option<Self> {
        let (front, back) = line.split_once(" - ")?;
        let mut front = front.split(' ').skip(3);
        let (root, point) = (front.next()?, front.next()?);
        let mut back = back.split(' ');
        let names = match back.next()? {
            "cgroup2" => VERSION_2,
            "cgroup" if back.nth(1)?.split(',').any(|o| o == "memory") => VERSION_1,
            _ => return None,
        };
        Some(Mount { names, root, point })
    }

    /// The path of the process's group in this hierarchy, if this line of `/proc/self/cgroup` has
    /// it: `number:controllers:path`.
    fn path_in<'g>(&self, line: &'g str) -> Option<&'g str> {
        let (_, line) = line.split_once(':')?;
        let (controllers, path) = line.split_once(':')?;
        let is_version_2 = controllers.is_empty();
        let mine = match self.names.usage == VERSION_2.usage {
            true => is_version_2,
            false => controllers.split(',').any(|c| c == "memory"),
        };
        mine.then_some(path)
    }

    /// The least that a group and its ancestors leave. `None` if none of them has a limit.
    fn memory(&self, group: &str) -> Option<Memory> {
        let point = Path::new(self.point);
        let below = match self.root {
            "/" => Some(group),
            root => group.strip_prefix(root),
        };
        // In a container the path may be that of the machine, and the mount point a part of it.
        let dir = below.map(|below| point.join(below.trim_start_matches('/')));
        let dir = dir.filter(|dir| dir.is_dir());
        let dir: PathBuf = dir.unwrap_or_else(|| point.to_owned());
        let groups = dir.ancestors().take_while(|dir| dir.starts_with(point));
        groups
            .filter_map(|dir| self.memory_of_group(dir))
            .reduce(Memory::min)
    }

    fn memory_of_group(&self, dir: &Path) -> Option<Memory> {
        let number = |name: &str| read(&dir.join(name))?.trim().parse::<u64>().ok();
        let limits = self.names.limits.iter().filter_map(|name| number(name));
        let total = limits.min()?;
        let stat = read(&dir.join("memory.stat")).unwrap_or_default();
        let cached = stat.lines().filter_map(|line| {
            let (name, bytes) = line.split_once(' ')?;
            let counts = self.names.cached.contains(&name);
            bytes.trim().parse::<u64>().ok().filter(|_| counts)
        });
        let used = number(self.names.usage)?.saturating_sub(cached.sum());
        Some(Memory {
            total,
            left: total.saturating_sub(used),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// A directory that stands for `/proc`, and one for the mount point of control groups.
    struct Machine(tempfile::TempDir);

    impl Machine {
        /// A machine with 1000 MiB, of which 600 are available.
        fn new() -> Self {
            let machine = Machine(tempfile::tempdir().unwrap());
            let text = format!(
                "MemTotal:       {} kB\nMemFree:  7 kB\nMemAvailable:   {} kB\n",
                1000 * 1024,
                600 * 1024
            );
            machine.write("proc/meminfo", &text);
            machine
        }

        fn write(&self, name: &str, text: &str) {
            let path = self.0.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }

        fn in_group(&self, groups: &str, root: &str, kind: &str) {
            self.write("proc/self/cgroup", groups);
            let point = self.0.path().join("groups");
            let point = point.display();
            let mounts = format!(
                "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
                 35 31 0:32 {root} {point} rw,relatime shared:3 - {kind}\n"
            );
            self.write("proc/self/mountinfo", &mounts);
        }

        fn memory(&self) -> (u64, u64) {
            let memory = memory(&self.0.path().join("proc")).unwrap();
            assert_eq!((memory.total % MIB, memory.left % MIB), (0, 0));
            (memory.total / MIB, memory.left / MIB)
        }
    }

    fn mib(n: u64) -> String {
        format!("{}\n", n * MIB)
    }

    #[test]
    fn without_groups_the_machine_counts() {
        let machine = Machine::new();
        assert_eq!(machine.memory(), (1000, 600));
        machine.in_group("0::/a\n", "/", "cgroup2 cgroup2 rw");
        assert_eq!(machine.memory(), (1000, 600), "no files of a controller");
        machine.write("groups/a/memory.max", "max\n");
        machine.write("groups/a/memory.current", &mib(5));
        assert_eq!(machine.memory(), (1000, 600), "no limit");
        assert_eq!(memory(&machine.0.path().join("nowhere")), None);
    }

    #[test]
    fn version_2_cached_files_are_left_and_groups_around_count() {
        let machine = Machine::new();
        machine.in_group("0::/a/b\n", "/", "cgroup2 cgroup2 rw");
        machine.write("groups/a/b/memory.max", &mib(300));
        machine.write("groups/a/b/memory.current", &mib(280));
        let stat = format!(
            "anon 5\nfile 1\ninactive_file {}\nactive_file {}\n",
            100 * MIB,
            50 * MIB
        );
        machine.write("groups/a/b/memory.stat", &stat);
        assert_eq!(machine.memory(), (300, 170));
        machine.write("groups/a/b/memory.high", &mib(200));
        assert_eq!(machine.memory(), (200, 70));
        machine.write("groups/a/memory.max", &mib(900));
        machine.write("groups/a/memory.current", &mib(860));
        assert_eq!(machine.memory(), (200, 40));
    }

    #[test]
    fn version_1_has_its_own_names_and_no_limit_is_a_huge_one() {
        let machine = Machine::new();
        let groups = "9:name=systemd:/x\n4:cpu,memory:/docker/abc\n0::/\n";
        machine.in_group(groups, "/docker/abc", "cgroup cgroup rw,cpu,memory");
        machine.write("groups/memory.limit_in_bytes", "9223372036854771712\n");
        machine.write("groups/memory.usage_in_bytes", &mib(500));
        assert_eq!(machine.memory(), (1000, 600));
        machine.write("groups/memory.limit_in_bytes", &mib(512));
        let stat = format!("cache 1\ntotal_inactive_file {}\n", 200 * MIB);
        machine.write("groups/memory.stat", &stat);
        assert_eq!(machine.memory(), (512, 212));
    }

    #[test]
    fn what_lies_beneath_another_mount_root_is_looked_up_at_the_mount_point() {
        let machine = Machine::new();
        machine.in_group("0::/../elsewhere\n", "/here", "cgroup2 cgroup2 rw");
        machine.write("groups/memory.max", &mib(100));
        machine.write("groups/memory.current", &mib(30));
        assert_eq!(machine.memory(), (100, 70));
    }

    #[test]
    fn this_process_has_some() {
        let resources = of_this_process();
        assert!(resources.open_files.is_none_or(|n| n > 10));
        let memory = resources.memory.unwrap();
        assert!(0 < memory.left && memory.left <= memory.total, "{memory:?}");
    }
}
