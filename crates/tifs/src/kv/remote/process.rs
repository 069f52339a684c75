//! Processes by features that no other one has: so that a record of one can tell that it has ended.

use std::io;
use std::path::Path;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use serde::{Deserialize, Serialize};

/// The processes of this machine.
const PROC: &str = "/proc";

/// A process of some machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::kv) struct Process {
    /// The name of the machine.
    pub(in crate::kv) host: String,
    /// The number of the process.
    pub(in crate::kv) pid: u32,
    /// Identifies the run of the machine's kernel; empty if it is not known.
    boot: String,
    /// The namespace in which the number counts.
    namespace: String,
    /// The time of its start, in ticks of the run.
    started: u64,
}

impl Process {
    /// This process.
    pub(in crate::kv) fn current() -> Process {
        let pid = std::process::id();
        let system = rustix::system::uname();
        Process {
            host: system.nodename().to_string_lossy().into_owned(),
            pid,
            boot: boot(),
            namespace: namespace(),
            started: started(Path::new(PROC), pid).ok().flatten().unwrap_or(0),
        }
    }

    /// Whether it is one of the present run of this machine.
    pub(in crate::kv) fn is_here(&self) -> bool {
        !self.boot.is_empty() && self.boot == boot()
    }

    /// Whether it is one of this machine that has ended. False if nobody can know.
    pub(in crate::kv) fn has_ended(&self) -> bool {
        let is_visible = !self.namespace.is_empty() && self.namespace == namespace();
        let has_other = |found: Option<u64>| found != Some(self.started);
        self.is_here() && is_visible && started(Path::new(PROC), self.pid).is_ok_and(has_other)
    }
}

fn boot() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    boot.unwrap_or_default().trim_end().to_owned()
}

fn namespace() -> String {
    let link = std::fs::read_link("/proc/self/ns/pid");
    link.map_or(String::new(), |link| link.to_string_lossy().into_owned())
}

/// When a process of a `/proc` started; `None` if it has ended. A zombie has.
///
/// # Errors
/// Nobody can know.
fn started(proc: &Path, pid: u32) -> io::Result<Option<u64>> {
    /// Fields after the name, which may have blanks and is in parentheses.
    const STATE: usize = 0;
    const START: usize = 19;
    let stat = match std::fs::read_to_string(proc.join(format!("{pid}/stat"))) {
        // With `hidepid`, those of other users look so, too.
        Err(e) if e.kind() == io::ErrorKind::NotFound && is_gone(pid) => return Ok(None),
        // It ended while it was read.
        Err(e) if Errno::from_io_error(&e) == Some(Errno::SRCH) => return Ok(None),
        stat => stat?,
    };
    let (_, fields) = stat.rsplit_once(')').unwrap_or_default();
    let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
    let started = fields.get(START).and_then(|start| start.parse().ok());
    match (fields.get(STATE), started) {
        (Some(&("Z" | "X")), _) => Ok(None),
        (_, Some(started)) => Ok(Some(started)),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Whether the kernel knows no process of a number. It tells so of those of all users.
fn is_gone(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_none_or(|pid| test_kill_process(pid) == Err(Errno::SRCH))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "these are tests")]

    use std::process::Command;

    use super::*;

    #[test]
    fn a_process_has_ended_if_its_number_is_gone_or_of_another_one() {
        let current = Process::current();
        assert!(!current.has_ended());
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let mut other = Process {
            pid: child.id(),
            started: started(Path::new(PROC), child.id()).unwrap().unwrap(),
            ..current.clone()
        };
        assert!(!other.has_ended());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(other.has_ended());
        let earlier = Process {
            started: current.started.wrapping_sub(1),
            ..current
        };
        assert!(earlier.has_ended());
        other.boot = "of another machine".to_owned();
        assert!(!other.has_ended());
    }

    #[test]
    fn a_process_that_is_hidden_has_not_ended() {
        let hidden = tempfile::tempdir().unwrap();
        assert!(started(hidden.path(), std::process::id()).is_err());
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        assert_eq!(started(hidden.path(), child.id()).unwrap(), None);
    }
}
