//! Failures are reported, and lose nothing.

#[cfg(feature = "tikv")]
mod cluster;
mod damage;
mod ending;
#[cfg(feature = "etcd")]
mod etcd;
mod full;
mod mounting;
mod reading;
mod subdirectory;

use std::ffi::OsStr;
use std::process::Command;

use rustix::io::Errno;

use crate::places::{TIFS, run};

/// The exit status of a `tifs` command, and its standard error.
#[derive(Debug)]
struct Ended {
    status: i32,
    said: String,
}

/// Runs `tifs`.
fn tifs<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Ended {
    ended(Command::new(TIFS).args(arguments))
}

fn ended(command: &mut Command) -> Ended {
    let output = run(command);
    Ended {
        status: output.status.code().unwrap(),
        said: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

impl Ended {
    /// It failed, with one line that has all of `parts`.
    #[track_caller]
    fn failed_with(&self, parts: &[&str]) {
        self.ended_with(1, parts);
    }

    /// It ended with this status, and one line that has all of `parts`.
    #[track_caller]
    fn ended_with(&self, status: i32, parts: &[&str]) {
        assert_eq!(self.status, status, "{self:?}");
        let lines = self.said.lines().count();
        let complete = parts.iter().all(|part| self.said.contains(part));
        assert!(lines == 1 && complete, "{parts:?}: {self:?}");
    }
}

/// The errno of a result, if it is an error.
fn errno<T>(result: std::io::Result<T>) -> Option<Errno> {
    let code = result.err()?.raw_os_error()?;
    Some(Errno::from_raw_os_error(code))
}
