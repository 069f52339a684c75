//! A path of the operating system's file system, relative to a directory that may be open.
//!
//! Relative to an open directory, a path leads to the entries of that directory, even after the
//! directory's name has changed.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, StatVfs};
use rustix::io::{Errno, retry_on_intr};

/// See the [module](self).
#[derive(Clone, Copy)]
pub(super) struct At<'a> {
    directory: BorrowedFd<'a>,
    /// Relative to the directory, or absolute.
    name: &'a Path,
    /// The path as the engine has it, for errors.
    pub(super) path: &'a Path,
}

/// A path that leads to the directory itself.
fn or_dot(name: &Path) -> &Path {
    match name.as_os_str().is_empty() {
        true => Path::new("."),
        false => name,
    }
}

impl<'a> At<'a> {
    /// A path as the process has it.
    pub(super) fn of_process(path: &'a Path) -> Self {
        At {
            directory: CWD,
            name: or_dot(path),
            path,
        }
    }

    /// `name` in an open directory; `path` is for errors.
    pub(super) fn in_directory(directory: BorrowedFd<'a>, name: &'a Path, path: &'a Path) -> Self {
        At {
            directory,
            name: or_dot(name),
            path,
        }
    }

    /// The directory that this is in.
    pub(super) fn parent(self) -> Self {
        At {
            name: or_dot(self.name.parent().unwrap_or(self.name)),
            path: self.path.parent().unwrap_or(self.path),
            ..self
        }
    }

    /// Opens the file or directory with the name. The process's umask decides on the readers and
    /// writers of new files.
    pub(super) fn open(self, flags: OFlags) -> io::Result<File> {
        let (flags, mode) = (flags | OFlags::CLOEXEC, Mode::from_raw_mode(0o666));
        let opened = retry_on_intr(|| rustix::fs::openat(self.directory, self.name, flags, mode));
        Ok(opened?.into())
    }

    /// Creates a file to be written, or truncates it.
    pub(super) fn create(self, flags: OFlags) -> io::Result<File> {
        self.open(OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | flags)
    }

    pub(super) fn stat(self) -> io::Result<Stat> {
        Ok(rustix::fs::statat(
            self.directory,
            self.name,
            AtFlags::empty(),
        )?)
    }

    /// The device that has a directory.
    pub(super) fn device(self) -> io::Result<StatVfs> {
        let directory = self.open(OFlags::PATH | OFlags::DIRECTORY)?;
        Ok(rustix::fs::fstatvfs(directory)?)
    }

    pub(super) fn exists(self) -> io::Result<bool> {
        match self.stat() {
            Ok(_) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// For calls that change a name: no directory can be named by its own entries.
    fn with_name(self) -> Self {
        match self.name == Path::new(".") {
            true => At::of_process(self.path),
            false => self,
        }
    }

    pub(super) fn remove(self, flags: AtFlags) -> io::Result<()> {
        let this = self.with_name();
        Ok(rustix::fs::unlinkat(this.directory, this.name, flags)?)
    }

    pub(super) fn rename(self, to: At<'_>) -> io::Result<()> {
        let this = self.with_name();
        Ok(rustix::fs::renameat(
            this.directory,
            this.name,
            to.directory,
            to.name,
        )?)
    }

    pub(super) fn link(self, to: At<'_>) -> Result<(), Errno> {
        let flags = AtFlags::empty();
        rustix::fs::linkat(self.directory, self.name, to.directory, to.name, flags)
    }

    /// Creates a directory and those above it that are missing.
    pub(super) fn create_all(self) -> io::Result<()> {
        let create = || rustix::fs::mkdirat(self.directory, self.name, Mode::from_raw_mode(0o777));
        let mut created = create();
        if created == Err(Errno::NOENT) && self.name != self.parent().name {
            self.parent().create_all()?;
            // Once more only: the directory that it is in may have been removed.
            created = create();
        }
        match created {
            Err(Errno::EXIST) if self.is_directory() => Ok(()),
            made => Ok(made?),
        }
    }

    fn is_directory(self) -> bool {
        let is_so = |stat: Stat| FileType::from_raw_mode(stat.st_mode).is_dir();
        self.stat().is_ok_and(is_so)
    }

    /// The names in a directory that are UTF-8. Others cannot be the engine's.
    pub(super) fn names(self) -> io::Result<Vec<String>> {
        let directory = self.open(OFlags::RDONLY | OFlags::DIRECTORY)?;
        let mut names = Vec::new();
        for entry in Dir::new(directory)? {
            match entry?.file_name().to_str() {
                Ok("." | "..") | Err(_) => {}
                Ok(name) => names.push(name.to_owned()),
            }
        }
        Ok(names)
    }

    /// The absolute path that this has now, without links.
    pub(super) fn canonical(self) -> io::Result<PathBuf> {
        if self.directory.as_raw_fd() == CWD.as_raw_fd() {
            return std::fs::canonicalize(self.name);
        }
        // The kernel knows where an open directory is.
        let directory = format!("/proc/self/fd/{}", self.directory.as_raw_fd());
        std::fs::canonicalize(Path::new(&directory).join(self.name))
            .or_else(|_| std::fs::canonicalize(self.path))
    }
}
