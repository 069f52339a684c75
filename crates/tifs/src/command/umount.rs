//! `tifs umount`: unmounts a volume, and waits until it is closed.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use serde_json::json;
use tifs::kv::RemoteUrl;

use super::mounts::{self, Mount};
use super::volume_lock::VolumeLock;
use super::{Global, clusters, output, volumes};

/// The time to wait for other namespaces: many last for moments only, as those of a service that
/// starts.
const PATIENCE: Duration = Duration::from_secs(2);

/// Unmount a volume
///
/// Returns when everything is durable and the volume can be mounted again. Fails if files are open
/// in the mount or a process works in it. If the last changes cannot be made durable, it unmounts
/// and fails. If the process that served the mount was killed, it removes the mount and says so.
/// Also fails if the volume is mounted at another place or in another namespace, such as that of a
/// container: everything is durable then, but the volume stays in use.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The mount point, or the address of a volume on a cluster.
    mountpoint: PathBuf,
}

const EXAMPLES: &str = "Examples:
  tifs umount /mnt/files
  tifs umount tikv://pd1:2379/files";

pub(super) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    let address = { args.mountpoint.to_str() }.filter(|text| RemoteUrl::is_one(text));
    let mountpoint = match address.map(RemoteUrl::parse_place).transpose()? {
        Some(url) => {
            clusters::mount_of(&url)
                .with_context(|| format!("no volume {url} is mounted here"))?
                .mountpoint
        }
        None => args.mountpoint.clone(),
    };
    let mount = unmount(&mountpoint)?;
    if global.json {
        // JSON has only UTF-8. Other bytes of the paths are replaced.
        let dir = mount.source.to_string_lossy();
        let mountpoint = mount.mountpoint.to_string_lossy();
        output::json(&json!({ "dir": dir, "mountpoint": mountpoint }))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The durable part of the mount's content.
enum Durable {
    All,
    /// The process that served it has ended.
    ProcessEnded,
    NotAll(String),
}

impl Durable {
    /// Makes everything in the mount at `path` durable. Closing the volume does that, too, but it
    /// stays open if another namespace has the mount.
    fn make(path: &Path) -> Durable {
        match mounts::sync(path) {
            Ok(()) => Durable::All,
            Err(e) if mounts::has_ended(e) => Durable::ProcessEnded,
            Err(e) => Durable::NotAll(tifs::error::reason(&e.into())),
        }
    }
}

/// Unmounts, and returns the mount that was there.
fn unmount(mountpoint: &Path) -> Result<Mount> {
    let path = real_path(mountpoint)?;
    let mount = mounts::at(&path).context("cannot read the table of mounts")?;
    let Some(mount) = mount.filter(Mount::is_tifs) else {
        bail!("no volume is mounted at {}", mountpoint.display());
    };
    // Opened before unmounting: its process has locked this directory, even if something else gets
    // the name.
    let dir = volumes::directory_of(&mount);
    let closing = volumes::url_of(&dir)?.map(|url| clusters::Closing::begin(&url));
    let lock = VolumeLock::open(&dir);
    let durable = Durable::make(&path);
    match rustix::mount::unmount(&path, UnmountFlags::empty()) {
        Ok(()) => {}
        Err(Errno::BUSY) => bail!(
            "{} is busy: files are open there, or a process works there (fuser -vm {0} shows which)",
            mountpoint.display()
        ),
        Err(Errno::PERM) => {
            bail!("only root can unmount a volume (the capability CAP_SYS_ADMIN is needed)")
        }
        Err(e) => {
            return Err(e).with_context(|| format!("cannot unmount {}", mountpoint.display()));
        }
    }
    if is_mounted_elsewhere(&mount) {
        // Several mounts only read; the volume remains in use, and has nothing to write.
        return Ok(mount);
    }
    if let Some(closing) = closing {
        return closed_on_cluster(closing, mount, &durable);
    }
    let lock = lock.with_context(|| {
        format!(
            "unmounted, but whether the volume in {} is closed is not known",
            dir.display()
        )
    })?;
    let elsewhere =
        wait_until_closed(&lock, &mount).context("cannot wait until the volume is closed")?;
    let mountpoint = mountpoint.display();
    let said = match durable {
        Durable::All => "everything is durable".to_owned(),
        Durable::ProcessEnded => "its process had ended".to_owned(),
        Durable::NotAll(ref e) => format!("not everything is durable ({e})"),
    };
    match (elsewhere, durable) {
        (None, Durable::All) => {}
        // The mount is gone, as was asked for, but not everything is durable.
        (None, Durable::ProcessEnded) => output::warn(&format!(
            "unmounted {mountpoint}; the process that served it had ended before, so what programs wrote \
             last and did not sync may be lost"
        )),
        // Only its process knows whether closing the volume made the last changes durable.
        (None, Durable::NotAll(e)) => bail!(
            "unmounted {mountpoint}, but the last changes may be lost: they could not be made durable before \
             ({e}). If closing the volume in {} failed, too, the messages of its process say so",
            dir.display()
        ),
        (Some(elsewhere), _) => bail!(
            "unmounted {mountpoint}, and {said}; but the volume stays in use, because {elsewhere}"
        ),
    }
    Ok(mount)
}

/// Waits until the volume of a mount on a cluster is closed.
fn closed_on_cluster(
    closing: Result<clusters::Closing>,
    mount: Mount,
    durable: &Durable,
) -> Result<Mount> {
    let (mountpoint, volume) = (mount.mountpoint.display(), mount.source.display());
    let closed = closing
        .and_then(|closing| closing.wait())
        .with_context(|| {
            format!(
                "unmounted {mountpoint}, but whether the volume {volume} is closed is not known"
            )
        })?;
    match durable {
        _ if !closed => bail!("unmounted {mountpoint}, but the volume {volume} stays in use"),
        Durable::All => {}
        Durable::ProcessEnded => output::warn(&format!(
            "unmounted {mountpoint}; the process that served it had ended before, so what programs wrote \
             last and did not sync may be lost"
        )),
        Durable::NotAll(e) => bail!(
            "unmounted {mountpoint}, but the last changes may be lost: they could not be made durable before \
             ({e})"
        ),
    }
    Ok(mount)
}

/// Waits until the volume of a mount that was taken away is closed. If it is mounted elsewhere, and
/// that does not end, says where.
fn wait_until_closed(lock: &VolumeLock, mount: &Mount) -> rustix::io::Result<Option<String>> {
    let began = Instant::now();
    loop {
        // ORDER: the lock can be taken when the process has closed the volume, and so has synced
        // it.
        if lock.is_free(FlockOperation::NonBlockingLockExclusive) {
            return Ok(None);
        }
        let Some(elsewhere) = mounts::anywhere(mount) else {
            return lock.wait().map(|()| None);
        };
        if began.elapsed() >= PATIENCE {
            return Ok(Some(elsewhere));
        }
        // Nothing tells when a namespace ends.
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Whether the volume of a mount that has been taken away has another mount, with a process of its
/// own.
fn is_mounted_elsewhere(mount: &Mount) -> bool {
    let others = mounts::all().unwrap_or_default();
    others.iter().any(|other| {
        other.is_tifs() && other.source == mount.source && other.device != mount.device
    })
}

/// The path of a mount without links. The root of a mount whose process has ended cannot be
/// reached, but the directory that it is in can.
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
            if Errno::from_io_error(&unreachable).is_some_and(mounts::has_ended) =>
        {
            Ok(parent.join(name))
        }
        _ => Err(unreachable).with_context(|| format!("mount point {}", path.display())),
    }
}
