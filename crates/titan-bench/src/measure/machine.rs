//! Describes the machine, for the head of a report.

use std::fs;
use std::path::Path;
use std::thread;

use super::device::mount_of;
use crate::results::Machine;

/// This machine, with its databases in `dir`. What the kernel does not report is empty.
pub(crate) fn describe(dir: &Path) -> Machine {
    let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let value = |text: &str, name: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(':'));
        let found = lines.find(|(key, _)| key.trim() == name);
        found
            .map(|(_, value)| value.trim().to_owned())
            .unwrap_or_default()
    };
    let memory = value(&text("/proc/meminfo"), "MemTotal");
    let kib: u64 = memory.trim_end_matches(" kB").parse().unwrap_or(0);
    let mount = mount_of(dir);
    Machine {
        cpu: value(&text("/proc/cpuinfo"), "model name"),
        cores: thread::available_parallelism().map_or(1, |cores| cores.get()),
        memory: kib * 1024,
        kernel: text("/proc/sys/kernel/osrelease").trim().to_owned(),
        storage: mount
            .map(|m| format!("{} on {}", m.file_system, m.device))
            .unwrap_or_default(),
        commit: env!("TITAN_COMMIT").to_owned(),
    }
}
