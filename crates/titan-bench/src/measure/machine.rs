//! The machine, as conditions of a report.

use std::fs;
use std::path::Path;
use std::thread;

use super::device::mount_of;
use crate::units::memory;

/// Names and values of this machine, with its databases in `dir`, and of this build. A value that
/// the kernel does not report is empty.
pub(crate) fn describe(dir: &Path) -> Vec<(String, String)> {
    let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let value = |text: &str, name: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(':'));
        let found = lines.find(|(key, _)| key.trim() == name);
        found
            .map(|(_, value)| value.trim().to_owned())
            .unwrap_or_default()
    };
    let kib = value(&text("/proc/meminfo"), "MemTotal");
    let kib: u64 = kib.trim_end_matches(" kB").parse().unwrap_or(0);
    let cores = thread::available_parallelism().map_or(1, |cores| cores.get());
    let processor = value(&text("/proc/cpuinfo"), "model name");
    let storage = mount_of(dir).map(|m| format!("{} on {}", m.file_system, m.device));
    [
        ("processor", format!("{processor}, {cores} cores")),
        ("memory", memory((kib * 1024) as f64)),
        (
            "kernel",
            text("/proc/sys/kernel/osrelease").trim().to_owned(),
        ),
        ("commit of Titan", env!("TITAN_COMMIT").to_owned()),
        ("storage", storage.unwrap_or_default()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}
