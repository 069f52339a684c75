//! `tifs mount`: mounts a volume and serves it until it is unmounted.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use anyhow::{Context, Result, anyhow, bail};
use rustix::io::Errno;
use serde_json::json;
use tifs::file_system::FileSystem;
use tifs::fuse::{Session, Unmounter};
use tifs::log;
use tifs::observed::{Observed, SlowOperation};
use tifs::subtree::Subtree;
use tifs::volume::Volume;

use super::mount_options::{self, MountOptions};
use super::volumes::{self, Access};
use super::{Global, daemon, mounts, output};

/// Mount a volume, and make it if there is none
///
/// Returns when the mount answers; a process in the background then serves it until it is unmounted.
/// With --foreground the command itself serves it. When it is told to end, by SIGTERM or Ctrl-C, it
/// unmounts; if files are still open there, it takes the mount point away and goes on until they are
/// closed. A second signal ends it at once.
///
/// Messages of a process in the background are in the file tifs.log in the directory of the volume,
/// unless that is on a read-only file system.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Directory of the volume.
    dir: PathBuf,
    /// Where to mount it: a directory.
    mountpoint: PathBuf,
    /// Serve the mount in this process, and return when it is unmounted.
    #[arg(long)]
    foreground: bool,
    /// Options, separated by commas: ro, nodev, nosuid, noexec, sync, noatime, relatime (the default),
    /// strictatime, subdir=PATH (mount only this directory of the volume), threads=N (4), fast_wakeups,
    /// nofast_wakeups (keep idle processors awake while programs ask, or not; by default in small virtual
    /// machines), slow=TIME (1s), log=FILE. An operation that takes TIME or longer is a line among the
    /// messages; slow=0s shows all operations.
    #[arg(short, value_name = "OPTIONS")]
    options: Vec<String>,
    /// This process was started to serve the mount in the background.
    #[arg(long, hide = true)]
    background: bool,
}

const EXAMPLES: &str = "Examples:
  tifs mount /srv/volume /mnt/files
  tifs mount /srv/volume /mnt/files -o ro,nosuid
  tifs mount /srv/volume /home/ada -o subdir=home/ada
  tifs mount /srv/volume /mnt/files --foreground";

impl Args {
    /// To mount in the background.
    pub(super) fn new(dir: PathBuf, mountpoint: PathBuf, options: Vec<String>) -> Self {
        Args {
            dir,
            mountpoint,
            foreground: false,
            options,
            background: false,
        }
    }
}

pub(super) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    let options = mount_options::parse(args.options.iter().map(String::as_str));
    let options = options.map_err(|e| anyhow!(e))?;
    let mountpoint = checked_mountpoint(&args.mountpoint)?;
    let dir = checked_dir(&args.dir, &mountpoint, &options)?;
    if args.foreground || args.background {
        serve(&dir, &mountpoint, options, args.background)?;
        return Ok(ExitCode::SUCCESS);
    }
    let program = std::env::current_exe().context("cannot find this program")?;
    let mut command = Command::new(program);
    command
        .args(["mount", "--background"])
        .args([&dir, &mountpoint]);
    for options in &args.options {
        command.args(["-o", options]);
    }
    let Some(process) = daemon::start(command)? else {
        return Ok(ExitCode::FAILURE);
    };
    if global.json {
        let said = json!({ "dir": dir, "mountpoint": mountpoint, "pid": process.id() });
        output::json(&said)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The mount point without links.
///
/// # Errors
/// It is no directory, or a volume is mounted there already.
fn checked_mountpoint(path: &Path) -> Result<PathBuf> {
    let found = path
        .canonicalize()
        .and_then(|real| Ok((real.metadata()?.is_dir(), real)));
    let (is_directory, mountpoint) = match found {
        Ok(found) => found,
        Err(e) if e.raw_os_error() == Some(Errno::NOTCONN.raw_os_error()) => bail!(
            "{} is a mount whose process has ended: unmount it first, with tifs umount {0}",
            path.display()
        ),
        Err(e) => return Err(e).with_context(|| format!("mount point {}", path.display())),
    };
    if !is_directory {
        bail!("mount point {} is no directory", path.display());
    }
    let there = mounts::at(&mountpoint).context("cannot read the table of mounts")?;
    if let Some(mount) = there.filter(mounts::Mount::is_tifs) {
        bail!(
            "mount point {} is busy: the volume in {} is mounted there",
            path.display(),
            Path::new(&mount.source).display()
        );
    }
    Ok(mountpoint)
}

/// The directory of the volume without links. If it has no volume, one is made.
///
/// # Errors
/// It is above or below the mount point: the mount would hide its own files.
fn checked_dir(dir: &Path, mountpoint: &Path, options: &MountOptions) -> Result<PathBuf> {
    if !Path::new("/dev/fuse").exists() {
        bail!("there is no /dev/fuse: load the module fuse, or give the container the device");
    }
    if !options.session.read_only && !volumes::has_database(dir) {
        volumes::make(dir)?
            .close()
            .with_context(|| format!("cannot close the volume in {}", dir.display()))?;
    }
    let real = dir
        .canonicalize()
        .with_context(|| format!("volume {}", dir.display()))?;
    if real.starts_with(mountpoint) || mountpoint.starts_with(&real) {
        bail!(
            "the volume {} and the mount point {} must not be inside one another",
            real.display(),
            mountpoint.display()
        );
    }
    Ok(real)
}

/// Serves the volume until it is unmounted, and closes it.
fn serve(dir: &Path, mountpoint: &Path, mut options: MountOptions, background: bool) -> Result<()> {
    let access = if options.session.read_only {
        Access::Read(options.access_time)
    } else {
        Access::Write(options.access_time)
    };
    let volume = Arc::new(volumes::open(dir, access)?);
    // After that, so that a directory without a volume is left as it is.
    let log = background
        .then(|| daemon::open_log(options.log.as_deref(), dir))
        .transpose()?;
    let cleaner = volume
        .start_background(|error| log::say(format_args!("work in the background failed: {error}")))
        .context("cannot start a thread")?;
    options.session.source = dir
        .to_str()
        .with_context(|| format!("the path {} is not UTF-8", dir.display()))?
        .to_owned();
    let mut file_system: Arc<dyn FileSystem> = Arc::clone(&volume) as _;
    if let Some(path) = &options.subdirectory {
        let subtree = Subtree::new(file_system, path.as_bytes())
            .with_context(|| format!("cannot mount the directory {path} of the volume"))?;
        file_system = Arc::new(subtree);
    }
    let observed = Arc::new(Observed::new(file_system, options.slow, report));
    let session = Session::mount(observed, mountpoint, &options.session)
        .with_context(|| format!("cannot mount at {}", mountpoint.display()))?;
    let signals = handle_signals(session.unmounter(), Arc::clone(&volume), mountpoint);
    let started = signals.and_then(|()| log.as_ref().map_or(Ok(()), daemon::ready));
    if started.is_err() {
        // What made it fail is the error to report.
        let _ = session.unmounter().detach();
    }
    let served = session.wait().context("the session failed");
    drop(cleaner);
    let closed = volume
        .close()
        .with_context(|| format!("cannot close the volume in {}", dir.display()));
    started.and(served).and(closed)
}

/// Shows an operation that took long.
fn report(slow: &SlowOperation) {
    let when = humantime::format_rfc3339_millis(SystemTime::now());
    let of = match slow.inode {
        Some(inode) => format!(" of inode {}", inode.0),
        None => String::new(),
    };
    let end = if slow.failed { " and failed" } else { "" };
    let took = slow.took.as_secs_f64() * 1e3;
    log::say(format_args!(
        "{when} slow: {}{of} took {took:.3} ms{end}",
        slow.name
    ));
}

/// Lets signals unmount: see [`Args`].
fn handle_signals(unmounter: Unmounter, volume: Arc<Volume>, mountpoint: &Path) -> Result<()> {
    let mountpoint = mountpoint.to_owned();
    let asked_before = AtomicBool::new(false);
    let handler = move || {
        if asked_before.swap(true, Ordering::Relaxed) {
            log::say("ended by a second signal, with files open in the mount");
            // Not closed: programs may still change it, and the counters of a volume that was closed
            // would lack what they do.
            if let Err(error) = volume.sync() {
                log::say(error);
            }
            std::process::exit(1);
        }
        let unmounted = match unmounter.unmount() {
            Err(e) if e.raw_os_error() == Some(Errno::BUSY.raw_os_error()) => {
                log::say(format_args!(
                    "files are open in {}: it is served until they are closed",
                    mountpoint.display()
                ));
                unmounter.detach()
            }
            result => result,
        };
        if let Err(error) = unmounted {
            log::say(format_args!(
                "cannot unmount {}: {error}",
                mountpoint.display()
            ));
        }
    };
    ctrlc::set_handler(handler).context("cannot handle signals")
}
