//! The kernel's counters for this process.

use std::fs;

use serde::{Deserialize, Serialize};

/// From the start of the process, or from another moment, until now.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Usage {
    /// User and system time of all threads.
    pub(crate) cpu_seconds: f64,
    /// Its own memory, without pages of files, mapped or cached.
    pub(crate) memory: u64,
    /// The device's activity that it caused, as far as the kernel can attribute it.
    pub(crate) read: u64,
    pub(crate) written: u64,
}

impl Usage {
    /// Zeros if there is no `/proc`.
    pub(crate) fn of_this_process() -> Self {
        let text =
            |name: &str| fs::read_to_string(format!("/proc/self/{name}")).unwrap_or_default();
        let io = text("io");
        Usage {
            cpu_seconds: cpu_seconds(&text("stat")).unwrap_or(0.0),
            memory: own_memory("self").unwrap_or(0),
            read: field(&io, "read_bytes:").unwrap_or(0),
            written: field(&io, "write_bytes:").unwrap_or(0),
        }
    }
}

impl Usage {
    /// The usage since another moment of the same process.
    pub(super) fn since(self, before: &Self) -> Self {
        Usage {
            cpu_seconds: self.cpu_seconds - before.cpu_seconds,
            memory: self.memory.saturating_sub(before.memory),
            read: self.read.saturating_sub(before.read),
            written: self.written.saturating_sub(before.written),
        }
    }
}

/// The process's own memory, without pages of files.
pub(super) fn own_memory(process: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    Some(field(&status, "RssAnon:")? * 1024)
}

/// The number after a name at the start of a line.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Fields 14 to 17 of `/proc/self/stat`, in clock ticks: of this process, and of children that it
/// has waited for. Counted from after the name of the program, which may contain anything.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let (_, behind) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = behind.split_whitespace().collect();
    let ticks = fields.get(11..15)?.iter().map(|field| field.parse::<u64>());
    let ticks = ticks.sum::<Result<u64, _>>().ok()?;
    Some(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_from_behind_the_name() {
        let stat = "7 (a) b) S 1 2 3 4 5 6 7 8 9 10 250 50 7 3";
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        assert_eq!(cpu_seconds(stat), Some(310.0 / ticks));
        assert_eq!(cpu_seconds("7 (a"), None);
        assert!(Usage::of_this_process().memory > 10_000);
    }
}
