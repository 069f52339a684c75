//! The directory of a database, and what ends together with its process.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{FallocateFlags, fallocate};
use tempfile::TempDir;
use titan_testkit::ledger::End;

use crate::disk::{Disk, run};
use crate::memory_group::MemoryGroup;
use crate::mode::Mode;
use crate::process::Life;

/// Bytes of the file systems.
const POWER_DISK: u64 = 1 << 30;
const SMALL_DISK: u64 = 72 << 20;
/// Bytes of the file that takes space from a database, and is deleted to free it.
const BALLAST: u64 = 48 << 20;
/// Bytes of memory in a group.
pub(crate) const MEMORY: u64 = 256 << 20;

/// A directory for one database and its records. All of it is deleted at the end.
pub(crate) struct Environment {
    disk: Option<Disk>,
    group: Option<MemoryGroup>,
    work: TempDir,
    program: PathBuf,
}

impl Environment {
    /// Prepares the directory of a mode for the stressed `program`.
    ///
    /// # Errors
    /// The names of programs and rights that are missing.
    pub(crate) fn prepare(mode: Mode, program: &Path) -> Result<Environment, String> {
        let work = tempfile::Builder::new().prefix("titan-stress-").tempdir();
        let work = work.map_err(|e| format!("a temporary directory: {e}"))?;
        let (disk, group) = match mode {
            Mode::Kill => (None, None),
            Mode::Power => (Some(Disk::create(work.path(), POWER_DISK)?), None),
            Mode::Full => (Some(Disk::create(work.path(), SMALL_DISK)?), None),
            Mode::Memory => (None, Some(MemoryGroup::create(MEMORY)?)),
        };
        Ok(Environment {
            disk,
            group,
            work,
            program: program.to_owned(),
        })
    }

    /// The path of a record file.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.work.path().join(name)
    }

    /// The directory of the database.
    pub(crate) fn database(&self) -> PathBuf {
        self.disk
            .as_ref()
            .map_or(self.work.path(), Disk::path)
            .join("db")
    }

    /// Starts a life.
    pub(crate) fn start(&self, plan: &Path) -> Result<Life, String> {
        let mut command = match &self.group {
            Some(group) => group.command(self.program.as_os_str()),
            None => Command::new(&self.program),
        };
        command.arg(plan);
        let life = Life::start(command, &self.file("record"), &self.file("complaints"));
        life.map_err(|e| format!("starting {}: {e}", self.program.display()))
    }

    /// Ends a life, and what ends with it.
    pub(crate) fn end(&mut self, end: End, life: &mut Life) -> Result<(), String> {
        let failing = self.disk.as_mut().filter(|_| end == End::Machine);
        if let Some(disk) = &failing {
            disk.fail()?;
        }
        life.kill().map_err(|e| format!("killing: {e}"))?;
        failing.map_or(Ok(()), Disk::recover)
    }

    /// Samples what changes during a life.
    pub(crate) fn sample(&mut self) {
        if let Some(group) = &mut self.group {
            group.sample();
        }
    }

    /// The peak memory of the lives, if measured.
    pub(crate) fn peak_memory(&self) -> u64 {
        self.group.as_ref().map_or(0, MemoryGroup::peak)
    }

    /// Number of processes that were killed because memory ran out.
    pub(crate) fn killed_for_memory(&self) -> u64 {
        self.group.as_ref().map_or(0, MemoryGroup::killed)
    }

    fn ballast(&self) -> Option<PathBuf> {
        Some(self.disk.as_ref()?.path().join("ballast"))
    }

    /// In the mode with little space, allocates as much of it as possible.
    pub(crate) fn take_space(&self, mode: Mode) {
        let Some(path) = self
            .ballast()
            .filter(|path| mode == Mode::Full && !path.exists())
        else {
            return;
        };
        if let Ok(file) = File::create(path) {
            // What cannot be allocated is already in use.
            let _ = fallocate(&file, FallocateFlags::empty(), 0, BALLAST);
        }
    }

    /// Frees the space again.
    pub(crate) fn make_room(&self) {
        if let Some(path) = self.ballast() {
            // The file does not exist if it was deleted before.
            let _ = std::fs::remove_file(path);
        }
    }

    /// Keeps the files for people to examine, and returns their directory.
    pub(crate) fn keep(mut self) -> PathBuf {
        if let Some(disk) = self.disk.take() {
            let copy = run(Command::new("cp")
                .arg("-a")
                .arg(disk.path().join("db"))
                .arg(self.work.path()));
            if let Err(e) = copy {
                eprintln!("copying the database: {e}");
            }
        }
        self.work.keep()
    }
}

/// Bytes of the files in a directory.
pub(crate) fn directory_size(dir: &Path) -> u64 {
    let files = std::fs::read_dir(dir)
        .into_iter()
        .flatten()
        .filter_map(Result::ok);
    files
        .filter_map(|file| file.metadata().ok())
        .map(|data| data.len())
        .sum()
}
