//! Running in the background.
//!
//! A process with threads cannot fork. So the command starts itself again in the foreground, and
//! waits for a line on a pipe which says that the mount answers. Until then the new process shares
//! the standard error of the first one, so its errors are seen; afterwards it belongs to no
//! terminal.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

use super::volumes::Place;

/// The file in the directory of a volume for messages of mounts in the background.
const LOG: &str = "tifs.log";
/// The directory for the messages of mounts of clusters.
const LOGS: &str = "/var/log";

/// The line of the new process once the mount answers.
const READY: &str = "ready";
/// The descriptors of this process, by number.
const DESCRIPTORS: &str = "/proc/self/fd";
/// The last of the standard streams.
const STDERR: RawFd = 2;

/// Starts `command` and returns once it is ready. `None`: it ended before, and has printed the
/// reason to standard error.
pub(super) fn start(mut command: Command) -> Result<Option<Child>> {
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().context("cannot start a process")?;
    let mut line = String::new();
    if let Some(output) = child.stdout.take() {
        // An error here shows as the missing line.
        let _ = BufReader::new(output).read_line(&mut line);
    }
    if line.trim_end() == READY {
        return Ok(Some(child));
    }
    let status = child.wait().context("cannot wait for a process")?;
    if status.code().is_none() {
        bail!("the process that was to serve the mount ended with {status}");
    }
    Ok(None)
}

/// In the new process, before it opens anything: closes all but the standard streams and the
/// descriptor that `log` names, if it names one. Other open files of the command belong to its
/// caller, whose locks and pipes would otherwise last as long as the mount.
pub(super) fn close_inherited(log: Option<&Path>) {
    let Ok(open) = std::fs::read_dir(DESCRIPTORS) else {
        return;
    };
    let log = log.and_then(descriptor);
    let numbers: Vec<RawFd> = open
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    for number in numbers.into_iter().filter(|number| *number > STDERR) {
        if Some(number) != log {
            // That of the listing itself is closed already, which is the only error.
            let _ = nix::unistd::close(number);
        }
    }
}

/// The descriptor of this process that a path names.
fn descriptor(path: &Path) -> Option<RawFd> {
    let name = ["/dev/fd", DESCRIPTORS]
        .iter()
        .find_map(|dir| path.strip_prefix(dir).ok())?;
    name.to_str()?.parse().ok()
}

/// The file for messages of a mount in the background.
pub(super) struct Log {
    file: File,
    /// The path at which it was made.
    new: Option<PathBuf>,
}

impl Log {
    /// Opens the log at `path`, or the usual one: in the directory of a volume, or for the name of
    /// one on a cluster. Where that directory cannot be written, messages are lost.
    pub(super) fn open(path: Option<&Path>, place: &Place) -> Result<Log> {
        let usual = match place {
            Place::Directory(dir) => dir.join(LOG),
            Place::Cluster(url) => Path::new(LOGS).join(format!("tifs.{}.log", url.name)),
        };
        let log = path.unwrap_or(&usual);
        let mut options = OpenOptions::new();
        let (opened, new) = match options.append(true).create_new(true).open(log) {
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {
                (options.create_new(false).create(true).open(log), None)
            }
            made => (made, Some(log.to_owned())),
        };
        let opened = match opened {
            Err(e) if path.is_none() && e.kind() == ErrorKind::ReadOnlyFilesystem => {
                nothing().map(|file| Log { file, new: None })
            }
            opened => opened.map(|file| Log { file, new }),
        };
        opened.with_context(|| format!("cannot write the log {}", log.display()))
    }

    /// Removes it if it is new: nothing was mounted.
    pub(super) fn discard(self) {
        if let Some(path) = self.new {
            // The failure of the mount is the error to report.
            let _ = std::fs::remove_file(path);
        }
    }
}

fn nothing() -> std::io::Result<File> {
    OpenOptions::new().write(true).open("/dev/null")
}

/// In the new process: leaves the terminal, tells the process that waits, and sends later messages
/// to `log`.
pub(super) fn ready(log: &Log) -> Result<()> {
    // It fails only for the leader of a group, which belongs to no terminal of others then.
    let _ = rustix::process::setsid();
    let nothing = nothing().context("cannot open /dev/null")?;
    // ORDER: the directory is left before the process that waits returns, or its caller could not
    // unmount the file system that has the directory.
    std::env::set_current_dir("/").context("cannot leave the directory")?;
    let mut output = std::io::stdout();
    writeln!(output, "{READY}")
        .and_then(|()| output.flush())
        .context("cannot tell that the mount is ready")?;
    rustix::stdio::dup2_stdout(&nothing).context("cannot close standard output")?;
    rustix::stdio::dup2_stderr(&log.file).context("cannot redirect standard error")?;
    Ok(())
}
