//! `tifs umount`: unmounts a volume, and waits until it is closed.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use super::{mounts, volumes};

/// Unmount a volume
///
/// Returns when everything is durable and the volume can be mounted again. Fails if files are open in
/// the mount or a process works in it.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Where the volume is mounted.
    mountpoint: PathBuf,
}

const EXAMPLES: &str = "Examples:
  tifs umount /mnt/files";

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    let path = real_path(&args.mountpoint)?;
    let mount = mounts::at(&path).context("cannot read the table of mounts")?;
    let Some(mount) = mount.filter(mounts::Mount::is_tifs) else {
        bail!("no volume is mounted at {}", args.mountpoint.display());
    };
    // The process that serves the mount has it locked. Opened before unmounting: this is the file
    // that is locked, even if another is made in its place.
    let lock = File::options()
        .read(true)
        .write(true)
        .open(volumes::lock_file(Path::new(&mount.source)));
    match rustix::mount::unmount(&path, UnmountFlags::empty()) {
        Ok(()) => {}
        Err(Errno::BUSY) => bail!(
            "{} is busy: files are open there, or a process works there (fuser -vm {0} shows which)",
            args.mountpoint.display()
        ),
        Err(e) => {
            return Err(e).with_context(|| format!("cannot unmount {}", args.mountpoint.display()));
        }
    }
    let lock = lock.with_context(|| {
        format!(
            "unmounted, but whether the volume in {} is closed is not known",
            Path::new(&mount.source).display()
        )
    })?;
    // ORDER: the lock can be taken when the process has closed the volume, and so has synced it.
    rustix::io::retry_on_intr(|| rustix::fs::fcntl_lock(&lock, FlockOperation::LockExclusive))
        .context("cannot wait until the volume is closed")?;
    Ok(ExitCode::SUCCESS)
}

/// The path of a mount without links. The root of a mount whose process has ended cannot be reached, but
/// the directory that it is in can.
fn real_path(path: &Path) -> Result<PathBuf> {
    let unreachable = match path.canonicalize() {
        Ok(real) => return Ok(real),
        Err(e) => e,
    };
    let parent = match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => Path::new("/"),
    };
    match (parent.canonicalize(), path.file_name()) {
        (Ok(parent), Some(name))
            if unreachable.raw_os_error() == Some(Errno::NOTCONN.raw_os_error()) =>
        {
            Ok(parent.join(name))
        }
        _ => Err(unreachable).with_context(|| format!("mount point {}", path.display())),
    }
}
