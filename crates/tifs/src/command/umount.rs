//! `tifs umount`: unmounts a volume, and waits until it is closed.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use serde_json::json;

use super::mounts::{self, Mount};
use super::{Global, output, volumes};

/// How long to wait for other namespaces: many last for moments only, as those of a service that starts.
const PATIENCE: Duration = Duration::from_secs(2);

/// Unmount a volume
///
/// Returns when everything is durable and the volume can be mounted again. Fails if files are open in
/// the mount or a process works in it. If the last changes cannot be made durable, it unmounts and
/// fails. Also fails if it is mounted at another place or in another
/// namespace, such as that of a container: then everything is durable, but the volume stays in use.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Where the volume is mounted.
    mountpoint: PathBuf,
}

const EXAMPLES: &str = "Examples:
  tifs umount /mnt/files";

pub(super) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    let mount = unmount(args)?;
    if global.json {
        // JSON has only UTF-8. Other bytes of the paths are replaced.
        let dir = mount.source.to_string_lossy();
        let mountpoint = mount.mountpoint.to_string_lossy();
        output::json(&json!({ "dir": dir, "mountpoint": mountpoint }))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Unmounts, and returns the mount that was there.
fn unmount(args: &Args) -> Result<Mount> {
    let path = real_path(&args.mountpoint)?;
    let mount = mounts::at(&path).context("cannot read the table of mounts")?;
    let Some(mount) = mount.filter(Mount::is_tifs) else {
        bail!("no volume is mounted at {}", args.mountpoint.display());
    };
    // The process that serves the mount has it locked. Opened before unmounting: this is the file
    // that is locked, even if another is made in its place.
    let lock = File::options()
        .read(true)
        .write(true)
        .open(volumes::lock_file(Path::new(&mount.source)));
    let synced = sync(&path).map_err(|e| tifs::error::reason(&e.into()));
    match rustix::mount::unmount(&path, UnmountFlags::empty()) {
        Ok(()) => {}
        Err(Errno::BUSY) => bail!(
            "{} is busy: files are open there, or a process works there (fuser -vm {0} shows which)",
            args.mountpoint.display()
        ),
        Err(Errno::PERM) => {
            bail!("only root can unmount a volume (the capability CAP_SYS_ADMIN is needed)")
        }
        Err(e) => {
            return Err(e).with_context(|| format!("cannot unmount {}", args.mountpoint.display()));
        }
    }
    if is_mounted_elsewhere(&mount) {
        // Several mounts only read; the volume remains in use, and has nothing to write.
        return Ok(mount);
    }
    let lock = match lock {
        // The same: nobody writes there.
        Err(e) if e.kind() == ErrorKind::ReadOnlyFilesystem => return Ok(mount),
        lock => lock,
    };
    let lock = lock.with_context(|| {
        format!(
            "unmounted, but whether the volume in {} is closed is not known",
            Path::new(&mount.source).display()
        )
    })?;
    let elsewhere =
        wait_until_closed(&lock, &mount).context("cannot wait until the volume is closed")?;
    match (elsewhere, synced) {
        (None, Ok(())) => Ok(mount),
        // Whether closing the volume did what the sync could not, only its process knows.
        (None, Err(e)) => bail!(
            "unmounted {}, but the last changes may be lost: they could not be made durable before ({e}). \
             If closing the volume in {} failed, too, the messages of its process say so",
            args.mountpoint.display(),
            Path::new(&mount.source).display()
        ),
        (Some(elsewhere), synced) => {
            let durable = match synced {
                Ok(()) => "everything is durable".to_owned(),
                Err(e) => format!("not everything is durable ({e})"),
            };
            bail!(
                "unmounted {}, and {durable}; but the volume stays in use, because {elsewhere}",
                args.mountpoint.display()
            )
        }
    }
}

/// Waits until the volume of a mount that was taken away is closed. If it is mounted elsewhere, and that
/// does not end, says where.
fn wait_until_closed(lock: &File, mount: &Mount) -> rustix::io::Result<Option<String>> {
    let began = Instant::now();
    loop {
        // ORDER: the lock can be taken when the process has closed the volume, and so has synced it.
        match rustix::fs::fcntl_lock(lock, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::AGAIN | Errno::ACCESS) => {}
            result => return result.map(|()| None),
        }
        let Some(elsewhere) = mounts::anywhere(mount) else {
            let wait = || rustix::fs::fcntl_lock(lock, FlockOperation::LockExclusive);
            return rustix::io::retry_on_intr(wait).map(|()| None);
        };
        if began.elapsed() >= PATIENCE {
            return Ok(Some(elsewhere));
        }
        // Nothing tells when a namespace ends.
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Makes everything in the mount at `path` durable: the kernel writes what it has, then the volume
/// syncs. Closing the volume does that, too, but it stays open if another namespace has the mount.
fn sync(path: &Path) -> rustix::io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = match rustix::fs::open(path, flags, Mode::empty()) {
        // Its process has ended.
        Err(Errno::NOTCONN) => return Ok(()),
        root => root?,
    };
    // If a file could not be written, that is for the program to know which wrote it; all else is synced.
    let _ = rustix::fs::syncfs(&root);
    rustix::fs::fsync(&root)
}

/// Whether the volume of a mount that has been taken away has another mount, with a process of its own.
fn is_mounted_elsewhere(mount: &Mount) -> bool {
    let others = mounts::all().unwrap_or_default();
    others.iter().any(|other| {
        other.is_tifs() && other.source == mount.source && other.device != mount.device
    })
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
